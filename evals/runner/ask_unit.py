"""Asks an edited model everything that a case asks, and turns what it says into records and events."""

import threading
import time
from typing import Any, NamedTuple

from emend.agents.calls import recording
from emend.agents.providers.policy import repetition
from emend.editors.base import Answerer, Scorable
from emend.editors.memory_based.unedited import Unedited
from emend.evals.benchmarks.triples import UNTOLD
from emend.evals.case import Record
from emend.evals.log.events import event_of
from emend.evals.metrics.scorers import SCORE_BASELINE, ask_of, score
from emend.evals.metrics.scores import NO_BASELINE, NO_PROBABILITIES, Scores
from emend.evals.runner.baseline import Baseline, ask, needs_baseline, spent_until, usage_over
from emend.evals.runner.units import Pass, Unit
from emend.graphs.running import steps_of
from emend.memory.errors import BadSettings, ContextOverflow, ModelReplyError
from emend.memory.probe import Answer, Probe, Step, Usage
from emend.memory.redaction import hide_keys


class Stopped(Exception):
    """The run is ending; the unit in work is dropped and will be asked again on resume."""


class Asked(NamedTuple):
    """A finished unit: its records, and one event per step of the editor."""

    records: list[Record]
    events: list[dict[str, Any]]


class Said(NamedTuple):
    """What was said to one probe, how that scored, how long it took, and whether it was kept from before the edits."""

    answer: Answer
    scores: Scores
    seconds: float
    kept: bool = False


def ask_unit(run: Pass, unit: Unit, answerer: Answerer, baseline: Baseline, stop: threading.Event) -> Asked:
    """Ask all probes of a case.

    Raises:
        Stopped: the run is ending.
        Exception: what asking a probe raised, with the probe's id as `probe_id`.
    """
    asked = Asked([], [])
    for probe in unit.case.probes:
        if stop.is_set():
            raise Stopped
        try:
            with repetition(run.repeat):
                said = _one(run, answerer, probe, baseline)
        except Exception as error:
            error.probe_id = probe.id  # type: ignore[attr-defined]
            raise
        asked.records.append(_record(run, unit, probe, said))
        asked.events.extend(_events(run, unit, probe, said.answer))
    return asked


def _one(run: Pass, answerer: Answerer, probe: Probe, baseline: Baseline) -> Said:
    """The answer, its scores, and the seconds that the edited model took."""
    began = time.perf_counter()
    compared = needs_baseline(probe)
    kept = baseline.kept(probe, run.repeat) if compared and isinstance(run.editor, Unedited) else None
    try:
        answer = kept.said() if kept else heard(run.name, answerer, probe)
        no_use = None
    except (ModelReplyError, ContextOverflow) as error:  # an answer was given and is no use: that is a result
        answer, no_use = _of_no_use(error, probe), hide_keys(str(error))
    seconds = kept.seconds if kept else time.perf_counter() - began
    if no_use is not None:
        known = not SCORE_BASELINE.isdisjoint(probe.scorers)
        told = _compared(probe, Answer(), baseline, run.repeat) if known else score(probe, Answer())
        scores = Scores(told.values, dict.fromkeys(told.unscored, no_use))
    else:
        scores = _compared(probe, answer, baseline, run.repeat) if compared else score(probe, answer)
    if not isinstance(answerer, Scorable):
        scores = _by_whom(scores, run.name)
    found = hit_at_1(probe, answer)
    if found is not None:
        scores.values["hit@1"] = found
    elif _searched(answer) and UNTOLD in probe.tags:
        scores.unscored["hit@1"] = "no triplet was read out of the document, so that none can be found"
    return Said(answer, scores, seconds, bool(kept))


def heard(editor: str, answerer: Answerer, probe: Probe) -> Answer:
    """The answer; where the editor tells no steps, with one that has its calls to models, and with what they cost.

    Raises:
        BadSettings: the editor answers with something else than an `Answer`.
    """
    at, began = time.time(), time.perf_counter()
    with recording() as journal:
        answer: object = ask(answerer, probe, ask_of(probe, isinstance(answerer, Scorable)))
    if not isinstance(answer, Answer):
        raise BadSettings(
            f"editor '{editor}' answered with {answer!r:.80}, and not with an Answer: see docs/extend.md."
        )
    calls = journal.rest()
    if answer.steps or not calls:
        return answer
    update = {} if answer.text is None else {"reply": answer.text}
    step = Step(node="answer", update=update, ms=(time.perf_counter() - began) * 1000, at=at, place=1, calls=calls)
    usage = usage_over(calls) if answer.usage == Usage() else answer.usage
    return answer.but(steps=(step,), usage=usage)


def _by_whom(scores: Scores, editor: str) -> Scores:
    """Ours score wherever the model does; of a plug-in one cannot tell which of the two has no probabilities."""
    if ":" not in editor:
        return scores
    why = f"editor '{editor}' scores no targets: what its edit gives has no score, or the model no probabilities"
    told = {name: why if said == NO_PROBABILITIES else said for name, said in scores.unscored.items()}
    return Scores(scores.values, told)


def _of_no_use(error: ModelReplyError | ContextOverflow, probe: Probe) -> Answer:
    """What can be told of an answer that ended in an error: its reply, its steps and what they found and cost."""
    steps = steps_of(error)
    hits = next((step.update["hits"] for step in reversed(steps) if "hits" in step.update), ())
    reply = error.reply if isinstance(error, ModelReplyError) else None
    chain = probe.reading == "thoughts"  # which is no answer, and what judges look at
    return Answer(
        text=None if chain else reply,
        reply=reply if chain else None,
        steps=steps,
        usage=spent_until(error),
        retrieved=tuple(hit["edit_id"] for hit in hits or ()),
    )


def _compared(probe: Probe, answer: Answer, baseline: Baseline, repeat: int) -> Scores:
    """The scores beside what the unedited model says; where that is no use, only what looks at it is unscored."""
    try:
        return score(probe, answer, baseline.take(probe, repeat))
    except (ModelReplyError, ContextOverflow) as error:
        scores, why = score(probe, answer), f"the unedited model: {hide_keys(str(error))}"
        told = {name: why if reason.startswith(NO_BASELINE) else reason for name, reason in scores.unscored.items()}
        return Scores(scores.values, told)


def hit_at_1(probe: Probe, answer: Answer) -> float | None:
    """1.0 when the first retrieved entry is of an edit that bears on the probe; None where nothing was to be found."""
    if not probe.edit_ids or not _searched(answer):
        return None
    return float(bool(answer.retrieved) and answer.retrieved[0] in probe.edit_ids)


def _searched(answer: Answer) -> bool:
    return bool(answer.retrieved) or any("hits" in step.update for step in answer.steps)


def _record(run: Pass, unit: Unit, probe: Probe, said: Said) -> Record:
    answer, scores = said.answer, said.scores
    return Record(
        unit=unit.key,
        of=len(unit.case.probes),
        case=unit.case.id,
        probe=probe.id,
        kind=probe.kind,
        editor=run.name,
        model=run.model,
        setting=run.setting,
        mode=run.mode,
        repeat=run.repeat,
        prompt=probe.prompt,
        gold=probe.gold,
        rival=probe.rival,
        answer=answer.text,
        reply=answer.reply,
        log_probs=answer.log_probs,
        target_tokens=answer.target_tokens,
        values=scores.values,
        unscored=scores.unscored,
        retrieved=answer.retrieved,
        path=tuple(step.node for step in answer.steps),
        cut_tokens=answer.cut_tokens,
        usage=answer.usage,
        seconds=round(said.seconds, 6),
        kept=said.kept,
        standing=unit.standing,
        checkpoint=unit.checkpoint,
        edit_cost=unit.cost,
        tags=probe.tags,
    )


def _events(run: Pass, unit: Unit, probe: Probe, answer: Answer) -> list[dict[str, Any]]:
    head = {"unit": unit.key, "case": unit.case.id, "probe": probe.id, "editor": run.name}
    return [head | event_of(step) for step in answer.steps]
