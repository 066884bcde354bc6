"""The result of a query as a table."""

from rich.console import Console
from rich.text import Text

from emend.evals.results.aggregate.database import QueryResult
from emend.evals.show.report.tables.layout import Frame
from emend.memory.escape import one_line

MAX_ROWS = 100
"""Largest number of rows shown; `--json` and `--out` have all."""
LONG = 500
"""Characters of a cell that are shown."""


def show_query(result: QueryResult, console: Console) -> None:
    """Print the rows."""
    table = Frame(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(result.columns):
        cells = [row[place] for row in result.rows[:MAX_ROWS]]
        are_numbers = all(isinstance(cell, int | float) for cell in cells if cell is not None) and any(cells)
        table.add_column(one_line(column, LONG), justify="right" if are_numbers else "left", no_wrap=are_numbers)
    for row in result.rows[:MAX_ROWS]:
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(table)
    if len(result.rows) > MAX_ROWS:
        rest = len(result.rows) - MAX_ROWS
        console.print(Text(f"and {rest:,} more: --json prints all, --out FILE writes them", style="dim"))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else one_line(str(value), LONG)
