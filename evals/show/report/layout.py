"""Layout of tables and numbers, for narrow consoles, notebooks and plain text too."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TextIO

from rich import box
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from emend.evals.case import Metric
from emend.memory.escape import one_line


def console_for(file: TextIO | None = None) -> Console:
    """A console for reports: a pipe is as wide as the report, a terminal as wide as it is."""
    stream = file or sys.stdout
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return Console(file=stream, highlight=False)
    return Console(file=stream, highlight=False, width=400, soft_wrap=True)


EXACT = 4.0  # an interval narrower than this, in percent, is shown with a decimal
INTERVALS = "95 % intervals: bootstrap over cases, Wilson's where all cases are alike"
WIDEST = 10_000
"""Room to measure a table in; in the console's own it would always fit, with its numbers cut."""
MANY = 100
"""Number of rows from which on a table is long."""
ROOM = 24
"""A text beside other columns is not squeezed into fewer characters."""


class Frame(Table):
    """A table that lists its rows under each other where the console is too narrow for it."""

    names = 1
    """Number of leading columns that identify a row; rows about the same thing may leave them empty."""
    last_name = ""

    def add(self, name: str, *cells: str | Text) -> None:
        """Add a row; a name that the row before has too is left out."""
        self.add_row(Text(one_line(name) if name != self.last_name else ""), *cells)
        self.last_name = name

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if lines := self._lines(options.max_width):
            yield from lines
        elif self._least(console) <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield Group(*self._listed())

    def _lines(self, width: int) -> list[Text]:
        """The lines of a long table, as rich lays it out in that width; none for another, or if something is folded.

        Rich renders each cell by itself, a second for 1,000 rows.
        """
        columns = [[column.header, *column.cells] for column in self.columns]
        rows = [[cell for cell in row if isinstance(cell, Text)] for row in zip(*columns, strict=True)]
        has_texts = all(len(row) == len(columns) and "\n" not in "".join(cell.plain for cell in row) for row in rows)
        if len(rows) < MANY or self.title or not has_texts:
            return []
        widths = [max(cell.cell_len for cell in cells) for cells in zip(*rows, strict=True)]
        whole = sum(widths) + 3 * (len(widths) - 1)
        if whole + 2 > width:
            return []
        head, *body = (self._line(row, widths) for row in rows)
        edge, rule = Text(" " * (whole + 2)), Text(f" {'─' * whole} ")
        return [edge, head, rule, *body, edge]

    def _line(self, row: Sequence[Text], widths: Sequence[int]) -> Text:
        line = Text(" ", no_wrap=True, overflow="ignore")
        for place, (cell, width, column) in enumerate(zip(row, widths, self.columns, strict=True)):
            part, room = cell.copy(), width - cell.cell_len  # room has the style of the cell
            (part.pad_left if column.justify == "right" else part.pad_right)(room)
            line.append(" " * 3 if place else "").append_text(part)
        return line.append(" ")

    def _least(self, console: Console) -> int:
        """The width without which a number or a word would be cut; texts, which may be folded, get some room."""
        roomy = console.options.update(max_width=WIDEST)
        spared = 0
        for place, column in enumerate(self.columns):
            if not column.no_wrap:
                widths = [Measurement.get(console, roomy, cell) for cell in (column.header, *column.cells)]
                whole, word = max(width.maximum for width in widths), max(width.minimum for width in widths)
                spared += whole - (min(whole, ROOM) if place else word)
        return needed(self, console) - spared

    def _listed(self) -> Iterator[RenderableType]:
        heads = [str(column.header).replace("\n", " ") for column in self.columns]
        before = [Text()] * self.names
        if self.title:
            yield Text(str(self.title), style="italic")
        for row in zip(*(column.cells for column in self.columns), strict=True):
            cells = [_flat(cell) for cell in row]
            before = [cell if cell.plain else last for cell, last in zip(cells, before, strict=False)]
            named = zip(heads, before, strict=False)
            yield Text("  ").join(Text.assemble((f"{head} " if head else "", "dim"), cell) for head, cell in named)
            lines = plain_grid("fold", "fold")
            for head, cell in zip(heads[self.names :], cells[self.names :], strict=True):
                if cell.plain:
                    lines.add_row(Text(head, style="dim", overflow="fold"), cell)
            yield Padding(lines, (0, 0, 0, 2), expand=False)


def _flat(cell: RenderableType) -> Text:
    """Text of a cell in one line."""
    text = cell if isinstance(cell, Text) else Text(str(cell))
    return Text("  ").join(text.split("\n"))


def needed(table: Table, console: Console) -> int:
    """The width of a table in which nothing is folded or cut."""
    return console.measure(table, options=console.options.update(max_width=WIDEST)).maximum


def fits(table: Table, console: Console) -> bool:
    """Return True if the table fits the console without cutting anything off."""
    return needed(table, console) <= console.width


def frame(first: str, *further: str, names: int = 1) -> Frame:
    """An empty table: the columns that name a row on the left, further ones on the right."""
    table = Frame(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False, header_style="")
    table.names = names
    table.add_column(Text(first, style="bold"), overflow="fold")  # gives way before a number does
    for place, heading in enumerate(further, start=1):
        side: JustifyMethod = "left" if place < names else "right"
        table.add_column(Text(heading, style="bold", justify=side), justify=side, no_wrap=True)
    return table


def plain_grid(*columns: Literal["whole", "fold", "right"]) -> Table:
    """An empty table without lines and headings: texts that are never broken, that may be, or on the right."""
    table = Table.grid(padding=(0, 2))
    for kind in columns:
        side: JustifyMethod = "right" if kind == "right" else "left"
        table.add_column(justify=side, no_wrap=kind != "fold", overflow="fold" if kind == "fold" else "ellipsis")
    return table


def without_empty(table: Frame, *headings: str) -> Frame:
    """The table without those of the named columns in which no row has anything."""
    table.columns = [
        column for column in table.columns if str(column.header) not in headings or any(map(str, column.cells))
    ]
    return table


def titled(title: str, table: Table) -> Table:
    """The table with a title above its left edge."""
    table.title, table.title_justify = title, "left"
    return table


def dim(notes: Iterable[str]) -> Iterator[Text]:
    """Notes below a table, each a line."""
    return (Text(one_line(note), style="dim") for note in notes)


def unscored(count: int) -> Text:
    """Cell of the number that could not be scored; empty without any."""
    return Text(str(count or ""), style="yellow")


def decimal(value: float | None, digits: int) -> str:
    """A number, or - where there is none; no -0."""
    return "-" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def bounds(low: float | None, high: float | None, digits: int) -> Text:
    """Cell of an interval, or - where there is none."""
    return Text("-" if low is None or high is None else f"[{decimal(low, digits)}, {decimal(high, digits)}]", "dim")


def decimals(metric: Metric) -> int:
    """Digits after the point: one in percent."""
    return 1 if metric.scale >= 10 else 3


def number(mean: float, metric: Metric) -> str:
    """The mean as it is shown; no -0."""
    return decimal(mean, decimals(metric))


def interval(low: float, high: float, metric: Metric) -> str:
    """The 95 % interval, in whole percent where that says enough."""
    digits = decimals(metric)
    if metric.scale == 100 and high - low >= EXACT:
        digits = 0
    return bounds(low, high, digits).plain


WIDTH = 120
"""Columns of a table as text or HTML."""
HTML = '<pre style="white-space:pre;overflow-x:auto;line-height:1.25;font-family:monospace">{code}</pre>'


class DisplayTable:
    """A table of a run; `print` it, or let a notebook show it.

    Args:
        render: makes the table for a console, whose width decides its layout.
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
            file=io.StringIO(), width=WIDTH, highlight=False, record=True, force_jupyter=False, color_system=colours
        )
        console.print(self)
        return console
