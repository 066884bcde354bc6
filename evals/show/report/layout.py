"""Layout of tables and numbers for consoles of any width, notebooks and plain text."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TextIO

from rich import box
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from emend.evals.case import Metric
from emend.evals.results.aggregate.mark_names import decimals
from emend.memory.escape import one_line


def console_for(file: TextIO | None = None) -> Console:
    """Return a console for reports: as wide as the terminal, or without wrapping for a pipe."""
    stream = file or sys.stdout
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return Console(file=stream, highlight=False)
    return Console(file=stream, highlight=False, width=400, soft_wrap=True)


EXACT = 4.0  # intervals narrower than this, in percent, are shown with decimals
INTERVALS = "95 % intervals: bootstrap over cases, Wilson's near 0 and 1"
NO_INTERVALS = "no 95 % intervals: too few {unit}s, or all alike"
# Width in which tables are measured; within the console's own width, rich would cut numbers to fit.
WIDEST = 10_000
# Minimum width of a text column beside other columns.
ROOM = 24


def interval_note(lows: Iterable[float | None], unit: str = "case", note: str = INTERVALS) -> str:
    """Return the note on intervals, given their lower ends; `unit` is what they are computed
    over.
    """
    if any(low is not None for low in lows):
        return note
    return NO_INTERVALS.format(unit=unit)


class Frame(Table):
    """Table that is printed as a list of rows if the console is too narrow."""

    names = 1
    """Number of leading columns that identify a row; an empty cell repeats the one above."""
    last_name = ""

    def add(self, name: str, *cells: str | Text) -> None:
        """Add a row; its name is left empty if it equals the name of the previous row."""
        head = Text()
        if name != self.last_name:
            head = Text(one_line(name))
        self.add_row(head, *cells)
        self.last_name = name

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._least(console) <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield Group(*self._listed())

    def _least(self, console: Console) -> int:
        """Return the minimum width at which no number or word is cut.

        Text columns, which may be wrapped, count with at most `ROOM` characters.
        """
        roomy = console.options.update(max_width=WIDEST)
        spared = 0
        for number, column in enumerate(self.columns):
            if column.no_wrap:
                continue
            cells = (column.header, *column.cells)
            widths = [Measurement.get(console, roomy, cell) for cell in cells]
            whole = max(width.maximum for width in widths)
            least = max(width.minimum for width in widths)
            if number:
                least = min(whole, ROOM)
            spared += whole - least
        return needed(self, console) - spared

    def _listed(self) -> Iterator[RenderableType]:
        heads = [str(column.header).replace("\n", " ") for column in self.columns]
        before = [Text()] * self.names
        if self.title:
            yield Text(str(self.title), style="italic")
        for row in zip(*(column.cells for column in self.columns), strict=True):
            cells = [_flat(cell) for cell in row]
            # an empty name repeats the name of the previous row
            before = [
                cell if cell.plain else last for cell, last in zip(cells, before, strict=False)
            ]
            yield Text("  ").join(map(_labelled, heads, before))
            lines = plain_grid("fold", "fold")
            for head, cell in zip(heads[self.names :], cells[self.names :], strict=True):
                if cell.plain:
                    lines.add_row(Text(head, style="dim", overflow="fold"), cell)
            yield Padding(lines, (0, 0, 0, 2), expand=False)


def _labelled(head: str, cell: Text) -> Text:
    """Put the heading of its column before a cell, if there is one."""
    if not head:
        return cell
    return Text.assemble((f"{head} ", "dim"), cell)


def _flat(cell: RenderableType) -> Text:
    """Return the text of a cell as one line."""
    if isinstance(cell, Text):
        text = cell
    else:
        text = Text(str(cell))
    return Text("  ").join(text.split("\n"))


def needed(table: Table, console: Console) -> int:
    """Return the width at which nothing in a table is wrapped or cut."""
    return console.measure(table, options=console.options.update(max_width=WIDEST)).maximum


def fits(table: Table, console: Console) -> bool:
    """Return True if a table fits the console without wrapping or cutting."""
    return needed(table, console) <= console.width


def frame(first: str, *further: str, names: int = 1) -> Frame:
    """Return an empty table, in which the first `names` columns are left-aligned."""
    table = Frame(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False, header_style="")
    table.names = names
    table.add_column(Text(first, style="bold"), overflow="fold")  # wrapped before numbers are
    for position, heading in enumerate(further, start=1):
        side: JustifyMethod = "left" if position < names else "right"
        table.add_column(Text(heading, style="bold", justify=side), justify=side, no_wrap=True)
    return table


def plain_grid(*columns: Literal["whole", "fold", "right"]) -> Table:
    """Return an empty table without lines and headings.

    Columns are `whole` (never wrapped), `fold` (may be wrapped) or `right` (right-aligned).
    """
    table = Table.grid(padding=(0, 2))
    for form in columns:
        side: JustifyMethod = "right" if form == "right" else "left"
        if form == "fold":
            table.add_column(justify=side, overflow="fold")
        else:
            table.add_column(justify=side, no_wrap=True)
    return table


def without_empty(table: Frame, *headings: str) -> Frame:
    """Remove the columns with these headings that are empty in all rows."""
    table.columns = [
        column
        for column in table.columns
        if str(column.header) not in headings or any(map(str, column.cells))
    ]
    return table


def titled(title: str, table: Table) -> Table:
    """Set the title of a table, left-aligned."""
    table.title, table.title_justify = title, "left"
    return table


def dim(notes: Iterable[str]) -> Iterator[Text]:
    """Format notes below a table, one per line."""
    return (Text(one_line(note), style="dim") for note in notes)


def unscored(count: int) -> Text:
    """Format the number of unscored probes; empty for 0."""
    return Text(str(count or ""), style="yellow")


def counted(number: int, what: str) -> str:
    """Format a number with its noun in the singular or plural."""
    return f"{number} {what}{'s' * (number != 1)}"


def decimal(value: float | None, digits: int) -> str:
    """Format a number, or - for None; never -0."""
    if value is None:
        return "-"
    return f"{round(value, digits) + 0.0:.{digits}f}"


def bounds(low: float | None, high: float | None, digits: int, scale: float = 1) -> Text:
    """Format an interval, in units of 1 / `scale`, or - if there is none."""
    if low is None or high is None:
        return Text("-", "dim")
    return Text(f"[{decimal(low * scale, digits)}, {decimal(high * scale, digits)}]", "dim")


def number(mean: float, metric: Metric) -> str:
    """Format a mean with the decimals of its metric; never -0."""
    return decimal(mean, decimals(metric))


def interval(low: float, high: float, metric: Metric) -> str:
    """Format a 95 % interval; wide intervals in percent are shown without decimals."""
    digits = decimals(metric)
    if metric.scale == 100 and high - low >= EXACT:
        digits = 0
    return bounds(low, high, digits).plain


def with_interval(mean: float | None, low: float | None, high: float | None, metric: Metric) -> str:
    """Format a mean, or - if there is none, with its interval if there is one."""
    if mean is None:
        return "-"
    if low is None or high is None:
        return number(mean, metric)
    return f"{number(mean, metric)} {interval(low, high, metric)}"


# Width in characters of a table as text or HTML.
WIDTH = 120
HTML = (
    "<pre "
    'style="white-space:pre;overflow-x:auto;line-height:1.25;font-family:monospace">{code}</pre>'
)


class DisplayTable:
    """A table that can be printed and is displayed by notebooks.

    Args:
        render: function that renders the table for a console, whose width determines the layout.
    """

    def __init__(self, render: Callable[[Console], RenderableType]) -> None:
        self._render = render

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._render(console)

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self._printed().export_text().splitlines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._printed("truecolor").export_html(inline_styles=True, code_format=HTML)

    def _printed(self, colours: Literal["auto", "truecolor"] = "auto") -> Console:
        console = Console(
            file=io.StringIO(),
            width=WIDTH,
            highlight=False,
            record=True,
            force_jupyter=False,
            color_system=colours,
        )
        console.print(self)
        return console
