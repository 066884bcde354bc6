"""Printed figures that contradict each other, as listed in `disagreements.csv`."""

import csv
from functools import cache
from importlib.resources import files

from emend.memory.edit import FrozenModel


class Disagreement(FrozenModel):
    """A printed figure that its own table, or another one, contradicts.

    `check` is `drop` (against the two figures), `average`, `weighted` (by numbers of questions), `difference`, `sum`,
    `F1` (of precision and recall) or `repeat` (the same figure in another table); `computed` is from the other figures
    as printed, and `off` is printed minus computed, both to three decimals.
    """

    paper: str
    table: int
    check: str
    model: str
    method: str
    data: str
    setting: str
    metric: str
    printed: float
    computed: float
    off: float


@cache
def known_disagreements() -> tuple[Disagreement, ...]:
    """The committed list, `disagreements.csv`."""
    text = (files("emend.evals.papers") / "disagreements.csv").read_text(encoding="utf-8")
    return tuple(Disagreement.model_validate(row) for row in csv.DictReader(text.splitlines()))
