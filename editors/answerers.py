"""Answerers of applied edits, each of which runs a graph on one probe after another."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.judging.prompt_file import JudgePrompt
from emend.agents.parsing.answers import read_answer
from emend.agents.parsing.passages import read_passage
from emend.agents.roles.decompose import cloze_of
from emend.agents.roles.instructions import (
    instruction_of,
    load_instructions,
    read_form,
    split_name,
)
from emend.agents.scoring import ScoringModel, TextModel, is_chat_model
from emend.editors.base import NO_COST, Answerer, EditCost
from emend.graphs.direct import DirectContext
from emend.graphs.execution import Graph, run_graph
from emend.graphs.registry import GRAPHS
from emend.graphs.respond import RespondContext, build_response, respond
from emend.memory.errors import BadSettings, ModelReplyError
from emend.memory.probe import Answer, Probe, Step
from emend.memory.steps import keep_steps

DIRECT = "direct"
# Fields of the final state that are needed to score targets after the same chain of thought.
CHAIN = ("probe", "prompt", "turns", "hits")
# Answers a probe. With targets it returns their log-probabilities instead of a text; with () it
# only retrieves.
Respond = Callable[[Probe, Sequence[str] | None], Answer]


@dataclass(frozen=True)
class FunctionAnswerer:
    """An answerer around one function.

    `cost` is the cost of the applied edits; `no_scores` is the reason why a model that could score
    targets does not.
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
        """Return the joint natural-log probability of each target after the answering prompt."""
        return self.respond(probe, targets)


def with_first_steps(answerer: FunctionAnswerer, steps: Sequence[Step]) -> Answerer:
    """Return an answerer whose first answer begins with the steps that applied its edits."""
    left = [tuple(steps)]

    def respond(probe: Probe, targets: Sequence[str] | None) -> Answer:
        answer = answerer.respond(probe, targets)
        try:
            # only one of several threads gets the steps
            return answer.but(steps=(*left.pop(), *answer.steps))
        except IndexError:
            return answer

    return replace(answerer, respond=respond)


def direct_answerer(model: BaseChatModel, wording: str, cost: EditCost = NO_COST) -> Answerer:
    """Return an answerer that calls the model once per probe, without a memory."""
    return graph_answerer(GRAPHS.load(DIRECT)(), DirectContext(model, wording), model, cost)


def graph_answerer(
    graph: Graph, context: RespondContext, scorer: BaseChatModel, cost: EditCost = NO_COST
) -> FunctionAnswerer:
    """Return an answerer that runs a graph; it is `Scorable` if `scorer` gives probabilities.

    The graph may set `reading` in its final state, which decides how its reply is read. If targets
    are scored right after the same probe was answered, its chain of thought is reused, not
    generated again.
    """
    earlier = LastChain()

    def respond_to(probe: Probe, targets: Sequence[str] | None) -> Answer:
        formed, form = _in_form(context, probe), _form_of(context, probe)
        chain = earlier.take(probe) if targets else None
        if chain is None:
            state = _state(probe, targets)
        else:
            state = {**chain, "targets": list(targets or ())}
        if form and targets is None:
            state |= {"reading": "whole", "new_tokens": probe.new_tokens}
        final, steps = run_graph(graph if chain is None else build_response(), state, formed)
        final = {**(chain or {}), **final}
        if form and final.get("reply"):
            final["reading"] = probe.reading
            final["reply"] = read_form(form, final["reply"]) or final["reply"]
        if targets is None:
            earlier.keep(probe, final, steps)
        try:
            return _answer(final, steps, cloze_of(probe), continues=not is_chat_model(formed.model))
        except ModelReplyError as error:
            error.usage = final["usage"]
            keep_steps(error, steps)
            raise

    kind = ScoringAnswerer if isinstance(scorer, ScoringModel) else FunctionAnswerer
    return kind(respond_to, cost, str(getattr(scorer, "no_scores", "")))


def _state(probe: Probe, targets: Sequence[str] | None) -> dict[str, Any]:
    """Return the initial state of the graph."""
    state: dict[str, Any] = {"probe": probe}
    if targets is not None:
        state["targets"] = list(targets)
    elif probe.reading != "line":
        state |= {"reading": probe.reading, "new_tokens": probe.new_tokens}
    return state


class LastChain(threading.local):
    """The final state of each thread's last answer, if a chain of model calls led to its prompt."""

    def __init__(self) -> None:
        self._probe: Probe | None = None
        self._state: dict[str, Any] = {}

    def keep(self, probe: Probe, state: Mapping[str, Any], steps: Sequence[Step]) -> None:
        """Keep the state if earlier calls led to the prompt that the last node, `respond`, used."""
        has_chain = steps[-1].node == respond.__name__ and any(step.calls for step in steps[:-1])
        self._probe = probe if has_chain else None
        self._state = {key: state[key] for key in CHAIN if key in state}

    def take(self, probe: Probe) -> dict[str, Any] | None:
        """Return the kept state once; None if it belongs to another probe."""
        is_last, self._probe = self._probe == probe, None
        return self._state if is_last else None


def _form_of(context: RespondContext, probe: Probe) -> JudgePrompt | None:
    """Return the instruction that defines the form of replies to the probe; None without a form."""
    path, _ = split_name(getattr(context, "wording", ""))
    instruction = instruction_of(load_instructions(path), probe.kind, has_facts=True)
    return instruction if instruction and instruction.form else None


def _in_form(context: RespondContext, probe: Probe) -> RespondContext:
    """Return the context with a model that matches the probe's form."""
    model = context.model
    if probe.form != "plain" or not isinstance(model, TextModel) or not model.chats:
        return context
    return replace(context, model=model.plain())


def _answer(
    state: Mapping[str, Any], steps: tuple[Step, ...], cloze: str, *, continues: bool
) -> Answer:
    """Return the answer in a graph's final state.

    Raises:
        ModelReplyError: the reasoning ends without an answer.
        BadSettings: no node asked the model.
    """
    if missing := [name for name in ("prompt", "usage", "cut_tokens") if name not in state]:
        raise BadSettings(
            f"the editor's graph ends without {', '.join(missing)}: let it end with the node "
            "`respond`, or with one that returns what `respond` returns."
        )
    reply, reading = state.get("reply"), state.get("reading", "line")
    text = exact = passage = None
    if reply is not None:
        text = read_answer(reply, reading, cloze, state["prompt"])
        exact = read_answer(reply, reading, cloze, state["prompt"], full_stop=True)
        if reading == "line":
            passage = read_passage(reply, continues)
    return Answer(
        text=text,
        exact_text=None if exact == text else exact,
        passage=None if passage == text else passage,
        reply=reply if reading == "thoughts" else None,
        log_probs=tuple(state.get("log_probs", ())),
        target_tokens=tuple(state.get("target_tokens", ())),
        greedy_tokens=tuple(state.get("greedy_tokens", ())),
        likely_tokens=tuple(state.get("likely_tokens", ())),
        prompt=state["prompt"],
        retrieved=tuple(hit["edit_id"] for hit in state.get("hits", ())),
        cut_tokens=state["cut_tokens"],
        usage=state["usage"],
        steps=steps,
    )
