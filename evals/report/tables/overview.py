"""All cases of a run in short, for eyes: a table of nodes, and one of cases."""

import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from emend.evals.report.escape import one_line
from emend.evals.report.tables.layout import Frame, frame
from emend.evals.trace.filters import StepFilter
from emend.evals.trace.overview import CaseRow, NodeRow, Overview

MOST = 40
"""So many cases are listed; `--json` has all."""
WIDE = 100
"""From this width on there is room for all columns."""
SHORT = 56
"""So much of a failure stands beside its case in a terminal; elsewhere it is told whole, below the table."""


def show_overview(found: Overview, folder: Path, wanted: StepFilter, console: Console) -> None:
    """Print the tables, and how to see one of the cases."""
    if not found.cases:
        console.print(Text("nothing failed, was retried or is unscored", style="dim"))
        return
    if found.nodes:
        console.print(_nodes(found.nodes, console.width >= WIDE))
    beside = console.is_terminal and console.width >= WIDE
    console.print(_cases(found.cases, beside))
    if not beside:
        limit = max(20, console.width - 24) if console.is_terminal else 0
        for row in found.cases[:MOST]:
            if row.found:
                console.print(Text(f"case {row.number}, {one_line(row.editor)}: {_found(row, limit)}"))
    if len(found.cases) > MOST:
        console.print(Text(f"and {len(found.cases) - MOST} more: --json lists all", style="dim"))
    first = found.cases[0]
    alone = len({row.setting for row in found.cases}) == 1  # a number means a case of the first setting
    case = str(first.number) if alone else first.case
    command = ["emend", "trace", str(folder), case, "--editor", first.editor, *_options(wanted)]
    console.print(Text(f"One of them, step by step: {shlex.join(command)}", style="dim"), soft_wrap=True)


def _options(wanted: StepFilter) -> list[str]:
    given = {"--node": wanted.node, "--grep": wanted.grep}
    told = [part for name, value in given.items() if value for part in (name, value)]
    return [*told, "--errors"] if wanted.errors else told


def _nodes(rows: tuple[NodeRow, ...], wide: bool) -> Frame:
    heads = {"steps": "steps", "median_ms": "median ms"}
    heads |= {"p95_ms": "p95 ms", "calls": "calls"} if wide else {}
    heads |= {"input_tokens": "in", "output_tokens": "out", "retries": "retries", "errors": "errors"}
    names = [name for name in heads if any(getattr(row, name) for row in rows)]
    table = frame("editor", "node", *(heads[name] for name in names), names=2)
    last = ""
    for row in rows:
        cells = [_number(getattr(row, name)) for name in names]
        table.add_row(one_line(row.editor) if row.editor != last else "", one_line(row.node), *cells)
        last = row.editor
    return table


def _cases(rows: tuple[CaseRow, ...], beside: bool) -> Frame:
    counted = ("probes", "steps", "seconds", "retries", "errors", "unscored", "failed")
    names = [name for name in counted if any(getattr(row, name) for row in rows)]
    why = beside and any(row.found for row in rows)
    table = frame("case", "editor", *("s" if name == "seconds" else name for name in names), names=2)
    if why:
        table.add_column(Text("what", style="bold"), no_wrap=True)
    last = ("", 0)
    for row in rows[:MOST]:
        cells = [_number(getattr(row, name)) for name in names] + ([_found(row, SHORT)] if why else [])
        here = (row.setting, row.number)
        table.add_row(str(row.number) if here != last else "", one_line(row.editor), *map(Text, cells))
        last = here
    return table


def _number(value: float) -> str:
    if not value:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def _found(row: CaseRow, limit: int) -> str:
    return one_line(" ".join(row.found.split()), limit)
