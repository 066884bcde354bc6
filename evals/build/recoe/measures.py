"""Objects of facts that are numbers, by which their subjects can be compared."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_NUMBER = re.compile(r"(?:about |around |c\. )?(?P<number>[-\u2212]?\d+(?:,\d{3})*(?:\.\d+)?)(?: ?(?P<unit>\D.*))?")
YEARS = range(1000, 2200)


class Measure(NamedTuple):
    """A number and the unit behind it, which may be empty."""

    number: float
    unit: str


class DegreeWords(NamedTuple):
    """Words that compare values: two of them, the first of several, and the last."""

    comparative: str
    superlative: str
    opposite: str


GREATER = DegreeWords("greater", "greatest", "least")
LATER = DegreeWords("later", "latest", "earliest")


def parse_measure(text: str) -> Measure | None:
    """The number of a text such as `6,400 kilometres`; None for another text.

    >>> parse_measure("about 6,400 kilometres")
    Measure(number=6400.0, unit='kilometres')
    """
    hit = _NUMBER.fullmatch(text.strip())
    if hit is None:
        return None
    return Measure(float(hit["number"].replace(",", "").replace("\u2212", "-")), (hit["unit"] or "").casefold())


def degree_words(measures: Sequence[Measure]) -> DegreeWords:
    """The words for these values: years are later, other numbers greater."""
    are_years = all(not each.unit and each.number in YEARS for each in measures)
    return LATER if are_years else GREATER
