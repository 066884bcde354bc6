"""Quantities in sentences: intervals of numbers with their units, which can be ranked where no two meet."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from emend.memory.retrieval.tokens import FUNCTION_WORDS, stems, words

SCALES = {"": 1.0, "thousand": 1e3, "lakh": 1e5, "million": 1e6, "crore": 1e7, "billion": 1e9, "trillion": 1e12}
LENGTH, AREA = "metres", "square metres"
_UNIT_NAMES = {
    (LENGTH, 1.0): "m meter meters metre metres",
    (LENGTH, 1000.0): "km kilometer kilometers kilometre kilometres",
    (LENGTH, 1609.344): "mi mile miles",
    (LENGTH, 0.3048): "ft foot feet",
    (AREA, 1e6): "km2 km²",
    (AREA, 1e4): "ha hectare hectares",
    (AREA, 4046.86): "acre acres",
    ("people", 1.0): "people inhabitants residents persons",
}
UNITS = {name: unit for unit, names in _UNIT_NAMES.items() for name in names.split()}
"""What is measured, and in how many of its base units, by the unit's name."""
_PLAIN = r"\d[\d,]*(?:\.\d+)?"
_NUMBER = re.compile(
    r"(?:(?P<most>\b(?:less|fewer) than |\bunder |\bbelow |\bup to |\bat most )"
    r"|(?P<least>\bover |\bmore than |\bat least ))?"
    rf"(?<![\w.,\-–])(?P<low>{_PLAIN})(?:(?:-|–| to )(?P<high>{_PLAIN}))?"
    rf"(?:\s*(?P<scale>{'|'.join(filter(None, SCALES))})\b)?(?!\w|[.,]\d)"
    r"(?:[ -]?(?P<square>sq\.?|square) )?(?:[ -]?(?P<unit>[^\W\d_]+[2²]?|%))?"
)
_YEAR = re.compile(r"(?P<before>\bbefore )?\b(?P<year>1\d{3}|20[0-3]\d)\b")
ROUNDING = 0.02
"""Relative difference up to which lengths or areas are one that was converted."""


class Quantity(NamedTuple):
    """An interval of numbers in a unit, which is empty where the text has none."""

    low: float
    high: float
    unit: str = ""

    def equals(self, other: "Quantity") -> bool:
        """True if both are the same, but for the rounding of converted units."""
        is_converted = self.unit == other.unit in (LENGTH, AREA)
        if is_converted and abs(self.low - other.low) <= ROUNDING * self.low:
            return True
        return self.is_comparable(other) and self[:2] == other[:2]

    def is_comparable(self, other: "Quantity") -> bool:
        """True if both count the same, as far as their units say."""
        return self.unit == other.unit or not (self.unit and other.unit)


def years(sentence: str) -> Iterator[Quantity]:
    """The years of a sentence."""
    for hit in _YEAR.finditer(sentence):
        yield Quantity(0.0 if hit["before"] else float(hit["year"]), float(hit["year"]))


def first_quantity(sentence: str) -> Quantity | None:
    """The first number that is no year; those that follow are the same in another unit, or details."""
    for hit in _NUMBER.finditer(sentence):
        unit, factor = _unit(hit["unit"] or "", bool(hit["square"]))
        if _YEAR.fullmatch(hit["low"]) and not hit["scale"] and factor is None:
            continue
        scale = SCALES[hit["scale"] or ""] * (factor or 1.0)
        low, high = (float(each.replace(",", "")) * scale for each in (hit["low"], hit["high"] or hit["low"]))
        return Quantity(0.0 if hit["most"] else low, math.inf if hit["least"] else high, unit)
    return None


def _unit(name: str, is_square: bool) -> tuple[str, float | None]:
    """What a unit measures and its factor; for a word that is no unit, its stem and None."""
    if name in UNITS:
        kind, factor = UNITS[name]
        return (AREA, factor**2) if is_square else (kind, factor)
    return (stems(name)[0] if words(name, FUNCTION_WORDS) else name if name == "%" else ""), None


def rank(quantities: Sequence[Quantity], falling: bool) -> list[int] | None:
    """The places of quantities in order; None where units differ, or two intervals meet."""
    order = sorted(range(len(quantities)), key=lambda place: quantities[place].low)
    ranked = [quantities[place] for place in order]
    if any(lower.high >= higher.low for lower, higher in zip(ranked, ranked[1:], strict=False)):
        return None
    if not all(first.is_comparable(second) for first in ranked for second in ranked):
        return None
    return order[::-1] if falling else order
