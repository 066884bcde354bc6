"""Table of answers of a run, with the command that shows one of them."""

import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emend.evals.show.trace.answers import AnswerRow
from emend.evals.show.trace.overview import CaseRow
from emend.memory.escape import one_line

# Maximum number of listed answers; `--json` lists all.
MAX_ROWS = 40
# Maximum number of characters of a prompt or answer; a prompt is cut at its start, as the question
# is at its end.
LONG = 300


def show_answers(rows: Sequence[AnswerRow], folder: Path, console: Console) -> None:
    """Print answers, and the command that shows one of them step by step."""
    if not rows:
        console.print(Text("no answer matches", style="dim"))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in ("case", "editor", "kind", "score"):
        table.add_column(name, no_wrap=True)
    for name in ("prompt", "answer", "right answer"):
        table.add_column(name, overflow="fold")
    for row in islice(rows, MAX_ROWS):
        style = {"right": "green", "wrong": "red"}.get(row.verdict, "yellow")
        if len(row.prompt) <= LONG:
            prompt = row.prompt
        else:
            prompt = f"…{row.prompt[-LONG:]}"
        names = (Text(one_line(text)) for text in (str(row.number), row.editor, row.kind))
        texts = (
            Text(one_line(text, LONG + 1))
            for text in (prompt, row.answer or "-", " / ".join(row.gold) or "(as before the edit)")
        )
        table.add_row(*names, Text(one_line(row.score, 40), style=style), *texts)
    console.print(table)
    show_next(rows, folder, ["--probe", rows[0].probe], console)


def show_next(
    rows: Sequence[AnswerRow] | Sequence[CaseRow],
    folder: Path,
    options: list[str],
    console: Console,
) -> None:
    """Print the number of rows not listed, and the command that shows the first row in detail."""
    if len(rows) > MAX_ROWS:
        console.print(Text(f"and {len(rows) - MAX_ROWS:,} more: --json lists all", style="dim"))
    first = rows[0]
    # a number refers to a case of the first setting, so it is only unique within one setting
    alone = len({row.setting for row in rows}) == 1
    if alone and first.number:
        case = str(first.number)
    else:
        case = first.case
    command = ["emend", "trace", str(folder), case, "--editor", first.editor, *options]
    line = one_line(shlex.join(command))
    console.print(Text(f"Trace of one of them: {line}", style="dim"), soft_wrap=True)
