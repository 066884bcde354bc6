"""A paper's table of statistics beside the same statistics of the files at hand."""

from collections.abc import Iterator

from emend.memory.edit import FrozenModel


class Figure(FrozenModel):
    """One cell: what the files hold and what the paper prints; None where there is no file, or nothing is printed."""

    row: str
    column: str
    here: float | None = None
    paper: float | None = None
    digits: int = 0
    """Decimals that the paper prints."""

    @property
    def agrees(self) -> bool | None:
        """Whether both are the same as printed; None if one is not there."""
        if self.here is None or self.paper is None:
            return None
        return self.shown(self.here) == self.shown(self.paper)

    def shown(self, value: float | None) -> str:
        """As the paper prints it."""
        return "-" if value is None else f"{value:,.{self.digits}f}"


class Table(FrozenModel):
    """A table: rows and columns in the paper's order, and what must be known to compare."""

    title: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[str]:
        """The names of the rows, in order."""
        return list(dict.fromkeys(figure.row for figure in self.figures))

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(dict.fromkeys(figure.column for figure in self.figures))

    def cell(self, row: str, column: str) -> Figure | None:
        """The figure of a cell, if it has one."""
        return next((f for f in self.figures if (f.row, f.column) == (row, column)), None)

    def plain(self) -> Iterator[dict[str, object]]:
        """A row of JSON for each figure."""
        for figure in self.figures:
            told = figure.model_dump(exclude={"digits"})
            yield {"table": self.title, **told, "agrees": figure.agrees}


def part(name: str, here: int, whole: int, unit: str = "records") -> list[str]:
    """A note where a file is only a part of the published one."""
    return [f"{name}: a part, {here:,} of {whole:,} {unit}"] if 0 < here < whole else []
