"""Tables of analyses, comparisons and queries."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from emend.evals.case import Metric
from emend.evals.metrics.protocols import plain_name
from emend.evals.results.aggregate.database import QueryResult
from emend.evals.results.analyses.base import Analysis, AnalysisRow
from emend.evals.results.analyses.compare import Comparison, ComparisonRow
from emend.evals.show.report.layout import (
    Frame,
    bounds,
    decimal,
    dim,
    frame,
    interval,
    interval_note,
    number,
    plain_grid,
    unscored,
    without_empty,
)
from emend.memory.escape import one_line


def render_analysis(analysis: Analysis) -> RenderableType:
    """Render a table per panel, with a row per label and editor."""
    unit = ""
    if analysis.unit:
        unit = f" ({analysis.unit})"
    parts: list[RenderableType] = [
        Text(one_line(f"{analysis.title}{unit}"), style="bold"),
        Text(""),
    ]
    for panel, rows in groupby(analysis.rows, key=lambda row: row.panel):
        levels = dim(line.label for line in analysis.lines if line.panel == panel)
        parts += [
            Text(one_line(panel), style="bold"),
            _analysis_table(list(rows), analysis.series),
            *levels,
            Text(""),
        ]
    intervals = interval_note(row.low for row in analysis.rows)
    return Group(*parts, *dim([*analysis.notes, f"{intervals}; n counts scored answers"]))


def _analysis_table(rows: Sequence[AnalysisRow], series: str) -> Frame:
    table = frame("", series, "mean", "95 %", "n", "unscored", names=2)
    digits = 1
    if max((abs(row.mean) for row in rows if row.mean is not None), default=0.0) < 10:
        digits = 2
    for row in rows:
        figures = (
            decimal(row.mean, digits),
            bounds(row.low, row.high, digits),
            str(row.n),
            unscored(row.unscored),
        )
        table.add(row.label, Text(one_line(row.series)), *figures)
    return without_empty(table, "unscored")


def show_possible(rows: Sequence[tuple[str, str, str]], run: str, console: Console) -> None:
    """Print the analyses that a run allows, and those for which it lacks something.

    Args:
        rows: name, summary and missing requirement ("" if there is none) of each analysis.
        run: name of the run.
        console: console to print to.
    """
    able = [(name, summary) for name, summary, why in rows if not why]
    console.print(Text(one_line(f"Analyses of {run}:"), style="bold"))
    table = plain_grid("whole", "fold")
    for name, summary in able:
        table.add_row(f"  {name}", Text(one_line(summary.partition(": ")[2] or summary)))
    console.print(table)
    if lacking := [(name, why) for name, _, why in rows if why]:
        console.print(Text("Not possible for this run:", style="bold"))
        for name, why in lacking:
            console.print(Text(f"  {name}"))
            console.print(Padding(Text(one_line(why), style="dim"), (0, 0, 0, 4), expand=False))
    if able:
        name = able[0][0]
        console.print(
            Text(
                one_line(f"Compute one: emend analyse {run} {name} --plot {name}.png"), style="dim"
            )
        )


LEVEL = 0.05


def render_comparison(comparison: Comparison) -> RenderableType:
    """Render a table per pair of editors, setting and judge.

    Differences with p < 0.05 are bold.
    """
    parts: list[RenderableType] = []
    by_name = {metric.name: metric for metric in comparison.metrics}
    covered = {
        (coverage.editor_a, coverage.editor_b, coverage.setting): coverage
        for coverage in comparison.coverage
    }
    visible = visible_rows(comparison)
    for key, rows in groupby(visible, key=lambda row: (row.editor_a, row.editor_b, row.setting)):
        pairs = f"{covered[key].paired} probes of {covered[key].cases} cases paired"
        parts.append(Text(one_line(f"{comparison.benchmark}, {key[2]}: {pairs}"), style="bold"))
        sides = (("A", comparison.run_a, key[0]), ("B", comparison.run_b, key[1]))
        parts += [Text(one_line(f"{side} = {run} ({editor})")) for side, run, editor in sides]
        for judge, members in groupby(rows, key=lambda row: row.judge):
            if judge:
                parts += [Text(one_line(judge), style="bold")]
            parts += [_comparison_table(list(members), by_name), Text("")]
    return Group(*parts, *dim([*comparison.notes, *not_shown(comparison)]))


def visible_rows(comparison: Comparison) -> list[ComparisonRow]:
    """Return the rows to show: by the headline's protocol, and of metrics with scored pairs."""
    scored = {row.metric for row in comparison.rows if row.paired.n or row.judge}
    visible = scored - set(comparison.hidden)
    return [row for row in comparison.rows if row.metric in visible]


def not_shown(comparison: Comparison) -> list[str]:
    """Return notes that name the metrics of which no row is shown."""
    metrics = {metric.name: metric for metric in comparison.metrics}
    visible = {row.metric for row in visible_rows(comparison)}
    names = dict.fromkeys(row.metric for row in comparison.rows if row.metric not in visible)
    hidden = [plain_name(metrics[name]) for name in names if name in comparison.hidden]
    empty = [name for name in names if name not in comparison.hidden]
    notes = []
    if hidden:
        listed = ", ".join(dict.fromkeys(hidden))
        notes.append(f"not shown: further protocols of {listed} (--json)")
    if empty:
        notes.append(f"not shown, since no pair is scored: {', '.join(empty)}")
    return notes


def _comparison_table(rows: list[ComparisonRow], by_name: dict[str, Metric]) -> Frame:
    table = frame("metric", "A", "B", "difference", "95 %", "p", "n", "unscored")
    for row in rows:
        metric, paired = by_name[row.metric], row.paired
        # blanks allow a long name to be wrapped if the table is too wide
        if row.kind:
            name = f"  {row.kind.replace('_', ' ')}"
        else:
            name = row.metric
        means = [difference_text(mean, metric) for mean in (paired.mean_a, paired.mean_b)]
        style = ""
        if paired.p is not None and paired.p < LEVEL:
            style = "bold"
        table.add_row(
            Text(one_line(name), style="dim" * bool(row.kind)),
            *means,
            Text(difference_text(paired.difference, metric, "+"), style=style),
            Text(interval_text(row, metric), style="dim"),
            Text(p_text(paired.p), style=style),
            str(paired.n),
            unscored(paired.unscored),
        )
    return without_empty(table, "unscored")


def difference_text(value: float | None, metric: Metric, sign: str = "") -> str:
    """Format a mean or difference in the metric's unit, with `sign` before positive values."""
    if value is None:
        return "-"
    text = number(value * metric.scale, metric)
    if sign and not text.startswith("-") and float(text):
        return sign + text
    return text


def interval_text(row: ComparisonRow, metric: Metric) -> str:
    """Format the interval of a difference in the metric's unit."""
    low, high = row.paired.low, row.paired.high
    if low is None or high is None:
        return "-"
    return interval(low * metric.scale, high * metric.scale, metric)


def p_text(p: float | None) -> str:
    """Format a p-value with three decimals."""
    if p is None:
        return "-"
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}"


# Maximum number of printed rows; `--json` and `--out` have all.
MAX_ROWS = 100
# Maximum number of printed characters per cell.
LONG = 500


def show_query(result: QueryResult, console: Console) -> None:
    """Print the rows of a query."""
    table = Frame(box=None, pad_edge=False, header_style="bold")
    for position, column in enumerate(result.columns):
        cells = [row[position] for row in result.rows[:MAX_ROWS]]
        are_numbers = all(
            isinstance(cell, int | float) for cell in cells if cell is not None
        ) and any(cells)
        table.add_column(
            one_line(column, LONG), justify="right" if are_numbers else "left", no_wrap=are_numbers
        )
    for row in result.rows[:MAX_ROWS]:
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(table)
    if len(result.rows) > MAX_ROWS:
        rest = len(result.rows) - MAX_ROWS
        console.print(
            Text(f"and {rest:,} more: --json prints all, --out FILE writes them", style="dim")
        )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return one_line(str(value), LONG)
