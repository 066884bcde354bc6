"""Judge columns of a report, with the judges' measured agreement with people."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emend.agents.judging.tendency import SCALES
from emend.evals.case import Metric, Per, Record
from emend.evals.data.benchmarks.elken.cases import KNOWN, M_FOR_G, OPEN, UNKNOWNS
from emend.evals.judging.disputes import DISPUTED
from emend.evals.judging.scorings.manifest import OwnJudge, Scoring
from emend.evals.judging.scorings.search import list_scorings
from emend.evals.judging.scorings.verdicts import dispute_counts, judged_records
from emend.evals.metrics.estimate import ends_text
from emend.evals.metrics.protocols import protocol_of
from emend.evals.metrics.published.elken import SCALES as CODE_SCALES
from emend.evals.metrics.published.elken import Marks, full_mark_rate, judged_edit_level
from emend.evals.results.aggregate.columns import MetricRow
from emend.graphs.registry import JUDGES

# Groups of additional columns, each shown as its own table.
MARKS, BY_SCHEME = "marks", "by scheme"
OPEN_LOCAL = f"{OPEN}_local"
FACTS = (*KNOWN, *UNKNOWNS)
CODED = "events without marks are not counted, and the last event's verdict is dropped"
NOT_CALIBRATED = "not calibrated"
# Agreement measures of a calibration that may be shown, with the field of their value.
AGREEMENTS = (("kappa", "value"), ("spearman", "value"), ("raw", "mean"))

# Name, output and summary of each column of a judge's table.
COLUMNS: dict[str, list[list[str]]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)
LOWER = ("recall_inconsistent", "rule_broken", DISPUTED)
SETTLED_BY = {"panel": "the panel", "second": "a second judge", "people": "people"}


def with_judged(
    scoring: Scoring, there: set[tuple[str, str]], metrics: Sequence[Metric]
) -> list[Metric]:
    """Return the run's metrics that do not wait for these judges, followed by the judges' metrics.

    Args:
        scoring: scoring with its judges.
        there: outputs of the judged records, with the kind of probe.
        metrics: metrics of the run.
    """
    waiting = {OPEN: "tendency", OPEN_LOCAL: "agreement"}
    plain = []
    for metric in metrics:
        awaited = {waiting.get(kind, "") for kind in metric.kinds}
        if metric.value != "judged" or awaited.isdisjoint(scoring.kinds):
            plain.append(metric)
    judged = [
        metric.model_copy(
            update={"group": _group(kind, metric, scoring), "protocol": protocol_of(metric.value)}
        )
        for kind in scoring.kinds
        for metric in judged_columns(kind, there, scoring.own_judges.get(kind))
    ]
    return [*plain, *_apart(judged, {metric.name for metric in plain})]


def calibration_of(scoring: Scoring, kind: str) -> str:
    """Return a text on the agreement of a scoring's judges with people."""
    return describe_calibration(scoring.calibrated(kind))


def describe_calibration(text: Mapping[str, Any] | None) -> str:
    """Return a calibration in words: the first available of `AGREEMENTS`, with its interval."""
    if text is None:
        return NOT_CALIBRATED
    for name, field in AGREEMENTS:
        coefficient = text.get(name) or {}
        value, low, high = (coefficient.get(key) for key in (field, "low", "high"))
        if value is not None:
            spread = ends_text(low, high, ".2f")
            why = (text.get("kappa") or {}).get("why") or ""
            undefined = f" (no kappa: {why})" if why else ""
            size = f"n={text.get('n')}"
            if left_out := text.get("unscored"):
                size += f", {omission_text(left_out, text.get('disputed', 0))}"
            return f"calibrated: {name} {value:.2f}{spread}, {size}{undefined}"
    return f"calibrated on {text.get('n')} labels, without a coefficient"


def omission_text(unscored: int, disputed: int) -> str:
    """Return in words how many items a calibration leaves out, and how many of them are disputed
    acceptances.
    """
    if not disputed:
        return f"{unscored} left out"
    return f"{unscored} left out ({disputed} disputed)"


def judged_notes(folder: Path, scoring: Scoring) -> list[str]:
    """Return notes on the judged columns."""
    panel = scoring.panel
    how = [f"{panel.repeats} repeats" if panel.repeats > 1 else "asked once"]
    how += [f"combined by {panel.combine}"] if len(panel.judges) * panel.repeats > 1 else []
    how += ["both orders if the judge supports them" if panel.both_orders else "one order"]
    text = [f"judged by {scoring.judge} ({', '.join(how)}), scoring {scoring.id}"]
    text += [
        f"judge {kind}: agreement with people not measured (emend judge calibrate)"
        for kind in scoring.kinds
        if scoring.calibrated(kind) is None
    ]
    text += [
        f"judge {kind} is not installed and its scores are not stored: judge the run with it again"
        for kind in scoring.kinds
        if kind not in scoring.own_judges and not JUDGES.installed(kind)
    ]
    text += dispute_notes(dispute_counts(folder, scoring))
    if scoring.forced:
        text.append("a judge is the model under test, so its scores are not independent")
    if "tendency" in scoring.kinds:
        text += as_coded(judged_records(folder, scoring))
    others = [item.id for item in list_scorings(folder) if item.id != scoring.id]
    if others:
        text.append(f"other scorings of this run: {', '.join(others)}; show one with --scoring ID")
    return text


def dispute_notes(counts: Mapping[str, Counter[str]]) -> list[str]:
    """Return a note on each judge whose verdicts may be disputed, from the counts of answers."""
    lines = []
    for kind, tally in counts.items():
        judged = (
            f"judge {kind}: {tally['accepted']} accepted, {tally['rejected']} rejected, "
            f"{tally['open']} disputed"
        )
        settled = ", ".join(
            f"{tally[name]} by {who}" for name, who in SETTLED_BY.items() if tally[name]
        )
        lines.append(f"{judged}; disputes settled: {settled}" if settled else judged)
        if tally["open"]:
            lines.append(
                "disputed answers are excluded from all other columns: settle them with --second "
                "MODEL or human labels"
            )
    return lines


def applicable_choices(
    choices: Sequence[str], rows: Sequence[MetricRow], metrics: Sequence[Metric]
) -> list[str]:
    """Return the scoring notes of a benchmark that apply to the columns shown.

    Notes on absent columns and on gaps that judges have filled are left out.

    Args:
        choices: notes from the run's manifest.
        rows: rows of the report.
        metrics: columns of the report.
    """
    stand_in = {
        metric.name for metric in metrics if metric.value == "overall" and OPEN not in metric.kinds
    }
    free = {metric.name for metric in metrics if metric.value == "judged" and OPEN in metric.kinds}
    text = any(row.metric in stand_in for row in rows) and not any(
        row.metric in free and row.n for row in rows
    )
    return [choice for choice in choices if text or choice != M_FOR_G]


def as_coded(records: Iterable[Record]) -> list[str]:
    """Return ELKEN's judged numbers as computed by the paper and by its code, a line each.

    The list is empty without free answers in scope. The report's columns leave an event unscored if
    its only flaw is an answer that no judge could parse.
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
        f"Tendency-G as in the paper (unreadable replies count as no full mark): {counted(False)}",
        f"Tendency-G as in the released code ({CODED}): {counted(True)}",
    ]


def _marks(record: Record) -> Marks | None:
    values = [record.values.get(f"{scale}_mark") for scale in SCALES]
    if None in values:
        return None
    return {
        scale: round(mark)
        for scale, mark in zip(CODE_SCALES, values, strict=True)
        if mark is not None
    }


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share:.1f}"


def judged_columns(
    kind: str, there: set[tuple[str, str]], own_judge: OwnJudge | None = None
) -> Iterator[Metric]:
    """Yield the columns of a judge, its main table first.

    Args:
        kind: name of the judge.
        there: outputs of the judged records, with the kind of probe.
        own_judge: judge that is neither built in nor installed.
    """
    if kind == "tendency":
        yield from _tendency(there)
    elif kind == "agreement":
        text = "free-form answers out of scope that the judge finds unchanged"
        yield _metric("G Loc", "judged", (OPEN_LOCAL,), summary=text)
        yield _metric(
            "agreement", "consistency", (OPEN_LOCAL,), scale=1.0, summary="mean mark, 1 to 5"
        )
    else:
        for name, output, scale, summary in _plain_columns(kind, own_judge):
            kinds = tuple(sorted(probes for text, probes in there if text == output))
            if kinds:
                yield _metric(name, output, kinds, scale=scale, summary=summary)
            if kinds and kind == "coherence":
                yield from _by_scheme(name, output, kinds)


def _by_scheme(name: str, output: str, kinds: tuple[str, ...]) -> Iterator[Metric]:
    """Yield a metric per scheme, then the mean over schemes, as in ReCoE's Table 5."""
    for kind in kinds:
        yield _metric(f"{name} {kind}", output, (kind,)).model_copy(update={"group": BY_SCHEME})
    if len(kinds) > 1:
        mean = f"mean over the {len(kinds)} schemes of the run, without unscored ones"
        yield _metric(f"{name} mean", output, kinds, "kind", summary=mean).model_copy(
            update={"group": BY_SCHEME}
        )


def _plain_columns(kind: str, own_judge: OwnJudge | None) -> Iterator[tuple[str, str, float, str]]:
    """Yield name, output, scale and summary of the columns of a judge; for a plug-in, one for each
    of its numbers.
    """
    for name, output, summary in COLUMNS.get(kind, ()):
        yield name, output, 100.0, summary
    if kind in COLUMNS:
        return
    judge = JUDGES.load(kind).role if JUDGES.installed(kind) else own_judge
    if judge is not None:
        scale = 1.0 if judge.scale == "1 to 5" else 100.0
        for name in judge.outputs:
            yield name.replace("_", " "), name, scale, f"by the judge {kind}"


def _tendency(there: set[tuple[str, str]]) -> Iterator[Metric]:
    yield _metric("G Q", "judged", (OPEN,), summary="free-form answers with full marks overall")
    yield _metric(
        "G E",
        "judged",
        (OPEN,),
        "all",
        summary="events with full marks overall for all free-form answers",
    )
    facts = tuple(kind for kind in FACTS if ("overall", kind) in there)
    if facts:
        text = "events with full marks for all free-form answers and all fact questions correct"
        yield _metric("E", "overall", (*facts, OPEN), "all", summary=text)
    text = (
        "replies that violated the rule 'overall at most 3 if correctness is at most 3'; overall "
        "was set to 3"
    )
    yield _metric("rule broken", "rule_broken", (OPEN,), summary=text)
    if ("correct", OPEN) in there:
        text = "answers with a correctness of at least 4, which the paper also counts as correct"
        correct = _metric("correctness 4 or 5", "correct", (OPEN,), summary=text)
        yield correct.model_copy(update={"group": MARKS})
    for scale in SCALES:
        mean = _metric(
            scale, f"{scale}_mark", (OPEN,), scale=1.0, summary=f"mean mark for {scale}, 1 to 5"
        )
        yield mean.model_copy(update={"group": MARKS})
        if scale != "overall":
            text = f"answers with full marks for {scale}"
            full = _metric(f"{scale} 5", f"{scale}_full", (OPEN,), summary=text)
            yield full.model_copy(update={"group": MARKS})


def _group(kind: str, metric: Metric, scoring: Scoring) -> str:
    """Return a table's title; a judge with many columns has a second table for marks or schemes."""
    if metric.group:
        which = f"{metric.group}, "
    else:
        which = ""
    return f"{kind} by {scoring.judge}, {which}{calibration_of(scoring, kind)}"


def _metric(
    name: str,
    value: str,
    kinds: tuple[str, ...],
    per: Per = "record",
    scale: float = 100.0,
    summary: str = "",
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
    """Return the metrics under distinct names, since rows are found by name."""
    used, out = set(names_used), []
    for metric in metrics:
        name = metric.name
        while name in used:
            name += " (judged)"
        used.add(name)
        out.append(metric.model_copy(update={"name": name}))
    return out
