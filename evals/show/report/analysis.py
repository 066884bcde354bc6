"""Tables of analyses, of comparisons and of queries."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from emend.evals.case import Metric
from emend.evals.results.aggregate.database import QueryResult
from emend.evals.results.analyses.base import Analysis, AnalysisRow
from emend.evals.results.analyses.compare import Comparison, ComparisonRow
from emend.evals.show.report.layout import (
    INTERVALS,
    Frame,
    bounds,
    decimal,
    dim,
    frame,
    interval,
    number,
    plain_grid,
    unscored,
    without_empty,
)
from emend.memory.escape import one_line


def render_analysis(analysis: Analysis) -> RenderableType:
    """A table per panel, a row per label and editor."""
    unit = f" ({analysis.unit})" if analysis.unit else ""
    parts: list[RenderableType] = [Text(one_line(f"{analysis.title}{unit}"), style="bold"), Text("")]
    for panel, rows in groupby(analysis.rows, key=lambda row: row.panel):
        levels = dim(line.label for line in analysis.lines if line.panel == panel)
        parts += [Text(one_line(panel), style="bold"), _analysis_table(list(rows), analysis.series), *levels, Text("")]
    return Group(*parts, *dim([*analysis.notes, f"{INTERVALS}; n is scored, the rest is unscored"]))


def _analysis_table(rows: Sequence[AnalysisRow], series: str) -> Frame:
    table = frame("", series, "mean", "95 %", "n", "unscored", names=2)
    digits = 2 if max((abs(row.mean) for row in rows if row.mean is not None), default=0.0) < 10 else 1
    for row in rows:
        figures = decimal(row.mean, digits), bounds(row.low, row.high, digits), str(row.n), unscored(row.unscored)
        table.add(row.label, Text(one_line(row.series)), *figures)
    return without_empty(table, "unscored")


def show_possible(rows: Sequence[tuple[str, str, str]], run: str, console: Console) -> None:
    """Print the analyses: name, summary, and why not where the run has not what it needs ("" where it has)."""
    able = [(name, summary) for name, summary, why in rows if not why]
    console.print(Text(one_line(f"{run} can have:"), style="bold"))
    table = plain_grid("whole", "fold")
    for name, summary in able:
        table.add_row(f"  {name}", Text(one_line(summary.partition(": ")[2] or summary)))
    console.print(table)
    if lacking := [(name, why) for name, _, why in rows if why]:
        console.print(Text("It lacks something for:", style="bold"))
        for name, why in lacking:
            console.print(Text(f"  {name}"))
            console.print(Padding(Text(one_line(why), style="dim"), (0, 0, 0, 4), expand=False))
    if able:
        name = able[0][0]
        console.print(Text(one_line(f"Show one: emend analyse {run} {name} --plot {name}.png"), style="dim"))


LEVEL = 0.05


def render_comparison(comparison: Comparison) -> RenderableType:
    """A table per pair of editors, setting and judge; differences that chance hardly makes are bold."""
    parts: list[RenderableType] = []
    known = {metric.name: metric for metric in comparison.metrics}
    covered = {(coverage.editor_a, coverage.editor_b, coverage.setting): coverage for coverage in comparison.coverage}
    for key, rows in groupby(comparison.rows, key=lambda row: (row.editor_a, row.editor_b, row.setting)):
        pairs = f"{covered[key].paired} probes of {covered[key].cases} cases paired"
        parts.append(Text(one_line(f"{comparison.benchmark}, {key[2]}: {pairs}"), style="bold"))
        sides = (("A", comparison.run_a, key[0]), ("B", comparison.run_b, key[1]))
        parts += [Text(one_line(f"{side} = {run} ({editor})")) for side, run, editor in sides]
        for judge, members in groupby(rows, key=lambda row: row.judge):
            parts += [Text(one_line(judge), style="bold")] if judge else []
            parts += [_comparison_table(list(members), known), Text("")]
    return Group(*parts, *dim(comparison.notes))


def _comparison_table(rows: list[ComparisonRow], known: dict[str, Metric]) -> Frame:
    table = frame("metric", "A", "B", "difference", "95 %", "p", "n", "unscored")
    for row in rows:
        metric, paired = known[row.metric], row.paired
        # Blanks, so that a long name is broken between its words where the table is too wide.
        name = f"  {row.kind.replace('_', ' ')}" if row.kind else row.metric
        means = [difference_text(mean, metric) for mean in (paired.mean_a, paired.mean_b)]
        style = "bold" if paired.p is not None and paired.p < LEVEL else ""
        table.add_row(
            Text(one_line(name), style="dim" if row.kind else ""),
            *means,
            Text(difference_text(paired.difference, metric, "+"), style=style),
            Text(interval_text(row, metric), style="dim"),
            Text(p_text(paired.p), style=style),
            str(paired.n),
            unscored(paired.unscored),
        )
    return without_empty(table, "unscored")


def difference_text(value: float | None, metric: Metric, sign: str = "") -> str:
    """A mean or difference in the metric's unit; with its sign if that is given."""
    if value is None:
        return "-"
    text = number(value * metric.scale, metric)
    return sign + text if sign and not text.startswith("-") and float(text) else text


def interval_text(row: ComparisonRow, metric: Metric) -> str:
    """The interval of a difference in the metric's unit."""
    low, high = row.paired.low, row.paired.high
    return "-" if low is None or high is None else interval(low * metric.scale, high * metric.scale, metric)


def p_text(p: float | None) -> str:
    """A p value with three digits."""
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


MAX_ROWS = 100
"""Largest number of rows shown; `--json` and `--out` have all."""
LONG = 500
"""Characters of a cell that are shown."""


def show_query(result: QueryResult, console: Console) -> None:
    """Print the rows."""
    table = Frame(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(result.columns):
        cells = [row[place] for row in result.rows[:MAX_ROWS]]
        are_numbers = all(isinstance(cell, int | float) for cell in cells if cell is not None) and any(cells)
        table.add_column(one_line(column, LONG), justify="right" if are_numbers else "left", no_wrap=are_numbers)
    for row in result.rows[:MAX_ROWS]:
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(table)
    if len(result.rows) > MAX_ROWS:
        rest = len(result.rows) - MAX_ROWS
        console.print(Text(f"and {rest:,} more: --json prints all, --out FILE writes them", style="dim"))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else one_line(str(value), LONG)
