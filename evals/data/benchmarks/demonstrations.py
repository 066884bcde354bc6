"""Demonstrations from a benchmark's own rows: which rows are eligible, and a pool that makes them only when asked.

A run tests the first rows of a seeded order (all of them without a limit), so that those at its end are tested last of
all. A row gives demonstrations only if each subject that it edits has a name that occurs in no other row, and one that
is to be retained only if its prompt has such a name: it is then about nothing that another row edits or asks, and an
editor has to look after the row's own edits alone.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Self, TypeVar

from emend.editors.base import Demonstration

ROWS = 100
"""Number of rows that give demonstrations. Papers publish thousands; these are embedded at once, and the nearest of
100 are near."""
R = TypeVar("R")
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class DemonstrationPool(tuple[Demonstration, ...]):
    """Hand-written demonstrations, about nothing that is tested, and behind them those of the data's own rows.

    Without a limit these rows are among the tested ones: only an editor that shows none of an applied edit may ask for
    them (`editors.memory_based.demonstration_pool.RowDemonstrations`).
    """

    _make: Callable[[], Iterable[Demonstration]]

    @classmethod
    def of(cls, written: Iterable[Demonstration], rows: Callable[[], Iterable[Demonstration]]) -> Self:
        """Pool of the written demonstrations and a function that makes the others on demand."""
        pool = cls(written)
        pool._make = rows
        return pool

    def rows(self) -> Sequence[Demonstration]:
        """Demonstrations from the data's own rows, made at the first call."""
        return self._rows

    @cached_property
    def _rows(self) -> tuple[Demonstration, ...]:
        return tuple(self._make())


class UniqueNames:
    """Words that occur in one row only.

    Args:
        rows: the texts of each row that name whom it edits and what it asks.
        occurrences: number of these rows that hold an eligible row's names: 1, or 0 for rows of another file.
    """

    def __init__(self, rows: Iterable[Iterable[str]], occurrences: int = 1) -> None:
        self._occurrences = occurrences
        self._rows: Counter[str] = Counter()
        for texts in rows:
            self._rows.update({word for text in texts for word in _WORD.findall(text)})

    def has(self, name: str) -> bool:
        """Return True if the name has a capitalised word that no other row has."""
        return any(word[0].isupper() and self._rows[word] == self._occurrences for word in _WORD.findall(name))

    def has_in(self, prompt: str) -> bool:
        """Return True if the prompt has such a word, other than the capitalised first word of a sentence."""
        sentences = _SENTENCE.split(prompt)
        return any(self.has(rest) for _, _, rest in (sentence.strip().partition(" ") for sentence in sentences))

    def has_all(self, subjects: Iterable[str]) -> bool:
        """Return True if every subject has such a word."""
        return all(map(self.has, subjects))


def eligible(examples: Iterable[Demonstration], names: UniqueNames) -> list[Demonstration]:
    """The first demonstration of each kind; one to be retained only if its prompt has a unique name."""
    first: dict[str, Demonstration] = {}
    for example in examples:
        if example.kind not in first and (example.kind != "retain" or names.has_in(example.prompt)):
            first[example.kind] = example
    return list(first.values())


def of_unique_rows(
    rows: Iterable[R],
    names: UniqueNames,
    subjects: Callable[[R], Iterable[str]],
    examples: Callable[[R], Iterable[Demonstration]],
) -> Iterator[Demonstration]:
    """The eligible demonstrations of the first rows whose subjects all have a unique name."""
    return of_first_rows(eligible(examples(row), names) for row in rows if names.has_all(subjects(row)))


def of_first_rows(groups: Iterable[Sequence[Demonstration]], rows: int = ROWS) -> Iterator[Demonstration]:
    """The demonstrations of the first `rows` rows that have any."""
    count = 0
    for group in groups:
        if group:
            yield from group
            count += 1
        if count == rows:
            return
