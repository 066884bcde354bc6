"""Protocol of models that give probabilities, independent of any library that computes them."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, ModelError
from emend.memory.probe import Form, Usage
from emend.memory.typography import are_unspaced

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


class TargetScores(FrozenModel):
    """Joint natural-log probability of each target, the number of tokens it covers, and the usage.

    `target_tokens` and `token_log_probs`, whose sum is the joint one, are empty where a model does not give them.
    `usage.input_tokens` counts the prompt once and every target; `cut_tokens` are those of the prompt that did not fit.
    """

    log_probs: tuple[float, ...]
    target_tokens: tuple[int, ...] = ()
    token_log_probs: tuple[tuple[float, ...], ...] = ()
    greedy_tokens: tuple[int, ...] = ()
    """Number of tokens of each target that are the most probable ones after those before; empty if not given."""
    cut_tokens: int = 0
    usage: Usage = Usage()


@runtime_checkable
class ScoringModel(Protocol):
    """A chat model that also gives the probability of a continuation."""

    def score(self, prompt: "str | Sequence[BaseMessage]", targets: Sequence[str]) -> TargetScores:
        """Score each target as the continuation of the prompt, see `join_target`.

        Only a model whose attribute `chats` is true gets messages; the last may be the beginning of the reply.
        """
        ...


def is_local(model: object) -> bool:
    """Return whether calls of the model cost nothing and need no policy, because it runs in this process.

    A model says so by its attribute `is_local`; one of the user's own without it is local if it scores.
    """
    return bool(getattr(model, "is_local", isinstance(model, ScoringModel)))


@runtime_checkable
class TextModel(Protocol):
    """A model that takes messages through a chat template where `chats` is true, and can continue plain text."""

    @property
    def chats(self) -> bool:
        """True if prompts go through a chat template."""
        ...

    def plain(self) -> Any:
        """This model without the template."""
        ...


def resolve_form(model: object, form: Form) -> Form:
    """The form in which a model is asked when a probe wants `form`: `plain` text, or messages, `chat`."""
    if not is_chat_model(model):
        return "plain"
    return "plain" if form == "plain" and isinstance(model, TextModel) else "chat"


@runtime_checkable
class LimitedModel(Protocol):
    """A model that continues plain text up to `max_new_tokens`; a call may set another limit, and stop texts."""

    max_new_tokens: int


SMALL = 3_000_000_000
"""Parameters below which a local model is asked line by line."""


def is_small_model(model: object) -> bool:
    """True for a local model that is too small to keep to a form of several parts."""
    network = getattr(getattr(model, "lm", None), "model", None)
    return network is not None and network.num_parameters() < SMALL


def is_chat_model(model: object) -> bool:
    """Return whether prompts reach the model as the messages of a conversation, and not as a text to be continued.

    A model says so by its attribute `chats`; one without it chats unless it scores, or has a limit of new tokens.
    """
    declared = getattr(model, "chats", None)
    return not isinstance(model, (LimitedModel, ScoringModel)) if declared is None else bool(declared)


def perplexity(model: ScoringModel, text: str, prompt: str = "") -> float:
    """Return the exponential of minus the mean natural-log probability of a text's tokens; at least 1.0.

    Every token of the text counts, each conditioned on those before it. Without a prompt the first one is conditioned
    on the tokenizer's begin token, or on its end token where it has no begin token, as GPT-2 was trained; so the number
    of tokens is that of the text alone. With a prompt the text follows it as a target does, see `join_target`.

    Raises:
        BadData: the text is blank.
        ContextOverflow: the text does not fit the model's window; it is never cut.
        ModelError: the model gives no numbers of tokens, or has nothing to condition the first one on.
    """
    scores = model.score(prompt, [text])
    if not scores.target_tokens:
        raise ModelError(
            f"{type(model).__name__} gives no numbers of tokens, so {text[:60]!r} has no perplexity: take another."
        )
    return math.exp(-min(scores.log_probs[0], 0.0) / scores.target_tokens[0])


def join_target(prompt: str, target: str) -> str:
    """Return the text whose tail is scored: prompt, one space, target, as DocTER joins them.

    There is no space after an empty prompt or one that ends in white space, nor before a target that begins with it,
    nor between two letters of scripts that are written without spaces.

    Raises:
        BadData: the target is empty or blank.
    """
    if not target.strip():
        raise BadData(
            f"target {target!r} after prompt {prompt[-60:]!r} has no tokens: give a target that says something."
        )
    apart = not prompt or prompt[-1].isspace() or target[0].isspace() or are_unspaced(prompt[-1], target[0])
    return prompt + ("" if apart else " ") + target
