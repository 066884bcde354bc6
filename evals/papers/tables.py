"""The result tables of the four papers as they are printed: one row of a CSV file per cell, one TOML file per paper."""

import csv
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

NAMES = ("akew", "docter", "elken", "recoe")
Dimension = Literal["model", "method", "data", "setting", "metric"]
DIMENSIONS: tuple[Dimension, ...] = ("model", "method", "data", "setting", "metric")
Unit = Literal["percent", "perplexity", "count"]
SIGNED = ("NEM", "NPM", "NNM", "CEM")
"""Magnitudes in percent, from -100 to 100."""
DIFFERENCE = "Δ"
"""A difference of two perplexities, without bounds."""


class Cell(FrozenModel):
    """One printed figure: what it is of, the figure letter by letter, and the drop in percent printed beside it.

    `setting` is what the editor was given (AKEW, DocTER, ELKEN) or how the model was asked (ReCoE); `data` the data
    set, language pair, kind of question or reasoning scheme; what a table does not name is empty.
    """

    table: int
    model: str
    method: str
    data: str
    setting: str
    metric: str
    printed: str
    unit: Unit
    drop: int | None = None

    @property
    def value(self) -> float:
        """The figure, in its unit."""
        return float(self.printed)

    @property
    def decimals(self) -> int:
        """How many digits are printed after the point."""
        return len(self.printed.partition(".")[2])

    @property
    def half(self) -> float:
        """Half of its last printed digit: rounding hides so much."""
        return 0.5 * 10.0**-self.decimals

    def as_row(self) -> dict[str, Any]:
        """For JSON: the figure as a number."""
        told = self.model_dump(exclude={"table", "printed"})
        return told | {"value": self.value}

    def key(self, dimensions: tuple[Dimension, ...] = DIMENSIONS) -> tuple[str, ...]:
        """What it is of, in these dimensions."""
        return tuple(str(getattr(self, name)) for name in dimensions)


class Table(FrozenModel):
    """A table: `rows` and `columns` are the dimensions that its rows and columns run over, outermost first."""

    paper: str
    number: int
    caption: str
    """In our own words."""
    rows: tuple[Dimension, ...]
    columns: tuple[Dimension, ...]
    dashes: int = 0
    """Places where the paper prints a dash: not measured, or not possible."""
    blanks: int = 0
    """Places where nothing, or nothing legible, is printed; `not_legible` says which."""
    not_legible: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cells: tuple[Cell, ...]

    @property
    def id(self) -> str:
        """As the command line has it: `akew:2`."""
        return f"{self.paper}:{self.number}"

    def as_row(self) -> dict[str, Any]:
        """For JSON: what the list of tables says, and what there is to know of this one."""
        told = self.model_dump(mode="json", include={"paper", "number", "caption", "dashes", "not_legible", "notes"})
        return {"table": self.id} | told | {"cells": len(self.cells)}

    def keys(self, dimensions: tuple[Dimension, ...]) -> list[tuple[str, ...]]:
        """The different keys of its cells in these dimensions, in the printed order."""
        return list(dict.fromkeys(cell.key(dimensions) for cell in self.cells))


class Paper(FrozenModel):
    """A paper and its result tables; `benchmark` is the name of its benchmark in Emend."""

    name: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    arxiv: str
    benchmark: str
    tables: tuple[Table, ...]

    @property
    def citation(self) -> str:
        """One line."""
        who = ", ".join(self.authors)
        return f"{who}. {self.title}. {self.venue}, {self.year}. arXiv:{self.arxiv}"


@cache
def paper(name: str) -> Paper:
    """The paper of that name.

    Raises:
        BadSettings: there is none.
    """
    if name not in NAMES:
        raise BadSettings(f"unknown paper '{name}': {nearest(name, list(NAMES))}")
    told = tomllib.loads(_text(f"{name}.toml"))
    cells = _cells(f"{name}.csv")
    tables = [
        Table(paper=name, cells=tuple(cell for cell in cells if cell.table == row["number"]), **row)
        for row in told.pop("tables")
    ]
    return Paper(tables=tuple(tables), **told)


def papers() -> list[Paper]:
    """All of them."""
    return [paper(name) for name in NAMES]


def table(name: str) -> Table:
    """The table that `akew:2` names.

    Raises:
        BadSettings: no such paper or table.
    """
    of, colon, number = name.partition(":")
    found = {str(table.number): table for table in paper(of).tables}
    if not colon or number not in found:
        raise BadSettings(f"no table '{name}': the tables of {of} are {', '.join(f'{of}:{n}' for n in found)}.")
    return found[number]


def _cells(name: str) -> list[Cell]:
    rows = csv.DictReader(_text(name).splitlines())
    return [
        Cell.model_validate({key: value for key, value in row.items() if key not in ("value", "drop")}
            | {"printed": row["value"], "drop": row["drop"] or None})
        for row in rows
    ]  # fmt: skip


def _text(name: str) -> str:
    return (files("emend.evals.papers") / name).read_text(encoding="utf-8")
