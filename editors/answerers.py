"""Answerers that editors give while edits are applied: a graph, run on one probe after another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.parsing.answers import read_answer
from emend.agents.parsing.passages import read_passage
from emend.agents.roles.decompose import cloze_of
from emend.agents.scoring import ScoringModel, TextModel, is_chat_model
from emend.editors.base import NO_COST, Answerer, EditCost
from emend.graphs.direct import DirectContext
from emend.graphs.execution import Graph, run_graph
from emend.graphs.registry import GRAPHS
from emend.graphs.respond import RespondContext
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Answer, Probe, Step
from emend.memory.steps import keep_steps

DIRECT = "direct"
Respond = Callable[[Probe, Sequence[str] | None], Answer]
"""Answers a probe; with targets, gives their log-probabilities instead of a text; with (), only retrieves."""


@dataclass(frozen=True)
class FunctionAnswerer:
    """An answerer around one function.

    `cost` is that of the applied edits; `no_scores` says why a model that could score targets does not.
    """

    respond: Respond
    cost: EditCost = NO_COST
    no_scores: str = ""

    def answer(self, probe: Probe) -> Answer:
        """Generate an answer."""
        return self.respond(probe, None)

    def find(self, probe: Probe) -> Answer:
        """Retrieve, and build the prompt that answering would use; no reply is generated."""
        return self.respond(probe, ())


class ScoringAnswerer(FunctionAnswerer):
    """An answerer that also scores targets by log-probability."""

    def score(self, probe: Probe, targets: Sequence[str]) -> Answer:
        """The joint natural-log probability of each target, under the prompt that answering would use."""
        return self.respond(probe, targets)


def with_first_steps(answerer: FunctionAnswerer, steps: Sequence[Step]) -> Answerer:
    """The answerer, whose first answer also has the steps by which its edits were applied, before its own."""
    left = [tuple(steps)]

    def respond(probe: Probe, targets: Sequence[str] | None) -> Answer:
        answer = answerer.respond(probe, targets)
        try:
            return answer.but(steps=(*left.pop(), *answer.steps))  # of several threads one gets them
        except IndexError:
            return answer

    return replace(answerer, respond=respond)


def direct_answerer(model: BaseChatModel, wording: str, cost: EditCost = NO_COST) -> Answerer:
    """An answerer that calls the model once per probe, without a memory."""
    return graph_answerer(GRAPHS.load(DIRECT)(), DirectContext(model, wording), model, cost)


def graph_answerer(
    graph: Graph, context: RespondContext, scorer: BaseChatModel, cost: EditCost = NO_COST
) -> FunctionAnswerer:
    """An answerer that runs a graph; it is `Scorable` exactly when the model `scorer` gives probabilities.

    The graph may set how its reply is to be read, by `reading` in its final state.
    """

    def respond(probe: Probe, targets: Sequence[str] | None) -> Answer:
        state: dict[str, Any] = {"probe": probe}
        if targets is not None:
            state["targets"] = list(targets)
        elif probe.reading != "line":
            state |= {"reading": probe.reading, "new_tokens": probe.new_tokens}
        formed = _in_form(context, probe)
        final, steps = run_graph(graph, state, formed)
        try:
            return _answer(final, steps, cloze_of(probe), continues=not is_chat_model(formed.model))
        except ModelReplyError as error:
            error.usage = final["usage"]
            keep_steps(error, steps)
            raise

    kind = ScoringAnswerer if isinstance(scorer, ScoringModel) else FunctionAnswerer
    return kind(respond, cost, str(getattr(scorer, "no_scores", "")))


def _in_form(context: RespondContext, probe: Probe) -> RespondContext:
    """The context with a model that takes the probe's form."""
    model = context.model
    if probe.form != "plain" or not isinstance(model, TextModel) or not model.chats:
        return context
    return replace(context, model=model.plain())


def _answer(state: Mapping[str, Any], steps: tuple[Step, ...], cloze: str, *, continues: bool) -> Answer:
    """The answer in a graph's final state.

    Raises:
        ModelReplyError: the reasoning ends without an answer.
    """
    reply, reading = state.get("reply"), state.get("reading", "line")
    text = None if reply is None else read_answer(reply, reading, cloze, state["prompt"])
    exact = None if reply is None else read_answer(reply, reading, cloze, state["prompt"], full_stop=True)
    passage = None if reply is None or reading != "line" else read_passage(reply, continues)
    return Answer(
        text=text,
        exact_text=None if exact == text else exact,
        passage=None if passage == text else passage,
        reply=reply if reading == "thoughts" else None,
        log_probs=tuple(state.get("log_probs", ())),
        target_tokens=tuple(state.get("target_tokens", ())),
        greedy_tokens=tuple(state.get("greedy_tokens", ())),
        prompt=state["prompt"],
        retrieved=tuple(hit["edit_id"] for hit in state.get("hits", ())),
        cut_tokens=state["cut_tokens"],
        usage=state["usage"],
        steps=steps,
    )
