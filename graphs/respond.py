"""How every graph ends: one node that generates a reply, or scores targets, under the prompt that the graph built."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langgraph.runtime import Runtime
from typing_extensions import TypedDict  # typing's has no JSON schema before Python 3.12

from emend.agents.scoring import ScoringModel
from emend.memory.errors import ModelError
from emend.memory.probe import Usage


class RespondState(TypedDict, total=False):
    """JSON values: the prompt, `targets` when they are to be scored instead of a reply generated, and what came."""

    prompt: str
    targets: list[str]
    reply: str
    log_probs: list[float]
    usage: dict[str, int]
    cut_tokens: int


@dataclass(frozen=True)
class RespondContext:
    """What responding needs that is no JSON value."""

    model: BaseChatModel


C = TypeVar("C", bound=RespondContext)


def respond(state: RespondState, runtime: Runtime[C]) -> RespondState:
    """Scores the targets when the state has some, else generates a reply."""
    return speak(runtime.context.model, state["prompt"], state.get("targets"))


def speak(model: BaseChatModel, prompt: str, targets: Sequence[str] | None = None) -> RespondState:
    """What the model says to a prompt, or how probable it finds each target there.

    Returns:
        `reply` as it came, or `log_probs`, one joint natural-log probability per target; with `usage`, and
        `cut_tokens`, how much of the prompt did not fit the window.

    Raises:
        ModelError: targets are given to a model that has no probabilities.
    """
    return _generated(model, prompt) if targets is None else _scored(model, prompt, targets)


def _generated(model: BaseChatModel, prompt: str) -> RespondState:
    message = model.invoke(prompt)
    told: Any = message.usage_metadata or {}
    usage = Usage(input_tokens=told.get("input_tokens", 0), output_tokens=told.get("output_tokens", 0), calls=1)
    return {
        "reply": str(message.text),
        "usage": usage.model_dump(),
        "cut_tokens": int(message.response_metadata.get("cut_tokens", 0)),
    }


def _scored(model: BaseChatModel, prompt: str, targets: Sequence[str]) -> RespondState:
    if not isinstance(model, ScoringModel):
        raise ModelError(
            f"{type(model).__name__} gives no probabilities, and {len(targets)} targets are to be scored: "
            "use a local model ('tiny' or 'hf:FOLDER'), or metrics that read the reply."
        )
    scores = model.score(prompt, targets)
    return {
        "log_probs": list(scores.log_probs),
        "usage": scores.usage.model_dump(),
        "cut_tokens": scores.cut_tokens,
    }
