"""Last node of every graph, which generates a reply or scores targets under the graph's prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.runtime import Runtime
from typing_extensions import TypedDict  # typing's has no JSON schema before Python 3.12

from emend.agents.calls import score_targets
from emend.agents.parsing.answers import (
    ANSWER_LABEL,
    NEXT_QUESTION,
    QUESTION_LABEL,
    thoughts_and_answer,
)
from emend.agents.parsing.messages import answer_text, read_usage
from emend.agents.roles.chain import ANSWER, conclude
from emend.agents.roles.completion import Completion, invoke
from emend.agents.roles.conversation import Prompt, as_json, as_text, from_json, lead_of
from emend.agents.scoring import (
    LimitedModel,
    ScoringModel,
    has_limit,
    is_chat_model,
    keeps_likely_tokens,
)
from emend.graphs.execution import Graph, linear_graph
from emend.memory.errors import ModelError
from emend.memory.probe import Reading, Usage

# Factor on the limit of new tokens for a one-line reply of a chat model, which answers in a
# sentence and ends it itself.
SENTENCE = 2
# Factor on the model's limit of new tokens for replies of several lines (256 tokens by default).
# Chat models behind an API end such a reply themselves.
LONGER = 8


class RespondState(TypedDict, total=False):
    """Prompt, `targets` to score instead of generating a reply, and response.

    `reading` is set if the reply has several lines; `final` is an answer that an earlier node
    already has. `turns` has the messages of a prompt to a chat model if there are several, and
    `prompt` is then their text. `fallback` says how the answer was obtained if the model did not
    follow the requested format. Each node gives the `usage` of its own calls, and the state has
    their sum.
    """

    prompt: str
    turns: list[dict[str, Any]]
    fallback: str
    targets: list[str]
    reading: Reading
    new_tokens: int
    final: str
    reply: str
    log_probs: list[float]
    target_tokens: list[int]
    greedy_tokens: list[int]
    likely_tokens: list[Any]
    usage: Annotated[Usage, Usage.plus]
    cut_tokens: int


@dataclass(frozen=True)
class RespondContext:
    """Context of a response, for values that cannot be JSON."""

    model: BaseChatModel


C = TypeVar("C", bound=RespondContext)


def respond(state: RespondState, runtime: Runtime[C]) -> RespondState:
    """Score the targets if the state has any; otherwise return the `final` answer or generate a
    reply.

    Returns:
        the unchanged `reply`, or `log_probs`, one joint natural-log probability per target; with
        `usage` and `cut_tokens`, the number of prompt tokens that did not fit the window. An empty
        list of targets needs no call.

    Raises:
        ModelError: there are targets, and the model gives no probabilities.
        ModelReplyError: the reply has thoughts only.
    """
    model, targets = runtime.context.model, state.get("targets")
    prompt = from_json(state["turns"]) if state.get("turns") else state["prompt"]
    if "final" in state and targets is None:
        return {"reply": state["final"], "cut_tokens": state.get("cut_tokens", 0)}
    if targets is None:
        return _generated(model, prompt, state.get("reading", "line"), state.get("new_tokens", 0))
    if targets:
        return _scored(model, prompt, targets)
    return {"log_probs": [], "usage": Usage(), "cut_tokens": 0}


def prompt_state(model: BaseChatModel, prompt: Prompt) -> RespondState:
    """Return the state fields of a prompt, in the form that is sent to the model."""
    if not is_chat_model(model):
        return {"prompt": prompt.text}
    turns = {"turns": as_json(prompt.turns)} if len(prompt.turns) > 1 else {}
    return cast(RespondState, {"prompt": as_text(prompt.turns), **turns})


def _generated(
    model: BaseChatModel, prompt: str | Sequence[BaseMessage], reading: Reading, new_tokens: int
) -> RespondState:
    options: dict[str, Any] = {}
    if reading != "line" and has_limit(model):
        limit = max(new_tokens, model.max_new_tokens) if new_tokens else _times(LONGER, model)
        labelled = reading == "whole" and str(prompt).endswith(ANSWER_LABEL)
        options = {
            "stop": [NEXT_QUESTION, *([QUESTION_LABEL] if labelled else [])],
            "max_new_tokens": limit,
        }
    elif new_tokens:  # a reasoning model needs more tokens; the user may have set `reply_limit`
        options = {"max_tokens": max(new_tokens, getattr(model, "reply_limit", 0))}
    elif has_limit(model) and is_chat_model(model):
        options = {"max_new_tokens": _times(SENTENCE, model)}
        if not isinstance(prompt, str) and lead_of(prompt):
            # The line is begun for the model, which may continue with further lines.
            options["stop"] = ["\n"]
    message = invoke(model, prompt, **options)
    answer = answer_text(message)  # raises if there are thoughts only
    if reading == "thoughts" and is_chat_model(model) and not thoughts_and_answer(answer)[1]:
        return _concluded(model, prompt, message, answer)
    return {
        "reply": str(message.text),
        "usage": read_usage(message),
        "cut_tokens": int(message.response_metadata.get("cut_tokens", 0)),
    }


def _concluded(
    model: BaseChatModel, prompt: str | Sequence[BaseMessage], message: AIMessage, answer: str
) -> RespondState:
    """Ask for the missing answer to a chain of thought, and return the completed response."""
    turns = (HumanMessage(prompt),) if isinstance(prompt, str) else tuple(prompt)
    cut_tokens = int(message.response_metadata.get("cut_tokens", 0))
    thought = conclude(
        model, Prompt(as_text(turns), turns), Completion(answer, read_usage(message), cut_tokens)
    )
    return {
        "reply": f"{thought.thoughts}\n{ANSWER} {thought.final}",
        "fallback": thought.fallback,
        "usage": thought.usage,
        "cut_tokens": max(cut_tokens, thought.cut_tokens),
    }


def _times(factor: int, model: LimitedModel) -> int:
    """Return a multiple of the model's limit of new tokens, within its window if that is known."""
    window = getattr(getattr(model, "lm", model), "window", None)
    tokens = factor * model.max_new_tokens
    return max(model.max_new_tokens, min(tokens, window - 1)) if window else tokens


def _scored(
    model: BaseChatModel, prompt: str | Sequence[BaseMessage], targets: Sequence[str]
) -> RespondState:
    if not isinstance(model, ScoringModel):
        raise ModelError(
            f"{type(model).__name__} returns no probabilities, but {len(targets)} targets must be "
            "scored: use a local model ('tiny' or 'hf:FOLDER'), or metrics that read the reply."
        )
    scores = score_targets(model, prompt, targets)
    likely: RespondState = {}
    if keeps_likely_tokens():
        likely = {"likely_tokens": list(scores.likely_tokens)}
    return likely | {
        "log_probs": list(scores.log_probs),
        "target_tokens": list(scores.target_tokens),
        "greedy_tokens": list(scores.greedy_tokens),
        "usage": scores.usage,
        "cut_tokens": scores.cut_tokens,
    }


@cache
def build_response() -> Graph:
    """Build a graph of the last node alone, for a prompt built by another graph."""
    return linear_graph("respond", RespondState, RespondContext, respond)
