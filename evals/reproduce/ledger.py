"""The ledger: which published figures can be run, and why the others cannot."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from emend.evals.papers.tables import PaperTable
from emend.evals.report.tables.layout import frame
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
    table = frame("table", "status", "reason", "figures", names=3)
    table.columns[2].no_wrap = False
    for row in rows:
        table.add(row.table, STATUSES[row.status], row.reason, f"{row.figures:,}")
    sums = Counter[Status]()
    for row in rows:
        sums[row.status] += row.figures
    lines = [Text(f"{sums[status]:,} {text}") for status, text in STATUSES.items() if sums[status]]
    executable = sum(sums[status] for status in EXECUTABLE)
    whole = f"{executable:,} of {sum(sums.values()):,} figures can be run with the papers' models on one GPU of 80 GB"
    return Group(table, *lines, Text(whole, style="bold"))
