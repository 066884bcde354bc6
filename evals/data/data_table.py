"""Tables of a benchmark's data, with the figures that its paper prints."""

from collections.abc import Iterator

from emend.memory.edit import FrozenModel


class DataFigure(FrozenModel):
    """A table cell with the value from the files and the paper's; None without a file, or if the
    paper prints none.
    """

    row: str
    column: str
    here: float | None = None
    paper: float | None = None
    digits: int = 0
    """Number of decimals that the paper prints."""

    @property
    def agrees(self) -> bool | None:
        """True if both values are equal as printed; None if one is missing."""
        if self.here is None or self.paper is None:
            return None
        return self.text(self.here) == self.text(self.paper)

    def text(self, value: float | None) -> str:
        """Format a value as the paper prints it."""
        if value is None:
            return "-"
        return f"{value:,.{self.digits}f}"


class DataTable(FrozenModel):
    """A table with rows and columns in the paper's order, and notes on the comparison."""

    title: str
    figures: tuple[DataFigure, ...]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[str]:
        """Names of the rows, in order."""
        return list(dict.fromkeys(figure.row for figure in self.figures))

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return list(dict.fromkeys(figure.column for figure in self.figures))

    def cell(self, row: str, column: str) -> DataFigure:
        """Return the figure of a cell."""
        return next(f for f in self.figures if (f.row, f.column) == (row, column))

    def plain(self) -> Iterator[dict[str, object]]:
        """Yield a JSON row per figure."""
        for figure in self.figures:
            yield {
                "table": self.title,
                **figure.model_dump(exclude={"digits"}),
                "agrees": figure.agrees,
            }
