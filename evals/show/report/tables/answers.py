"""Answers beside what would be right, as a table."""

import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.evals.show.trace.answers import AnswerRow
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
