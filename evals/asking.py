"""Asks an edited model everything that a case asks, and turns what it says into records and events."""

import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from emend.editors.base import Answerer, Editor, Scorable
from emend.evals.case import Case, Record
from emend.evals.failures import hide_keys
from emend.evals.metrics.scorers import COMPARED, Ask, Scores, ask_of, score
from emend.evals.units import Pass, Unit
from emend.memory.errors import ContextOverflow, ModelReplyError
from emend.memory.probe import Answer, Probe


class Stopped(Exception):
    """The run is ending; the unit in work is dropped and will be asked again on resume."""


class Asked(NamedTuple):
    """A finished unit: its records, and one event per step of the editor."""

    records: list[Record]
    events: list[dict[str, Any]]


class Baseline:
    """What the unedited model says to the probes that are scored by agreement with it.

    Args:
        unedited: the editor that changes nothing, on the same model.
        eager: ask before the edit stands, because afterwards the model's weights are changed.
    """

    def __init__(self, unedited: Editor, eager: bool) -> None:
        self._unedited = unedited
        self._eager = eager
        self._kept: dict[str, Answer | ModelReplyError | ContextOverflow] = {}

    def prepare(self, cases: Iterable[Case]) -> None:
        """Ask what will be needed of these cases, if it must be asked early."""
        if self._eager:
            probes = (probe for case in cases for probe in case.probes if needs_baseline(probe))
            self._kept = {probe.id: self._ask(probe) for probe in probes}

    def take(self, probe: Probe) -> Answer:
        """The unedited model's answer; two cases may share a probe, so kept ones stay until the next `prepare`.

        Raises:
            ModelReplyError: the unedited model's reply could not be used.
        """
        said = self._kept.get(probe.id) or self._ask(probe)
        if isinstance(said, Exception):
            raise said
        return said

    def _ask(self, probe: Probe) -> Answer | ModelReplyError | ContextOverflow:
        try:
            with self._unedited.edit(()) as answerer:
                return ask(answerer, probe, ask_of(probe, isinstance(answerer, Scorable)))
        except (ModelReplyError, ContextOverflow) as error:
            return error


def needs_baseline(probe: Probe) -> bool:
    """Whether the probe is compared with what the unedited model says."""
    return not COMPARED.isdisjoint(probe.scorers)


def ask(answerer: Answerer, probe: Probe, wanted: Ask) -> Answer:
    """The text, the log-probabilities, or both, as one answer."""
    if not wanted.targets:
        return answerer.answer(probe)
    assert isinstance(answerer, Scorable)
    scored = answerer.score(probe, wanted.targets)
    if not wanted.text:
        return scored
    said = answerer.answer(probe)
    return said.but(
        log_probs=scored.log_probs,
        cut_tokens=max(said.cut_tokens, scored.cut_tokens),
        usage=said.usage.plus(scored.usage),
        steps=(*said.steps, *scored.steps),
    )


def ask_unit(run: Pass, unit: Unit, answerer: Answerer, baseline: Baseline, stop: threading.Event) -> Asked:
    """Ask all probes of a case.

    Raises:
        Stopped: the run is ending.
        Exception: what asking a probe raised, with the probe's id as `probe_id`.
    """
    scorable = isinstance(answerer, Scorable)
    asked = Asked([], [])
    for probe in unit.case.probes:
        if stop.is_set():
            raise Stopped
        try:
            answer, scores, seconds = _one(answerer, probe, ask_of(probe, scorable), baseline)
        except Exception as error:
            error.probe_id = probe.id  # type: ignore[attr-defined]
            raise
        asked.records.append(_record(run, unit, probe, answer, scores, seconds))
        asked.events.extend(_events(run, unit, probe, answer))
    return asked


def _one(answerer: Answerer, probe: Probe, wanted: Ask, baseline: Baseline) -> tuple[Answer, Scores, float]:
    """The answer, its scores, and the seconds that the edited model took."""
    began = time.perf_counter()
    try:
        answer = ask(answerer, probe, wanted)
        seconds = time.perf_counter() - began
        before = baseline.take(probe) if needs_baseline(probe) else None
    except (ModelReplyError, ContextOverflow) as error:  # an answer was given and is no use: that is a result
        reply = error.reply if isinstance(error, ModelReplyError) else None
        answer = Answer(text=reply, steps=getattr(error, "steps", ()))
        return answer, _all_unscored(probe, hide_keys(str(error))), time.perf_counter() - began
    scores = score(probe, answer, before)
    found = hit_at_1(probe, answer)
    if found is not None:
        scores.values["hit@1"] = found
    return answer, scores, seconds


def _all_unscored(probe: Probe, reason: str) -> Scores:
    """The outputs that the scorers would have given, each with the reason why it is missing."""
    outputs = score(probe, Answer()).unscored
    return Scores({}, dict.fromkeys(outputs, reason))


def hit_at_1(probe: Probe, answer: Answer) -> float | None:
    """1.0 when the first retrieved entry is of an edit that bears on the probe; None where nothing was to be found."""
    searched = answer.retrieved or any("hits" in step.update for step in answer.steps)
    if not probe.edit_ids or not searched:
        return None
    return float(bool(answer.retrieved) and answer.retrieved[0] in probe.edit_ids)


def _record(run: Pass, unit: Unit, probe: Probe, answer: Answer, scores: Scores, seconds: float) -> Record:
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
        log_probs=answer.log_probs,
        values=scores.values,
        unscored=scores.unscored,
        retrieved=answer.retrieved,
        cut_tokens=answer.cut_tokens,
        usage=answer.usage,
        seconds=round(seconds, 6),
        tags=probe.tags,
    )


def _events(run: Pass, unit: Unit, probe: Probe, answer: Answer) -> list[dict[str, Any]]:
    at = round(time.time(), 3)
    return [
        {
            "unit": unit.key,
            "case": unit.case.id,
            "probe": probe.id,
            "editor": run.name,
            "node": step.node,
            "ms": round(step.ms, 3),
            "update": step.update,
            "error": step.error and hide_keys(step.error),
            "at": at,
        }
        for step in answer.steps
    ]
