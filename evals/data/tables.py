"""A paper's table of statistics, with the same statistics of the local files."""

from collections.abc import Iterator

from emend.memory.edit import FrozenModel


class DataFigure(FrozenModel):
    """Cell with the files' figure and the paper's; None where there is no file, or nothing is printed."""

    row: str
    column: str
    here: float | None = None
    paper: float | None = None
    digits: int = 0
    """Decimals that the paper prints."""

    @property
    def agrees(self) -> bool | None:
        """True if both are equal as printed; None if one is missing."""
        if self.here is None or self.paper is None:
            return None
        return self.text(self.here) == self.text(self.paper)

    def text(self, value: float | None) -> str:
        """Format a value as the paper prints it."""
        return "-" if value is None else f"{value:,.{self.digits}f}"


class DataTable(FrozenModel):
    """Table with rows and columns in the paper's order, and notes for the comparison."""

    title: str
    figures: tuple[DataFigure, ...]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[str]:
        """The names of the rows, in order."""
        return list(dict.fromkeys(figure.row for figure in self.figures))

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(dict.fromkeys(figure.column for figure in self.figures))

    def cell(self, row: str, column: str) -> DataFigure | None:
        """The figure of a cell, if it has one."""
        return next((f for f in self.figures if (f.row, f.column) == (row, column)), None)

    def plain(self) -> Iterator[dict[str, object]]:
        """Yield a JSON row per figure."""
        for figure in self.figures:
            yield {"table": self.title, **figure.model_dump(exclude={"digits"}), "agrees": figure.agrees}


def part(name: str, here: int, whole: int, unit: str = "records") -> list[str]:
    """Return a note if a file is only a part of the published one."""
    return [f"{name}: a part, {here:,} of {whole:,} {unit}"] if 0 < here < whole else []
