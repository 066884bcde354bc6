"""Notes below the tables of a report, and explanations of its metrics."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.editors.registry import EDITORS
from emend.evals.case import Metric
from emend.evals.log.manifest import Manifest
from emend.evals.metrics.protocols import plain_name, protocol_summary
from emend.evals.results.aggregate.mark_names import BEST, HIGHEST
from emend.evals.results.aggregate.rows import Report
from emend.evals.results.aggregate.tables import (
    COMPACT,
    LabelledReport,
    MetricTable,
    TableChoice,
    metric_tables,
)
from emend.evals.show.report.layout import INTERVALS, counted, interval_note, with_interval
from emend.evals.show.report.secondary import known_lines, spent_line
from emend.memory.escape import one_line

# Suffixes of marked values on consoles without colours.
MARKS = {BEST: "*", HIGHEST: "^"}
STYLES = {BEST: "bold green", HIGHEST: "green"}
MEANINGS = {
    BEST: (
        "best in its column, and better than all others by non-overlapping intervals or by the "
        "interval of the difference"
    ),
    HIGHEST: "best in its column, but not significantly better than the next",
}


def notes(report: Report, plain: bool = False, choice: TableChoice = COMPACT) -> list[str]:
    """Return the notes that explain the numbers of a report."""
    size = f"{case_count(report)}, {counted(report.records, 'record')}"
    intervals = interval_note((row.low for row in report.rows), note=f"[{INTERVALS}]")
    parts_shown = [f"{size}; {intervals}"]
    parts_shown += known_lines(
        report.rows, [metric for metric in report.metrics if metric.name not in report.hidden]
    )
    if report.spent:
        parts_shown.append(spent_line(report.spent))
    tables = metric_tables([LabelledReport(report, {})], choice)
    parts_shown += mark_notes(tables, plain)
    if report.cut:
        parts_shown.append(
            f"{counted(report.cut, 'prompt')} exceeded the model's context window: truncated at "
            "the front"
        )
    if report.failed:
        parts_shown.append(
            f"{counted(report.failed, 'unit')} failed (errors.jsonl): excluded from all numbers "
            "above; resuming the run retries them"
        )
    if report.missing:
        parts_shown.append(f"unfinished units: {report.missing}; resume the run to evaluate them")
    parts_shown += [one_line(note, 400) for note in report.notes]
    parts_shown += [
        f"left out in {counted(count, 'record')}: {one_line(why, 160)}"
        for why, count in report.excluded.items()
    ]
    parts_shown += gap_notes(report, tables)
    reasons = list(report.reasons.items())[:5]
    parts_shown += [
        f"unscored in {counted(count, 'record')}: {one_line(reason, 160)}"
        for reason, count in reasons
    ]
    parts_shown += [one_line(choice, 400) for choice in report.choices]
    if not report.rows:
        parts_shown.append("no record is scored yet")
    if not (choice.everything or choice.columns):
        further = left_out(tables)
        if others := _further(report, tables):
            further.append(f"tables: {', '.join(others)}")
        if further:
            parts_shown.append(f"not shown: {'; '.join(further)} (--all)")
    return parts_shown


def case_count(report: Report) -> str:
    """Return the number of cases, with the seed if they are a random sample."""
    cases = counted(report.cases, "case")
    if report.sample_seed is None:
        return cases
    return f"{cases} (a random sample with seed {report.sample_seed})"


def mark_notes(tables: Sequence[MetricTable], plain: bool) -> list[str]:
    """Return the meaning of each mark (a sign or a colour) that is used in the tables."""
    used = {mark for table in tables for metric in table.metrics for mark in table.marks(metric)}
    if plain:
        signs = MARKS
    else:
        signs = {mark: f"{style}:" for mark, style in STYLES.items()}
    return [f"{signs[mark]} {MEANINGS[mark]}" for mark in MARKS if mark in used]


def left_out(tables: Sequence[MetricTable]) -> list[str]:
    """Return a text for each reason why tables leave out metrics, with the names of the metrics."""
    names: dict[str, list[str]] = {}
    for omission in chain.from_iterable(table.left_out for table in tables):
        names.setdefault(omission.reason, []).append(one_line(plain_name(omission.metric)))
    return [f"{', '.join(dict.fromkeys(metrics))} {reason}" for reason, metrics in names.items()]


def gap_notes(report: Report, tables: Sequence[MetricTable]) -> list[str]:
    """Return a line on the gaps between each two protocols for each editor, for shown metrics."""
    metrics = {metric.name: metric for table in tables for metric in table.metrics}
    lines: dict[tuple[str, ...], list[str]] = {}
    for gap in report.gaps:
        if gap.first not in metrics or gap.second not in metrics or not gap.mean:
            continue
        metric = metrics[gap.first]
        value = with_interval(gap.mean, gap.low, gap.high, metric)
        text = f"{one_line(plain_name(metric))} {'+' * (gap.mean >= 0)}{value}"
        lines.setdefault((*gap.protocols, gap.editor, gap.setting), []).append(text)
    several = len({gap.setting for gap in report.gaps}) > 1
    return [
        f"{second} minus {first}, {editor}{f', {setting}' * several}: {'; '.join(texts)}"
        for (first, second, editor, setting), texts in lines.items()
    ]


def _further(report: Report, tables: Sequence[MetricTable]) -> list[str]:
    """Return the names of metric groups and tables that a compact report leaves out."""
    displayed = {metric.name for table in tables for metric in table.metrics}
    measured = {row.metric for row in report.rows}
    hidden = [metric for metric in report.metrics if metric.name in measured - displayed]
    groups = dict.fromkeys(metric.group or "others" for metric in hidden)
    for metric in report.metrics:
        if metric.name in displayed:
            groups.pop(metric.group or "others", None)
    kinds = {"forgetting": report.forgetting, "costs": report.costs}
    return [*groups, *(name for name, rows in kinds.items() if rows)]


def legend(metrics: Sequence[Metric]) -> list[tuple[str, str]]:
    """Return (name, summary) of each metric, and of each further protocol of the metrics."""
    published = [
        (metric.name, metric.summary) for metric in metrics if plain_name(metric) == metric.name
    ]
    others: dict[str, str] = {}
    for metric in metrics:
        if plain_name(metric) != metric.name:
            others.setdefault(metric.protocol, protocol_summary(metric))
    return [line for line in (*published, *others.items()) if line[1]]


def show_explanation(manifest: Manifest, folder: Path, console: Console) -> None:
    """Print summaries of the editors and metrics, and commands that show the details."""
    summaries = {row["name"]: row["summary"] for row in EDITORS.rows()}
    editors = [(name, summaries.get(name, "")) for name in manifest.config.editors]
    for heading, lines in (("Editors", editors), ("Metrics", legend(manifest.metrics))):
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(style="dim", overflow="fold")
        for name, summary in lines:
            table.add_row(Text("  " + one_line(name)), Text(one_line(summary)))
        console.print(Text("\n" + heading, style="bold"), table)
    console.print(Text("\nTrace of one case", style="bold"))
    fingerprints = next(iter(manifest.editors.values()))
    with_graph = [name for name, fingerprint in fingerprints.items() if "graph" in fingerprint]
    example = (with_graph or list(fingerprints))[-1]
    console.print(
        Text(f"  emend trace {folder} 1 --editor {example} --kind efficacy"), soft_wrap=True
    )
    console.print(Text("\nResults in a browser", style="bold"))
    console.print(Text(f"  emend view {folder}"), soft_wrap=True)
