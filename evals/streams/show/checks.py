"""Terminal output for the checks of a stream."""

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from emend.evals.streams.fairness import StreamCheck
from emend.memory.escape import one_line

FAULTS_SHOWN = 5


def render_checks(checks: Sequence[StreamCheck]) -> Group:
    """Render a row for each check, and the first questions that fail it."""
    table = Table(box=None, pad_edge=False)
    table.add_column("check")
    table.add_column("failed", justify="right")
    table.add_column("of", justify="right")
    for check in checks:
        table.add_row(check.name, f"{check.failed:,}", f"{check.n:,}")
    examples = [
        Text(f"  {one_line(text)}") for check in checks for text in check.examples[:FAULTS_SHOWN]
    ]
    return Group(table, *examples)
