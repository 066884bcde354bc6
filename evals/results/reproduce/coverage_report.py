"""Coverage of the papers: which published figures can be run, with what, and why the others cannot."""

from collections import Counter
from collections.abc import Sequence

from emend.evals.results.papers.tables import PaperTable
from emend.evals.results.reproduce.needs import Status, plan_cells
from emend.memory.edit import FrozenModel

EXECUTABLE: tuple[Status, ...] = ("now", "option")
"""Statuses of figures that the command gives with the paper's own model and nothing else of one's own."""


class CoverageRow(FrozenModel):
    """Number of a table's figures with a status, and the reason; as published, on one GPU."""

    table: str
    status: Status
    reason: str
    figures: int


def coverage_rows(tables: Sequence[PaperTable]) -> list[CoverageRow]:
    """Count the figures of tables by status and reason, as the papers' own models give them."""
    counts = Counter(
        (table.id, planned.status, planned.reason) for table in tables for planned in plan_cells(table, {})
    )
    return [
        CoverageRow(table=table, status=status, reason=reason, figures=count)
        for (table, status, reason), count in counts.items()
    ]


def status_counts(rows: Sequence[CoverageRow]) -> Counter[Status]:
    """Number of figures by status."""
    sums = Counter[Status]()
    for row in rows:
        sums[row.status] += row.figures
    return sums
