"""One unit: all probes of a case put to an edited model, as records and events."""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from emend.agents.providers.repetition import repetition
from emend.editors.base import Answerer, Scorable
from emend.editors.memory_based.unedited import Unedited
from emend.evals.case import Record
from emend.evals.data.benchmarks.triples import NO_TRIPLET
from emend.evals.log.lines import event_of
from emend.evals.metrics.agents import score_calls
from emend.evals.metrics.scorers import SCORE_BASELINE, score, without_blank
from emend.evals.metrics.scores import EMPTY, NO_BASELINE, NO_PROBABILITIES, NO_TEXT, ProbeScores
from emend.evals.run.baseline import Baseline, ask_recorded, needs_baseline
from emend.evals.run.units import EditorPass, Unit, map_in_order
from emend.memory.errors import ContextOverflow, ModelReplyError, NotApplicable
from emend.memory.probe import Answer, Probe
from emend.memory.redaction import hide_keys
from emend.memory.steps import steps_of, usage_until

RIGHT_BEFORE = "the unedited model is right, and only probes that it answers wrong count"
UNUSABLE = (ModelReplyError, ContextOverflow, NotApplicable)
"""Errors that are a result: there was an answer, and it is unusable; or there cannot be one."""


class Stopped(Exception):
    """The run is ending; the unit is dropped and asked again on resume."""


class UnitResult(NamedTuple):
    """A finished unit: one record per probe, and one event per step of the editor."""

    records: list[Record]
    events: list[dict[str, Any]]


class ProbeResult(NamedTuple):
    """Answer to one probe, its scores, the seconds it took, whether it is the baseline's, and whether it is none."""

    answer: Answer
    scores: ProbeScores
    seconds: float
    from_baseline: bool = False
    no_answer: bool = False


def ask_unit(
    editor_pass: EditorPass,
    unit: Unit,
    answerer: Answerer,
    baseline: Baseline,
    stop: threading.Event,
    on_probe: Callable[[], None],
    at_once: int = 1,
) -> UnitResult:
    """Ask all probes of a case, `at_once` at the same time, and score the answers; `on_probe` is called after each.

    Raises:
        Stopped: the run is ending.
        Exception: what asking a probe raised, with the probe's id as `probe_id`.
    """

    def ask(probe: Probe) -> ProbeResult:
        if stop.is_set():
            raise Stopped
        try:
            with repetition(editor_pass.repeat):
                return _ask(editor_pass, answerer, probe, baseline)
        except Exception as error:
            error.probe_id = probe.id  # type: ignore[attr-defined]
            raise

    result = UnitResult([], [])
    probes = unit.case.probes
    for probe, answered in zip(probes, map_in_order(ask, probes, at_once), strict=True):
        result.records.append(_record(editor_pass, unit, probe, answered))
        head = {"unit": unit.key, "case": unit.case.id, "probe": probe.id, "editor": editor_pass.name}
        result.events.extend(head | event_of(step) for step in answered.answer.steps)
        on_probe()
    return result


def _ask(editor_pass: EditorPass, answerer: Answerer, probe: Probe, baseline: Baseline) -> ProbeResult:
    repeat, start = editor_pass.repeat, time.perf_counter()
    error: Exception | None = None
    no_answer = False
    if needs_baseline(probe) and type(editor_pass.editor) is Unedited:
        line = baseline.get(probe, repeat)
        try:
            answer = line.result()
        except UNUSABLE as unusable:
            error = unusable
        seconds, from_baseline = line.seconds, True
    else:
        try:
            answer = ask_recorded(editor_pass.name, answerer, probe)
        except UNUSABLE as unusable:
            error = unusable
        seconds, from_baseline = time.perf_counter() - start, False
    if error is None:
        scores = _score(probe, answer, baseline, repeat)
        no_answer = EMPTY in scores.unscored.values()
    else:
        answer, scores = _answer_until(error, probe), _unusable_scores(error, probe, baseline, repeat)
        no_answer = not isinstance(error, NotApplicable)
    if not isinstance(answerer, Scorable):
        scores = _with_reason(scores, editor_pass.name, getattr(answerer, "no_scores", ""))
    return ProbeResult(answer, _with_hit(scores, probe, answer), seconds, from_baseline, no_answer)


def _score(probe: Probe, answer: Answer, baseline: Baseline, repeat: int) -> ProbeScores:
    """Score an answer; if the unedited model's is unusable, only the comparison with it is unscored."""
    if (textless := without_blank(answer)) is not answer:
        scores = _score(probe, textless, baseline, repeat)
        empty = {name: EMPTY if why == NO_TEXT else why for name, why in scores.unscored.items()}
        return ProbeScores(scores.values, empty)
    if not needs_baseline(probe):
        return score(probe, answer)
    try:
        before = baseline.answer(probe, repeat)
        if (textless := without_blank(before)) is not before and not before.log_probs:
            raise ModelReplyError(EMPTY)
        return score(probe, answer, textless)
    except UNUSABLE as error:
        scores, reason = score(probe, answer), f"the unedited model: {hide_keys(str(error))}"
        unscored = {name: reason if why.startswith(NO_BASELINE) else why for name, why in scores.unscored.items()}
        return ProbeScores(scores.values, unscored)


def _unusable_scores(error: Exception, probe: Probe, baseline: Baseline, repeat: int) -> ProbeScores:
    """Leave everything unscored with the error as reason, but for what only looks at the unedited model."""
    about_before = not SCORE_BASELINE.isdisjoint(probe.scorers)
    scores = _score(probe, Answer(), baseline, repeat) if about_before else score(probe, Answer())
    return ProbeScores(scores.values, dict.fromkeys(scores.unscored, hide_keys(str(error))))


def _answer_until(error: Exception, probe: Probe) -> Answer:
    """Return what is known of an answer that ended in an error: reply, steps, usage and retrieved edits."""
    steps = steps_of(error)
    hits = next((step.update["hits"] for step in reversed(steps) if "hits" in step.update), ())
    reply = error.reply if isinstance(error, ModelReplyError) else None
    chain = probe.reading == "thoughts"  # which is no answer, and what judges look at
    return Answer(
        text=None if chain else reply,
        reply=reply if chain else None,
        steps=steps,
        usage=usage_until(error),
        retrieved=tuple(hit["edit_id"] for hit in hits or ()),
    )


def _with_reason(scores: ProbeScores, editor: str, no_scores: str) -> ProbeScores:
    """Say why there are no log-probabilities; where an editor is a plug-in, it may be what lacks them."""
    if ":" in editor:
        reason = f"editor '{editor}' scores no targets: what its edit gives has no score, or the model no probabilities"
    else:
        reason = f"{NO_PROBABILITIES}: {no_scores}" if no_scores else NO_PROBABILITIES
    unscored = {name: reason if why == NO_PROBABILITIES else why for name, why in scores.unscored.items()}
    return ProbeScores(scores.values, unscored)


def _with_hit(scores: ProbeScores, probe: Probe, answer: Answer) -> ProbeScores:
    scores.values.update(score_calls(probe, answer))
    hit = hit_at_1(probe, answer)
    if hit is not None:
        scores.values["hit@1"] = hit
    elif _searched(answer) and NO_TRIPLET in probe.tags:
        scores.unscored["hit@1"] = "no triplet was read out of the document, so that none can be found"
    return scores


def hit_at_1(probe: Probe, answer: Answer) -> float | None:
    """Return 1.0 when the first retrieved entry is of a relevant edit; None if there was nothing to retrieve."""
    if not probe.edit_ids or not _searched(answer):
        return None
    return float(bool(answer.retrieved) and answer.retrieved[0] in probe.edit_ids)


def _is_cut_off(answer: Answer) -> bool:
    """True if the reply ended at the limit of new tokens."""
    chats = [call for step in answer.steps for call in step.calls if call.kind == "chat"]
    return bool(chats) and chats[-1].finish == "length"


def _searched(answer: Answer) -> bool:
    return bool(answer.retrieved) or any("hits" in step.update for step in answer.steps)


def _record(editor_pass: EditorPass, unit: Unit, probe: Probe, result: ProbeResult) -> Record:
    answer = result.answer
    return Record(
        **editor_pass.labels,
        unit=unit.key,
        of=len(unit.case.probes),
        case=unit.case.id,
        probe=probe.id,
        kind=probe.kind,
        model=editor_pass.model,
        prompt=probe.prompt,
        gold=probe.gold,
        rival=probe.rival,
        answer=answer.text,
        passage=answer.passage,
        reply=answer.reply,
        log_probs=answer.log_probs,
        target_tokens=answer.target_tokens,
        form=probe.form,
        is_cut_off=_is_cut_off(answer),
        no_answer=result.no_answer,
        excluded=RIGHT_BEFORE if result.scores.values.get("right_before") else "",
        values=result.scores.values,
        unscored=result.scores.unscored,
        retrieved=answer.retrieved,
        path=tuple(step.node for step in answer.steps),
        cut_tokens=answer.cut_tokens,
        usage=answer.usage,
        seconds=round(result.seconds, 6),
        from_baseline=result.from_baseline,
        active_edits=unit.active_edits,
        checkpoint=unit.checkpoint,
        edit_cost=unit.cost,
        tags=probe.tags,
    )
