"""The ledger: which published figures can be run, and why the others cannot."""

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emend.evals.papers.tables import PaperTable
from emend.evals.reproduce.needs import STATUSES, Status, plan_cells
from emend.memory.edit import FrozenModel

EXECUTABLE: tuple[Status, ...] = ("runnable", "judge")
"""Statuses of figures that one can run with the paper's own model."""


class LedgerRow(FrozenModel):
    """Number of a table's figures with a status, and the reason; as published, on one GPU."""

    table: str
    status: Status
    reason: str
    figures: int


def ledger_rows(tables: Sequence[PaperTable]) -> list[LedgerRow]:
    """Count the figures of tables by status and reason, as the papers' own models give them."""
    counts = Counter(
        (table.id, planned.status, planned.reason) for table in tables for planned in plan_cells(table, {})
    )
    return [
        LedgerRow(table=table, status=status, reason=reason, figures=count)
        for (table, status, reason), count in counts.items()
    ]


def render_ledger(rows: Sequence[LedgerRow]) -> RenderableType:
    """A line for each table and reason, and the sums."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("table", no_wrap=True)
    table.add_column("figures", justify="right", no_wrap=True)
    table.add_column("status, and why", overflow="fold")
    for row, before in zip(rows, (None, *rows), strict=False):
        status = Text(STATUSES[row.status]).append(f": {row.reason}" if row.reason else "", style="dim")
        table.add_row("" if before and before.table == row.table else row.table, f"{row.figures:,}", status)
    sums = Counter[Status]()
    for row in rows:
        sums[row.status] += row.figures
    lines = [Text(f"{sums[status]:,} {text}") for status, text in STATUSES.items() if sums[status]]
    executable = sum(sums[status] for status in EXECUTABLE)
    whole = f"{executable:,} of {sum(sums.values()):,} figures can be run with the papers' models on one GPU of 80 GB"
    return Group(table, *lines, Text(whole, style="bold"))
