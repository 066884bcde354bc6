"""Judges' columns of a report, with the judges' measured agreement with people."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from emend.agents.judging.tendency import SCALES
from emend.evals.case import Metric, Per, Record
from emend.evals.data.benchmarks.elken import KNOWN, M_FOR_G, OPEN, UNKNOWNS
from emend.evals.judging.store import OwnJudge, Scoring, judged_records, list_scorings
from emend.evals.metrics.paper_scores import SCALES as CODE_SCALES
from emend.evals.metrics.paper_scores import Marks, full_mark_rate, judged_edit_level
from emend.evals.metrics.scores import protocol_of
from emend.evals.results.aggregate.columns import MetricRow
from emend.graphs.registry import JUDGES

MARKS, BY_SCHEME = "marks", "by scheme"
"""Groups of further columns, each a table of its own."""
OPEN_LOCAL = f"{OPEN}_local"
FACTS = (*KNOWN, *UNKNOWNS)
CODED = "an event without any mark is not counted, and the last event's verdict is lost"
NOT_CALIBRATED = "not calibrated"
AGREEMENTS = (("kappa", "value"), ("spearman", "value"), ("raw", "mean"))
"""Agreement measures of a calibration that may be shown, and the field of their value."""

# name, output, per, scale, summary
COLUMNS: dict[str, tuple[tuple[str, str, Per, float, str], ...]] = {
    "recall": (
        ("fact recall", "recall_consistent", "record", 100, "atomic facts of the thoughts that the edits imply"),
        ("related", "recall_related", "record", 100, "atomic facts whose truth depends on the edits"),
        ("of related", "recall_of_related", "record", 100, "of the related facts, those that agree with the edits"),
        ("contradicting", "recall_inconsistent", "record", 100, "atomic facts that contradict the edits"),
    ),
    "coherence": (("coherence", "supported", "record", 100, "the thoughts support the answer"),),
    "equivalence": (
        ("same answer", "equivalent", "record", 100, "means the gold answer or an alias; beside exact match"),
    ),
    "supports": (("conveyed", "conveyed", "record", 100, "the text that was edited in conveys the fact"),),
}
LOWER = ("recall_inconsistent", "rule_broken")


def with_judged(scoring: Scoring, there: set[tuple[str, str]], metrics: Sequence[Metric]) -> list[Metric]:
    """The run's own columns without those that only waited for these judges, then the judges' own.

    Args:
        scoring: who judged what.
        there: outputs of the judged records, with the kind of probe.
        metrics: of the run.
    """
    waiting = {OPEN: "tendency", OPEN_LOCAL: "agreement"}
    plain = [
        metric
        for metric in metrics
        if metric.value != "judged" or not {waiting.get(kind, "") for kind in metric.kinds} & set(scoring.kinds)
    ]
    judged = [
        metric.model_copy(update={"group": _group(kind, metric, scoring), "protocol": protocol_of(metric.value)})
        for kind in scoring.kinds
        for metric in judged_columns(kind, there, scoring.own_judges.get(kind))
    ]
    return [*plain, *_apart(judged, {metric.name for metric in plain})]


def calibration_of(scoring: Scoring, kind: str) -> str:
    """Agreement of the judges with people in words: the first available of `AGREEMENTS`, with its interval."""
    text = scoring.calibrated(kind)
    if text is None:
        return NOT_CALIBRATED
    for name, field in AGREEMENTS:
        coefficient = text.get(name) or {}
        value, low, high = (coefficient.get(key) for key in (field, "low", "high"))
        if value is not None:
            spread = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
            return f"calibrated: {name} {value:.2f}{spread}, n={text.get('n')}"
    return f"calibrated on {text.get('n')} labels, which give no coefficient"


def judged_notes(folder: Path, scoring: Scoring) -> list[str]:
    """Notes on the judged columns."""
    panel = scoring.panel
    how = [f"{panel.repeats} repeats" if panel.repeats > 1 else "asked once"]
    how += [f"combined by {panel.combine}"] if len(panel.judges) * panel.repeats > 1 else []
    how += ["both orders where a judge has them" if panel.both_orders else "one order"]
    text = [f"judged by {scoring.judge} ({', '.join(how)}), scoring {scoring.id}"]
    text += [
        f"judge {kind}: nobody has measured its agreement with people (emend judge calibrate)"
        for kind in scoring.kinds
        if scoring.calibrated(kind) is None
    ]
    text += [
        f"judge {kind} is code that is not installed and its numbers are not stored: judge the run with it again"
        for kind in scoring.kinds
        if kind not in scoring.own_judges and not JUDGES.installed(kind)
    ]
    if scoring.forced:
        text.append("a judge is the model under test itself: its numbers are no independent judgement")
    if "tendency" in scoring.kinds:
        text += as_coded(judged_records(folder, scoring))
    others = [item.id for item in list_scorings(folder) if item.id != scoring.id]
    if others:
        text.append(f"other scorings of this run: {', '.join(others)}; show one with --scoring ID")
    return text


def applicable_choices(choices: Sequence[str], rows: Sequence[MetricRow], metrics: Sequence[Metric]) -> list[str]:
    """Notes on the benchmark's scoring, without those on absent columns or on gaps that judges have filled.

    Args:
        choices: as the run's manifest has them.
        rows: of the report.
        metrics: its columns.
    """
    stand_in = {metric.name for metric in metrics if metric.value == "overall" and OPEN not in metric.kinds}
    free = {metric.name for metric in metrics if metric.value == "judged" and OPEN in metric.kinds}
    text = any(row.metric in stand_in for row in rows) and not any(row.metric in free and row.n for row in rows)
    return [choice for choice in choices if text or choice != M_FOR_G]


def as_coded(records: Iterable[Record]) -> list[str]:
    """ELKEN's judged numbers as the paper and as its code count them, a line each; none without free answers in scope.

    The columns leave an event unscored whose only flaw is an answer that no judge could read.
    """
    marks: dict[str, tuple[list[Marks | None], list[str]]] = {}
    for record in records:
        if record.kind == OPEN and not record.checkpoint:
            coefficient, events = marks.setdefault(record.editor, ([], []))
            coefficient.append(_marks(record))
            events.append(record.case)

    def counted(original: bool) -> str:
        return "; ".join(
            f"{editor} G Q {_percent(full_mark_rate(coefficient, 'overall'))}, "
            f"G E {_percent(judged_edit_level(coefficient, events, original))}"
            for editor, (coefficient, events) in marks.items()
        )

    if not marks:
        return []
    return [
        f"Tendency-G as the paper counts (what cannot be read has no full mark): {counted(False)}",
        f"Tendency-G as the released code counts ({CODED}): {counted(True)}",
    ]


def _marks(record: Record) -> Marks | None:
    values = [record.values.get(f"{scale}_mark") for scale in SCALES]
    if None in values:
        return None
    return {scale: round(mark) for scale, mark in zip(CODE_SCALES, values, strict=True) if mark is not None}


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def judged_columns(kind: str, there: set[tuple[str, str]], own_judge: OwnJudge | None = None) -> Iterator[Metric]:
    """The columns of a judge, its main table first.

    Args:
        kind: name of the judge.
        there: outputs of the judged records with the kind of probe.
        own_judge: of a kind that is neither built in nor installed.
    """
    if kind == "tendency":
        yield from _tendency(there)
    elif kind == "agreement":
        text = "free answers out of scope that the judge finds the same as before"
        yield _metric("G Loc", "judged", (OPEN_LOCAL,), summary=text)
        yield _metric("agreement", "consistency", (OPEN_LOCAL,), scale=1.0, summary="mean mark, 1 to 5")
    else:
        for name, output, per, scale, summary in COLUMNS.get(kind) or _plain(kind, own_judge):
            kinds = tuple(sorted(probes for text, probes in there if text == output))
            if kinds:
                yield _metric(name, output, kinds, per, scale, summary)
            if kinds and kind == "coherence":
                yield from _by_scheme(name, output, kinds)


def _by_scheme(name: str, output: str, kinds: tuple[str, ...]) -> Iterator[Metric]:
    """Metric per scheme, then the mean over them, as in ReCoE's Table 5."""
    for kind in kinds:
        yield _metric(f"{name} {kind}", output, (kind,)).model_copy(update={"group": BY_SCHEME})
    if len(kinds) > 1:
        mean = f"mean over the {len(kinds)} schemes at hand, without those where nothing is scored"
        yield _metric(f"{name} mean", output, kinds, "kind", summary=mean).model_copy(update={"group": BY_SCHEME})


def _plain(kind: str, own_judge: OwnJudge | None) -> list[tuple[str, str, Per, float, str]]:
    """The columns of a judge from elsewhere: one for each of its numbers."""
    judge = JUDGES.load(kind).role if JUDGES.installed(kind) else own_judge
    if judge is None:
        return []
    scale = 1.0 if judge.scale == "1 to 5" else 100.0
    return [(name.replace("_", " "), name, "record", scale, f"as {kind} judges") for name in judge.outputs]


def _tendency(there: set[tuple[str, str]]) -> Iterator[Metric]:
    yield _metric("G Q", "judged", (OPEN,), summary="free answers with full marks overall")
    yield _metric("G E", "judged", (OPEN,), "all", summary="events all of whose free answers have full marks overall")
    facts = tuple(kind for kind in FACTS if ("overall", kind) in there)
    if facts:
        text = "events with free answers, all of them with full marks, and all facts right"
        yield _metric("E", "overall", (*facts, OPEN), "all", summary=text)
    text = "replies that broke the rule 'correctness at most 3, overall at most 3'; overall was set to 3"
    yield _metric("rule broken", "rule_broken", (OPEN,), summary=text)
    for scale in SCALES:
        mean = _metric(scale, f"{scale}_mark", (OPEN,), scale=1.0, summary=f"mean mark for {scale}, 1 to 5")
        full = _metric(f"{scale} 5", f"{scale}_full", (OPEN,), summary=f"answers with full marks for {scale}")
        yield from (
            item.model_copy(update={"group": MARKS}) for item in ((mean,) if scale == "overall" else (mean, full))
        )


def _group(kind: str, metric: Metric, scoring: Scoring) -> str:
    """The table's title: a judge with many columns has a second table for its marks or schemes."""
    which = f"{metric.group}, " if metric.group else ""
    return f"{kind} by {scoring.judge}, {which}{calibration_of(scoring, kind)}"


def _metric(
    name: str, value: str, kinds: tuple[str, ...], per: Per = "record", scale: float = 100.0, summary: str = ""
) -> Metric:
    best = value not in LOWER
    return Metric(
        name=name,
        value=value,
        kinds=kinds,
        per=per,
        scale=scale,
        summary=summary,
        higher_is_better=best,
        share=scale == 100.0,
    )


def _apart(metrics: Sequence[Metric], names_used: set[str]) -> list[Metric]:
    """Names that tell the columns apart, for rows are found by them."""
    used, out = set(names_used), []
    for metric in metrics:
        name = metric.name
        while name in used:
            name += " (judged)"
        used.add(name)
        out.append(metric.model_copy(update={"name": name}))
    return out
