"""Units of a run's records: which lines make one, and that each counts once."""

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeVar, cast

from emend.evals.case import Record

T = TypeVar("T")
Head = tuple[str, int]
"""Key of a record's unit, and the number of the unit's records."""
record_head: Callable[[Record], Head] = attrgetter("unit", "of")
fields_head: Callable[[dict[str, Any]], Head] = itemgetter("unit", "of")


def complete_units(lines: Iterable[T | None], head: Callable[[T], Head]) -> Iterator[list[T]]:
    """Yield the lines of each complete unit: as many as it has records, one after the other, all with the same head.

    A unit whose process was killed while it was written is not complete, though another one follows.

    Args:
        lines: lines in the order of the file; None where something else is between them.
        head: head of a line.
    """
    for key, group in groupby(lines, lambda line: None if line is None else head(line)):
        size = min(key[1], sys.maxsize) if key else 0
        while size > 0 and len(unit := cast("list[T]", list(islice(group, size)))) == size:
            yield unit


def count_once(units: Iterable[list[Record]], path: Path, earlier: Collection[str] = ()) -> Iterator[Record]:
    """Yield the records of units, without those of a unit that came before, which are warned of.

    Args:
        units: complete units of records.
        path: file that holds them.
        earlier: keys of units that came before these.
    """
    keys = set(earlier)
    for unit in units:
        key = unit[0].unit
        if key in keys:
            warn_once(f"{path}: the records of unit {key} are there twice; the first ones count")
        else:
            yield from unit
        keys.add(key)


@cache
def warn_once(message: str) -> None:
    """Warn once, however often a file is read."""
    logging.getLogger(__name__).warning(message)
