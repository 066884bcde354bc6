"""What editors lend while an edit stands: answerers around one function from a probe to an answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.roles.answer import read_answer
from emend.agents.scoring import ScoringModel
from emend.editors.base import NO_COST, Answerer, EditCost
from emend.graphs.direct import DirectContext
from emend.graphs.execution import Graph, keep_steps, run_graph
from emend.graphs.registry import GRAPHS
from emend.graphs.respond import RespondContext
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Answer, Probe, Reading, Step, Usage

DIRECT = "direct"
Respond = Callable[[Probe, Sequence[str] | None], Answer]
"""Answers a probe; given targets, gives their log-probabilities instead of a text; given none (), only finds."""


@dataclass(frozen=True)
class FunctionAnswerer:
    """Answers by a function; `cost` is what the edits took that stand behind it."""

    respond: Respond
    cost: EditCost = NO_COST

    def answer(self, probe: Probe) -> Answer:
        """Generate an answer."""
        return self.respond(probe, None)

    def find(self, probe: Probe) -> Answer:
        """What answering would find, with the prompt that it would use; no reply is generated."""
        return self.respond(probe, ())


class ScoringAnswerer(FunctionAnswerer):
    """The same, for a model that gives probabilities."""

    def score(self, probe: Probe, targets: Sequence[str]) -> Answer:
        """One joint natural-log probability per target, under the prompt that answering would use."""
        return self.respond(probe, targets)


def lend(model: BaseChatModel, respond: Respond, cost: EditCost = NO_COST) -> Answerer:
    """An answerer that is `Scorable` exactly when the model gives probabilities."""
    kind = ScoringAnswerer if isinstance(model, ScoringModel) else FunctionAnswerer
    return kind(respond, cost)


def direct(model: BaseChatModel, wording: str) -> Respond:
    """Answering with one call to the model as it stands."""
    return through(GRAPHS.load(DIRECT)(), DirectContext(model, wording))


def through(app: Graph, context: RespondContext) -> Respond:
    """Answering by a graph in that context; a graph may say how its reply is to be read."""

    def respond(probe: Probe, targets: Sequence[str] | None) -> Answer:
        state: dict[str, Any] = {"probe": probe.model_dump(mode="json")}
        if targets is not None:
            state["targets"] = list(targets)
        elif probe.reading != "line":
            state |= {"reading": probe.reading, "new_tokens": probe.new_tokens}
        final, steps = run_graph(app, state, context)
        try:
            return answer_from(final, steps, final.get("reading", "line"), cloze_of(probe))
        except ModelReplyError as error:
            error.usage = Usage(**final["usage"])
            keep_steps(error, steps)
            raise

    return respond


def cloze_of(probe: Probe) -> str:
    """The text that a reply is to continue; "" where a question is asked."""
    return probe.prompt if probe.style == "cloze" else ""


def answer_from(
    state: Mapping[str, Any], steps: tuple[Step, ...], reading: Reading = "line", cloze: str = ""
) -> Answer:
    """The answer that a graph's final state amounts to.

    Raises:
        ModelReplyError: thoughts do not come to an answer.
    """
    reply = state.get("reply")
    return Answer(
        text=None if reply is None else read_answer(reply, reading, cloze, state["prompt"]),
        reply=reply if reading == "thoughts" else None,
        log_probs=tuple(state.get("log_probs", ())),
        target_tokens=tuple(state.get("target_tokens", ())),
        prompt=state["prompt"],
        retrieved=tuple(hit["edit_id"] for hit in state.get("hits", ())),
        cut_tokens=state["cut_tokens"],
        usage=Usage(**state["usage"]),
        steps=steps,
    )
