"""Tables that show themselves: with colours in a terminal, as HTML in a notebook, as text elsewhere."""

import io
from collections.abc import Callable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

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
        return "\n".join(
            self._lines(Console(file=io.StringIO(), width=WIDTH, highlight=False, record=True, force_jupyter=False))
        )

    __repr__ = __str__

    def _lines(self, console: Console) -> Iterator[str]:
        console.print(self)
        return (line.rstrip() for line in console.export_text().splitlines())

    def _repr_html_(self) -> str:
        console = Console(
            file=io.StringIO(), width=WIDTH, highlight=False, record=True, force_jupyter=False, color_system="truecolor"
        )
        console.print(self)
        return console.export_html(inline_styles=True, code_format=HTML)
