"""Demonstrations made from a benchmark's own rows, about subjects that no other row asks about."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

from emend.editors.base import Demonstration
from emend.evals.data.benchmarks.rows import last_drawn

# Default number of rows for demonstrations. Papers use thousands, but all are embedded at once, and
# the nearest of 100 are near enough.
ROWS = 100
Row = TypeVar("Row")
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class DemonstrationPool(tuple[Demonstration, ...]):
    """Hand-written demonstrations about untested facts, and on demand demonstrations from the
    data's own rows.

    Without a limit, these rows are also tested: only an editor that shows no demonstration of an
    applied edit may use them (`editors.memory_based.demonstration_pool.RowDemonstrations`).
    """

    _make: Callable[[int], Iterable[Demonstration]]

    @classmethod
    def of(
        cls, written: Iterable[Demonstration], rows: Callable[[int], Iterable[Demonstration]]
    ) -> Self:
        """Create a pool from written demonstrations and a function that makes demonstrations from a
        number of rows.
        """
        pool = cls(written)
        pool._make = rows
        pool._made = {}
        return pool

    _made: dict[int, tuple[Demonstration, ...]]

    def rows(self, count: int = ROWS) -> Sequence[Demonstration]:
        """Return demonstrations from `count` of the data's own rows, made at the first call; 0 for
        all rows.
        """
        if count not in self._made:
            self._made[count] = tuple(self._make(count))
        return self._made[count]


class UniqueNames:
    """Words that occur in one row only.

    Args:
        rows: texts of each row that name its edited subjects and its questions.
        occurrences: number of rows in which a unique name occurs: 1, or 0 for names from another
            file.
    """

    def __init__(self, rows: Iterable[Iterable[str]], occurrences: int = 1) -> None:
        self._occurrences = occurrences
        self._rows: Counter[str] = Counter()
        for texts in rows:
            self._rows.update({word for text in texts for word in _WORD.findall(text)})

    def has(self, name: str) -> bool:
        """Return True if the name has a unique capitalised word."""
        return any(
            word[0].isupper() and self._rows[word] == self._occurrences
            for word in _WORD.findall(name)
        )

    def has_in(self, prompt: str) -> bool:
        """Return True if the prompt has a unique capitalised word that is not the first of a
        sentence.
        """
        for sentence in _SENTENCE.split(prompt):
            _, _, behind_first_word = sentence.strip().partition(" ")
            if self.has(behind_first_word):
                return True
        return False

    def has_all(self, subjects: Iterable[str]) -> bool:
        """Return True if every subject has a unique capitalised word."""
        return all(map(self.has, subjects))


def eligible(examples: Iterable[Demonstration], names: UniqueNames) -> list[Demonstration]:
    """Return the first demonstration of each kind; `retain` ones only if their prompt has a unique
    name.
    """
    first: dict[str, Demonstration] = {}
    for example in examples:
        if example.kind not in first and (example.kind != "retain" or names.has_in(example.prompt)):
            first[example.kind] = example
    return list(first.values())


def of_unique_rows(
    rows: Mapping[int, Row],
    seed: int,
    texts: Callable[[Row], Iterable[str]],
    subjects: Callable[[Row], Iterable[str]],
    examples: Callable[[Row], Iterable[Demonstration]],
    ids: Iterable[int] = (),
    count: int = ROWS,
) -> Iterator[Demonstration]:
    """Yield eligible demonstrations of the last drawn rows whose subjects all have unique names.

    Args:
        rows: rows by id.
        seed: random seed of the draw.
        texts: function that returns the texts of a row that name its edited subjects and its
            questions.
        subjects: function that returns the edited subjects of a row.
        examples: function that returns the demonstrations of a row.
        ids: ids of the rows to draw from; all rows if empty.
        count: number of rows to take demonstrations from; 0 for all.
    """
    names = UniqueNames(map(texts, rows.values()))
    drawn = (rows[number] for number in last_drawn(ids or rows, seed))
    return of_first_rows(
        (eligible(examples(row), names) for row in drawn if names.has_all(subjects(row))), count
    )


def of_first_rows(
    groups: Iterable[Sequence[Demonstration]], rows: int = ROWS
) -> Iterator[Demonstration]:
    """Yield the demonstrations of the first `rows` groups that are not empty; 0 for all groups."""
    count = 0
    for group in groups:
        if group:
            yield from group
            count += 1
        if count == rows and rows:
            return
