"""The table of an analysis, and the list of those that a run can have."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from emend.evals.results.analyses.base import Analysis, AnalysisRow
from emend.evals.show.report.tables.layout import INTERVALS, Frame, bounds, decimal, dim, frame, unscored, without_empty
from emend.memory.escape import one_line


def render_analysis(analysis: Analysis) -> RenderableType:
    """A table per panel, a row per label and editor."""
    unit = f" ({analysis.unit})" if analysis.unit else ""
    parts: list[RenderableType] = [Text(one_line(f"{analysis.title}{unit}"), style="bold"), Text("")]
    for panel, rows in groupby(analysis.rows, key=lambda row: row.panel):
        levels = dim(line.label for line in analysis.lines if line.panel == panel)
        parts += [Text(one_line(panel), style="bold"), _table(list(rows), analysis.series), *levels, Text("")]
    return Group(*parts, *dim([*analysis.notes, f"{INTERVALS}; n is scored, the rest is unscored"]))


def _table(rows: Sequence[AnalysisRow], series: str) -> Frame:
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
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
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
