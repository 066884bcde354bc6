"""Protocols for models with log-probabilities, independent of any library."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, ModelError
from emend.memory.probe import Form, Usage
from emend.memory.typography import are_unspaced

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


class TargetScores(FrozenModel):
    """Joint natural-log probability of each target, its number of tokens, and the usage.

    `target_tokens` and `token_log_probs`, which sum to the joint one, are empty if the model does
    not provide them. `usage.input_tokens` counts the prompt once plus every target; `cut_tokens`
    counts the truncated tokens of the prompt.
    """

    log_probs: tuple[float, ...]
    target_tokens: tuple[int, ...] = ()
    token_log_probs: tuple[tuple[float, ...], ...] = ()
    greedy_tokens: tuple[int, ...] = ()
    """Number of tokens of each target that are the most probable ones after those before; empty if
    not given."""
    likely_tokens: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """For each target and each of its tokens the ids of that token and of the most probable ones,
    best first; empty if not given."""
    cut_tokens: int = 0
    usage: Usage = Usage()


_KEEPS_LIKELY: ContextVar[bool] = ContextVar("keeps_likely_tokens", default=False)


@contextmanager
def keep_likely_tokens(keep: bool) -> Iterator[None]:
    """Set whether scores made inside the `with` block include the most probable tokens, for scorers
    that compare them.
    """
    token = _KEEPS_LIKELY.set(keep)
    try:
        yield
    finally:
        _KEEPS_LIKELY.reset(token)


def keeps_likely_tokens() -> bool:
    """Return whether scores shall include the most probable tokens."""
    return _KEEPS_LIKELY.get()


@runtime_checkable
class ScoringModel(Protocol):
    """A chat model that can also score continuations."""

    def score(self, prompt: "str | Sequence[BaseMessage]", targets: Sequence[str]) -> TargetScores:
        """Score each target as the continuation of the prompt, see `join_target`.

        Only a model with a true attribute `chats` gets messages; the last may be the beginning of
        the reply.
        """


def is_local(model: object) -> bool:
    """Return whether the model runs in this process, so that its calls cost nothing and need no
    policy.

    The model's attribute `is_local` decides; a user's model without it is local if it can score.
    """
    return bool(getattr(model, "is_local", isinstance(model, ScoringModel)))


@runtime_checkable
class TextModel(Protocol):
    """A model that can continue plain text, and uses a chat template for messages if `chats` is
    true.
    """

    @property
    def chats(self) -> bool:
        """True if prompts go through a chat template."""

    def plain(self) -> Any:
        """Return this model without its chat template."""


def resolve_form(model: object, form: Form) -> Form:
    """Return the form in which to ask a model for a probe's `form`: `plain` text, or messages
    (`chat`).
    """
    if not is_chat_model(model):
        return "plain"
    return "plain" if form == "plain" and isinstance(model, TextModel) else "chat"


@runtime_checkable
class LimitedModel(Protocol):
    """A model that continues plain text up to `max_new_tokens`; a call may set another limit and
    stop texts.
    """

    max_new_tokens: int


def has_limit(model: object) -> TypeGuard[LimitedModel]:
    """Return whether a model is a `LimitedModel`; before Python 3.12, `isinstance` takes ten times
    as long.
    """
    return hasattr(model, "max_new_tokens")


# Number of parameters below which a local model is asked line by line.
SMALL = 3_000_000_000


def is_small_model(model: object) -> bool:
    """Return whether a model is local and too small to follow a format with several parts.

    The model's attribute `is_small` decides, if it has one.
    """
    declared = getattr(model, "is_small", None)
    if declared is not None:
        return bool(declared)
    network = getattr(getattr(model, "lm", None), "model", None)
    return network is not None and network.num_parameters() < SMALL


def is_chat_model(model: object) -> bool:
    """Return whether the model gets prompts as messages of a conversation instead of text to
    continue.

    The model's attribute `chats` decides; a model without it is a chat model unless it can score or
    has a limit of new tokens.
    """
    declared = getattr(model, "chats", None)
    if declared is not None:
        return bool(declared)
    return not isinstance(model, (LimitedModel, ScoringModel))


def perplexity(model: ScoringModel, text: str, prompt: str = "") -> float:
    """Return the exponential of minus the mean natural-log probability of a text's tokens; at least
    1.0.

    Every token of the text counts, each conditioned on those before it. Without a prompt the first
    token is conditioned on the tokenizer's begin token, or on its end token if it has no begin
    token, as in GPT-2's training; so the number of tokens is that of the text. With a prompt the
    text follows it as a target does, see `join_target`.

    Raises:
        BadData: the text is blank.
        ContextOverflow: the text does not fit the model's window; it is never truncated.
        ModelError: the model does not report token counts, or has no token to condition the first
            one on.
    """
    scores = model.score(prompt, [text])
    if not scores.target_tokens:
        raise ModelError(
            f"{type(model).__name__} does not report numbers of tokens, so {text[:60]!r} has no "
            "perplexity: use another model."
        )
    return math.exp(-min(scores.log_probs[0], 0.0) / scores.target_tokens[0])


def join_target(prompt: str, target: str) -> str:
    """Join prompt and target with one space, as DocTER does; the target is the scored end of the
    text.

    The space is omitted after an empty prompt or one that ends in white space, before a target that
    begins with white space, and between two letters of scripts written without spaces.

    Raises:
        BadData: the target is empty or blank.
    """
    if not target.strip():
        raise BadData(
            f"target {target!r} after prompt {prompt[-60:]!r} has no tokens: give one that is not "
            "empty."
        )
    apart = (
        not prompt
        or prompt[-1].isspace()
        or target[0].isspace()
        or are_unspaced(prompt[-1], target[0])
    )
    return prompt + ("" if apart else " ") + target
