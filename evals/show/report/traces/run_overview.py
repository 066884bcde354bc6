"""Tables of all cases and nodes of a run."""

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from rich.console import Console
from rich.text import Text

from emend.evals.show.report.layout import Frame, frame
from emend.evals.show.report.traces.answer_list import MAX_ROWS, show_next
from emend.evals.show.trace.filters import StepFilter
from emend.evals.show.trace.overview import CaseRow, NodeRow, Overview
from emend.memory.escape import one_line

# Console width from which all columns are shown.
WIDE = 100
# Maximum number of characters of a failure in the table of a wide terminal; otherwise failures are
# printed below the table.
FINDING_LENGTH = 56


def show_overview(overview: Overview, folder: Path, filters: StepFilter, console: Console) -> None:
    """Print the tables, and the command that shows one of the cases."""
    if not overview.cases:
        console.print(Text("no step failed, was retried or is unscored", style="dim"))
        return
    if overview.nodes:
        console.print(_nodes(overview.nodes, console.width >= WIDE))
    beside = console.is_terminal and console.width >= WIDE
    console.print(_cases(overview.cases, beside))
    if not beside:
        limit = 0
        if console.is_terminal:
            limit = max(20, console.width - 24)
        for row in overview.cases[:MAX_ROWS]:
            if row.finding:
                console.print(
                    Text(f"case {row.number}, {one_line(row.editor)}: {_finding(row, limit)}")
                )
    show_next(overview.cases, folder, _options(filters), console)


def _options(filters: StepFilter) -> list[str]:
    options = {"--node": filters.node, "--grep": filters.grep}
    arguments = [part for name, value in options.items() if value for part in (name, value)]
    if filters.errors:
        return [*arguments, "--errors"]
    return arguments


def _nodes(rows: tuple[NodeRow, ...], wide: bool) -> Frame:
    heads = {"steps": "steps", "median_ms": "median ms"}
    if wide:
        heads |= {"p95_ms": "p95 ms", "calls": "calls"}
    heads |= {
        "input_tokens": "in",
        "output_tokens": "out",
        "retries": "retries",
        "errors": "errors",
    }
    names = _nonzero(rows, list(heads))
    table = frame("editor", "node", *(heads[name] for name in names), names=2)
    for row in rows:
        table.add(row.editor, one_line(row.node), *(_number(getattr(row, name)) for name in names))
    return table


def _cases(rows: tuple[CaseRow, ...], beside: bool) -> Frame:
    counted = ("probes", "steps", "seconds", "retries", "errors", "unscored", "failed")
    names = _nonzero(rows, counted)
    why = beside and any(row.finding for row in rows)
    heads = [{"seconds": "s"}.get(name, name) for name in names]
    table = frame("case", "editor", *heads, names=2)
    if why:
        table.add_column(Text("what", style="bold"), no_wrap=True)
    last = ("", 0)
    for row in rows[:MAX_ROWS]:
        cells = [_number(getattr(row, name)) for name in names]
        if why:
            cells.append(_finding(row, FINDING_LENGTH))
        here = (row.setting, row.number)
        number = ""
        if here != last:
            number = str(row.number)
        table.add_row(number, one_line(row.editor), *map(Text, cells))
        last = here
    return table


def _nonzero(rows: Sequence[NodeRow | CaseRow], names: Sequence[str]) -> list[str]:
    """Return the names of the fields that are nonzero in any row."""
    return [name for name in names if any(map(attrgetter(name), rows))]


def _number(value: float) -> str:
    if not value:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if value >= 1:
        return f"{value:,.1f}"
    return f"{value:.2g}"


def _finding(row: CaseRow, limit: int) -> str:
    return one_line(" ".join(row.finding.split()), limit)
