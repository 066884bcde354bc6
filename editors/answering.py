"""What editors lend while an edit stands: answerers around one function from a probe to an answer."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.answer import build_prompt, read_answer
from emend.agents.calls import recording
from emend.agents.scoring import ScoringModel
from emend.editors.base import NO_COST, Answerer, EditCost
from emend.graphs.respond import speak
from emend.graphs.running import keep_steps
from emend.memory.probe import Answer, Probe, Reading, Step, Usage

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


def direct(model: BaseChatModel, wording: str, facts_for: Callable[[Probe], Sequence[str]] = lambda _: ()) -> Respond:
    """Answering with one call, under the facts that a function chooses for the probe; traced as one step."""

    def respond(probe: Probe, targets: Sequence[str] | None) -> Answer:
        at, began = time.time(), time.perf_counter()
        state: dict[str, Any] = {"prompt": build_prompt(probe, facts_for(probe), (), wording)}

        def step(error: str | None = None) -> Step:
            ms, calls = (time.perf_counter() - began) * 1000, journal.take(before=state, after=state)
            return Step(node="respond", update=state, ms=ms, error=error, at=at, place=1, calls=calls)

        with recording() as journal:
            try:
                state |= speak(model, state["prompt"], targets, probe.reading, probe.new_tokens)
            except Exception as error:
                keep_steps(error, (step(f"{type(error).__name__}: {error}"),))
                raise
        return answer_from(state, (step(),), probe.reading, cloze_of(probe))

    return respond


def cloze_of(probe: Probe) -> str:
    """The text that a reply is to continue; "" where a question is asked."""
    return probe.prompt if probe.style == "cloze" else ""


def answer_from(
    state: Mapping[str, Any], steps: tuple[Step, ...], reading: Reading = "line", cloze: str = ""
) -> Answer:
    """The answer that a graph's final state, or the one act of an editor without graph, amounts to."""
    reply = state.get("reply")
    return Answer(
        text=None if reply is None else read_answer(reply, reading, cloze),
        reply=reply if reading == "thoughts" else None,
        log_probs=tuple(state.get("log_probs", ())),
        target_tokens=tuple(state.get("target_tokens", ())),
        prompt=state["prompt"],
        retrieved=tuple(hit["edit_id"] for hit in state.get("hits", ())),
        cut_tokens=state["cut_tokens"],
        usage=Usage(**state["usage"]),
        steps=steps,
    )
