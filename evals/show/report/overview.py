"""Overview of a run's traces: tables of nodes, of cases, and of answers beside what would be right."""

import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.evals.show.report.layout import Frame, frame
from emend.evals.show.trace.answers import AnswerRow, StepFilter
from emend.evals.show.trace.overview import CaseRow, NodeRow, Overview
from emend.memory.escape import one_line

MAX_ROWS = 40
"""Largest number of answers listed; `--json` lists all."""
LONG = 300
"""Characters of a prompt or answer that are shown: the end of a prompt, where its question is."""


def show_answers(rows: Sequence[AnswerRow], folder: Path, console: Console) -> None:
    """Print the answers, and how to see one of them step by step."""
    if not rows:
        console.print(Text("no answer is such", style="dim"))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in ("case", "editor", "kind", "score"):
        table.add_column(name, no_wrap=True)
    for name in ("prompt", "answer", "right answer"):
        table.add_column(name, overflow="fold")
    for row in islice(rows, MAX_ROWS):
        style = {"right": "green", "wrong": "red"}.get(row.verdict, "yellow")
        prompt = row.prompt if len(row.prompt) <= LONG else f"…{row.prompt[-LONG:]}"
        names = (Text(one_line(text)) for text in (str(row.number), row.editor, row.kind))
        texts = (
            Text(one_line(text, LONG + 1))
            for text in (prompt, row.answer or "-", " / ".join(row.gold) or "(as before the edit)")
        )
        table.add_row(*names, Text(one_line(row.score, 40), style=style), *texts)
    console.print(table)
    if len(rows) > MAX_ROWS:
        console.print(Text(f"and {len(rows) - MAX_ROWS:,} more: --json lists all", style="dim"))
    first = rows[0]
    case = str(first.number) if len({row.setting for row in rows}) == 1 else first.case  # numbers are of a setting
    command = ["emend", "trace", str(folder), case, "--editor", first.editor, "--probe", first.probe]
    console.print(Text(f"One of them, step by step: {shlex.join(command)}", style="dim"), soft_wrap=True)


"""Largest number of cases listed; `--json` lists all."""
WIDE = 100
"""From this width on there is room for all columns."""
SHORT = 56
"""Characters of a failure shown beside its case in a terminal; elsewhere it is printed whole below the table."""


def show_overview(overview: Overview, folder: Path, filters: StepFilter, console: Console) -> None:
    """Print the tables, and how to see one of the cases."""
    if not overview.cases:
        console.print(Text("nothing failed, was retried or is unscored", style="dim"))
        return
    if overview.nodes:
        console.print(_nodes(overview.nodes, console.width >= WIDE))
    beside = console.is_terminal and console.width >= WIDE
    console.print(_cases(overview.cases, beside))
    if not beside:
        limit = max(20, console.width - 24) if console.is_terminal else 0
        for row in overview.cases[:MAX_ROWS]:
            if row.finding:
                console.print(Text(f"case {row.number}, {one_line(row.editor)}: {_found(row, limit)}"))
    if len(overview.cases) > MAX_ROWS:
        console.print(Text(f"and {len(overview.cases) - MAX_ROWS} more: --json lists all", style="dim"))
    first = overview.cases[0]
    alone = len({row.setting for row in overview.cases}) == 1  # a number means a case of the first setting
    case = str(first.number) if alone and first.number else first.case
    command = ["emend", "trace", str(folder), case, "--editor", first.editor, *_options(filters)]
    console.print(Text(f"One of them, step by step: {shlex.join(command)}", style="dim"), soft_wrap=True)


def _options(filters: StepFilter) -> list[str]:
    options = {"--node": filters.node, "--grep": filters.grep}
    arguments = [part for name, value in options.items() if value for part in (name, value)]
    return [*arguments, "--errors"] if filters.errors else arguments


def _nodes(rows: tuple[NodeRow, ...], wide: bool) -> Frame:
    heads = {"steps": "steps", "median_ms": "median ms"}
    heads |= {"p95_ms": "p95 ms", "calls": "calls"} if wide else {}
    heads |= {"input_tokens": "in", "output_tokens": "out", "retries": "retries", "errors": "errors"}
    names = [name for name in heads if any(getattr(row, name) for row in rows)]
    table = frame("editor", "node", *(heads[name] for name in names), names=2)
    for row in rows:
        table.add(row.editor, one_line(row.node), *(_number(getattr(row, name)) for name in names))
    return table


def _cases(rows: tuple[CaseRow, ...], beside: bool) -> Frame:
    counted = ("probes", "steps", "seconds", "retries", "errors", "unscored", "failed")
    names = [name for name in counted if any(getattr(row, name) for row in rows)]
    why = beside and any(row.finding for row in rows)
    table = frame("case", "editor", *("s" if name == "seconds" else name for name in names), names=2)
    if why:
        table.add_column(Text("what", style="bold"), no_wrap=True)
    last = ("", 0)
    for row in rows[:MAX_ROWS]:
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
    return one_line(" ".join(row.finding.split()), limit)
