"""All cases of a run in short, for eyes: a table of nodes, and one of cases."""

import shlex
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.evals.overview import CaseRow, NodeRow, Overview
from emend.evals.report.figures import frame
from emend.evals.report.safe import one_line
from emend.evals.wanted import Wanted

MOST = 40
"""So many cases are listed; `--json` has all."""
WIDE = 100
"""From this width on there is room for all columns."""
SHORT = 56


def show_overview(found: Overview, folder: Path, wanted: Wanted, console: Console) -> None:
    """Print the tables, and how to see one of the cases."""
    if not found.cases:
        console.print(Text("nothing failed, was retried or is unscored", style="dim"))
        return
    if found.nodes:
        console.print(_nodes(found.nodes, console.width >= WIDE))
    console.print(_cases(found.cases, console.width >= WIDE))
    if console.width < WIDE:
        for row in found.cases[:MOST]:
            if row.found:
                console.print(Text(f"case {row.number}, {one_line(row.editor)}: {_found(row, console.width)}"))
    if len(found.cases) > MOST:
        console.print(Text(f"and {len(found.cases) - MOST} more: --json lists all", style="dim"))
    first = found.cases[0]
    alone = len({row.setting for row in found.cases}) == 1  # a number means a case of the first setting
    case = str(first.number) if alone else first.case
    command = ["emend", "trace", str(folder), case, "--editor", first.editor, *_options(wanted)]
    console.print(Text(f"One of them, step by step: {shlex.join(command)}", style="dim"), soft_wrap=True)


def _options(wanted: Wanted) -> list[str]:
    given = {"--node": wanted.node, "--grep": wanted.grep}
    told = [part for name, value in given.items() if value for part in (name, value)]
    return [*told, "--errors"] if wanted.errors else told


def _nodes(rows: tuple[NodeRow, ...], wide: bool) -> Table:
    heads = {"steps": "steps", "median_ms": "ms", "p95_ms": "95 %", "calls": "calls"} if wide else {}
    heads = heads or {"steps": "steps", "median_ms": "ms"}
    heads |= {"input_tokens": "in", "output_tokens": "out", "retries": "retries", "errors": "errors"}
    names = [name for name in heads if any(getattr(row, name) for row in rows)]
    table = _table(["editor", "node", *(heads[name] for name in names)])
    last = ""
    for row in rows:
        cells = [_number(getattr(row, name)) for name in names]
        table.add_row(one_line(row.editor) if row.editor != last else "", one_line(row.node), *cells)
        last = row.editor
    return table


def _cases(rows: tuple[CaseRow, ...], wide: bool) -> Table:
    counted = ("probes", "steps", "seconds", "retries", "errors", "unscored", "failed")
    names = [name for name in counted if any(getattr(row, name) for row in rows)]
    why = wide and any(row.found for row in rows)
    table = _table(["case", "editor", *("s" if name == "seconds" else name for name in names)])
    if why:
        table.add_column(Text("what", style="bold"), no_wrap=True)
    last = ("", 0)
    for row in rows[:MOST]:
        cells = [_number(getattr(row, name)) for name in names] + ([_found(row, SHORT)] if why else [])
        here = (row.setting, row.number)
        table.add_row(str(row.number) if here != last else "", one_line(row.editor), *map(Text, cells))
        last = here
    return table


def _table(heads: list[str]) -> Table:
    table = frame(*heads)
    table.columns[0].no_wrap = True
    table.columns[1].justify = "left"
    table.columns[1].header = Text(heads[1], style="bold")
    return table


def _number(value: float) -> str:
    if not value:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def _found(row: CaseRow, width: int) -> str:
    return one_line(" ".join(row.found.split()), max(20, width - 24) if width > SHORT else SHORT)
