"""Evaluation of one unit: all probes of a case, asked of an edited model and scored."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from emend.agents.providers.repetition import repetition
from emend.editors.base import Answerer, gives_scores
from emend.editors.memory_based.unedited import Unedited
from emend.evals.case import Case, Record
from emend.evals.data.benchmarks.triples import NO_TRIPLET
from emend.evals.evaluate.baseline import Baseline, ask_recorded, needs_baseline
from emend.evals.evaluate.units import EditorPass, Unit
from emend.evals.jobs.failures import Stopped
from emend.evals.jobs.queues import map_in_order
from emend.evals.jobs.results import UnitResult
from emend.evals.log.lines import event_of
from emend.evals.metrics.agents import score_calls
from emend.evals.metrics.fact_checks import score_checks
from emend.evals.metrics.hops import MULTIHOP, with_hops
from emend.evals.metrics.scorers import score, without_blank
from emend.evals.metrics.scores import (
    EMPTY,
    NO_BASELINE,
    NO_PROBABILITIES,
    NO_TEXT,
    ProbeScores,
    lacks_score,
)
from emend.evals.metrics.scoring.registry import scorer_of
from emend.memory.errors import ContextOverflow, ModelReplyError, NotApplicable
from emend.memory.probe import Answer, Probe
from emend.memory.redaction import hide_keys
from emend.memory.steps import steps_of, usage_until

RIGHT_BEFORE = "the unedited model is right, and only probes that it answers wrong count"
# Errors that count as results: the answer is unusable, or no answer is possible.
UNUSABLE = (ModelReplyError, ContextOverflow, NotApplicable)


class ProbeResult(NamedTuple):
    """Answer to one probe, with its scores and its time in seconds.

    `from_baseline` marks an answer of the unedited model's baseline, `no_answer` a missing or empty
    answer.
    """

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
    """Ask all probes of a case, `at_once` concurrently, and score the answers.

    `on_probe` is called after each probe.

    Raises:
        Stopped: the run is ending.
        Exception: any error of asking a probe, with the probe's id as `probe_id`.
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

    records: list[Record] = []
    events: list[dict[str, Any]] = []
    probes = unit.case.probes
    for probe, answered in zip(probes, map_in_order(ask, probes, at_once), strict=True):
        records.append(_record(editor_pass, unit, probe, answered))
        head = {
            "unit": unit.key,
            "case": unit.case.id,
            "probe": probe.id,
            "editor": editor_pass.name,
        }
        events.extend(head | event_of(step) for step in answered.answer.steps)
        on_probe()
    return UnitResult(records, events, counts_of(records))


def counts_of(records: Sequence[Record]) -> Counter[str]:
    """Count a unit's records and the usage of its calls, except for baseline answers.

    Those are counted when they are asked.
    """
    unscored = sum(lacks_score(record.values, record.unscored) for record in records)
    counts = Counter(finished=1, records=len(records), unscored=unscored)
    for record in records:
        if not record.from_baseline:
            usage = record.usage
            counts.update(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                calls=usage.calls,
            )
    return counts


def _ask(
    editor_pass: EditorPass, answerer: Answerer, probe: Probe, baseline: Baseline
) -> ProbeResult:
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
        answer, scores = (
            # a chain of thought is not an answer, but judges read it
            answer_until(error, is_chain=probe.reading == "thoughts"),
            _unusable_scores(error, probe, baseline, repeat),
        )
        no_answer = not isinstance(error, NotApplicable)
    if not gives_scores(answerer):
        scores = _with_reason(scores, editor_pass.name, getattr(answerer, "no_scores", ""))
    return ProbeResult(answer, _with_hit(scores, probe, answer), seconds, from_baseline, no_answer)


def _score(probe: Probe, answer: Answer, baseline: Baseline, repeat: int) -> ProbeScores:
    """Score an answer.

    If the unedited model's answer is unusable, only the comparison with it is unscored.
    """
    if (textless := without_blank(answer)) is not answer:
        scores = _score(probe, textless, baseline, repeat)
        empty = {name: EMPTY if why == NO_TEXT else why for name, why in scores.unscored.items()}
        return scores._replace(unscored=empty)
    if not needs_baseline(probe):
        return score(probe, answer)
    try:
        before = baseline.answer(probe, repeat)
        if (textless := without_blank(before)) is not before and not before.log_probs:
            raise ModelReplyError(EMPTY)
        return score(probe, answer, textless)
    except UNUSABLE as error:
        scores, reason = score(probe, answer), f"the unedited model: {hide_keys(str(error))}"
        unscored = {
            name: reason if why.startswith(NO_BASELINE) else why
            for name, why in scores.unscored.items()
        }
        return scores._replace(unscored=unscored)


def _unusable_scores(
    error: Exception, probe: Probe, baseline: Baseline, repeat: int
) -> ProbeScores:
    """Mark scores as unscored with the error, except those of the unedited model alone."""
    about_before = any(scorer_of(name).scores_unedited for name in probe.scorers)
    scores = _score(probe, Answer(), baseline, repeat) if about_before else score(probe, Answer())
    return scores._replace(unscored=dict.fromkeys(scores.unscored, hide_keys(str(error))))


def answer_until(error: Exception, is_chain: bool = False) -> Answer:
    """Return the known parts of an answer that failed: reply, steps, usage and retrieved edits.

    Args:
        error: error with the steps that led to it.
        is_chain: True if the reply is a chain of thought and not an answer.
    """
    steps = steps_of(error)
    hits = next((step.update["hits"] for step in reversed(steps) if "hits" in step.update), ())
    reply = error.reply if isinstance(error, ModelReplyError) else None
    return Answer(
        text=None if is_chain else reply,
        reply=reply if is_chain else None,
        steps=steps,
        usage=usage_until(error),
        retrieved=tuple(hit["edit_id"] for hit in hits or ()),
    )


def _with_reason(scores: ProbeScores, editor: str, no_scores: str) -> ProbeScores:
    """Give the reason for missing log-probabilities, which may be a plug-in editor."""
    if ":" in editor:
        reason = (
            f"editor '{editor}' scores no targets: what its edit gives has no score, or the "
            "model no probabilities"
        )
    else:
        reason = f"{NO_PROBABILITIES}: {no_scores}" if no_scores else NO_PROBABILITIES
    unscored = {
        name: reason if why == NO_PROBABILITIES else why for name, why in scores.unscored.items()
    }
    return scores._replace(unscored=unscored)


def _with_hit(scores: ProbeScores, probe: Probe, answer: Answer) -> ProbeScores:
    scores.values.update(score_calls(probe.edit_ids, answer) | score_checks(answer))
    hit = hit_at_1(probe.edit_ids, answer)
    if hit is not None:
        scores.values["hit@1"] = hit
    elif _searched(answer) and NO_TRIPLET in probe.tags:
        scores.unscored["hit@1"] = (
            "no triplet was read out of the document, so that none can be found"
        )
    return scores


def hit_at_1(relevant: Collection[str], answer: Answer) -> float | None:
    """Return 1.0 if the first retrieved entry belongs to a relevant edit, else 0.0.

    The result is None if there was nothing to retrieve.
    """
    if not relevant or not _searched(answer):
        return None
    return float(bool(answer.retrieved) and answer.retrieved[0] in relevant)


def is_cut_off(answer: Answer) -> bool:
    """True if the reply ended at the limit of new tokens."""
    chats = [call for step in answer.steps for call in step.calls if call.kind == "chat"]
    return bool(chats) and chats[-1].finish == "length"


def _searched(answer: Answer) -> bool:
    return bool(answer.retrieved) or any("hits" in step.update for step in answer.steps)


def _compared(scores: ProbeScores) -> dict[str, str]:
    readings = scores.readings.items()
    return {name: reading.value for name, reading in readings if reading.value}


def _hop_golds(case: Case, probe: Probe) -> tuple[tuple[str, ...], ...]:
    """Return the accepted answers of each hop of a multi-hop question; empty for others."""
    if not probe.kind.startswith(MULTIHOP):
        return ()
    return probe.hop_golds or case.hop_golds


def _record(editor_pass: EditorPass, unit: Unit, probe: Probe, result: ProbeResult) -> Record:
    answer, hop_golds = result.answer, _hop_golds(unit.case, probe)
    scores = with_hops(result.scores, hop_golds, answer, result.no_answer)
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
        hop_golds=hop_golds,
        rival=probe.rival,
        rubric=probe.rubric,
        criterion=probe.criterion,
        answer=answer.text,
        passage=answer.passage,
        reply=answer.reply,
        log_probs=answer.log_probs,
        target_tokens=answer.target_tokens,
        form=probe.form,
        is_cut_off=is_cut_off(answer),
        no_answer=result.no_answer,
        excluded=RIGHT_BEFORE if scores.values.get("right_before") else "",
        values=scores.values,
        unscored=scores.unscored,
        rules={name: reading.rule for name, reading in scores.readings.items()},
        compared=_compared(scores),
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
