"""How numbers stand in tables."""

from rich import box
from rich.table import Table
from rich.text import Text

from emend.evals.case import Metric

EXACT = 4.0  # an interval narrower than this, in percent, is shown with a decimal


def frame(first: str, *more: str) -> Table:
    """An empty table: the first column on the left, further ones on the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False, header_style="")
    table.add_column(Text(first, style="bold"), overflow="fold")  # gives way before a number does
    for heading in more:
        table.add_column(Text(heading, style="bold", justify="right"), justify="right", no_wrap=True)
    return table


def without_empty(table: Table, *headings: str) -> Table:
    """The table without those of the named columns in which no row has anything."""
    kept = []
    for column in table.columns:
        empty = not any(str(cell) for cell in column.cells)
        if not (empty and str(column.header) in headings):
            kept.append(column)
    table.columns = kept
    return table


def decimals(metric: Metric) -> int:
    """Digits after the point: one in percent."""
    return 1 if metric.scale >= 10 else 3


def number(mean: float, metric: Metric) -> str:
    """The mean as it is shown; no -0."""
    return f"{round(mean, decimals(metric)) + 0.0:.{decimals(metric)}f}"


def interval(low: float, high: float, metric: Metric) -> str:
    """The 95 % interval, in whole percent where that says enough."""
    digits = decimals(metric)
    if metric.scale == 100 and high - low >= EXACT:
        digits = 0
    low, high = (round(end, digits) + 0.0 for end in (low, high))  # no -0
    return f"[{low:.{digits}f}, {high:.{digits}f}]"
