"""Demonstrations out of a benchmark's own rows: which rows may give some, and where they wait until an editor asks.

A run tests the first rows of a seeded order (all of them without a limit), so that those at its end are tested last of
all. A row gives examples only if each subject that it edits has a name that no other row has anywhere, and an example
only if its prompt has one: then it is about nothing that another row edits or asks, and whoever shows it has to look
after the row's own edits alone.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Self, TypeVar

from emend.editors.base import Demonstration
from emend.memory.edit import content_id

ROWS = 100
"""How many rows give examples: published, thousands; but these are embedded at once, and the nearest are near."""
R = TypeVar("R")
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class Shown(tuple[Demonstration, ...]):
    """Hand-written demonstrations, about nothing that is tested, and behind them those of the data's own rows.

    Without a limit the rows are among those tested: only an editor that shows none of an edit that stands may ask for
    them (`editors.ike.WithRows`).
    """

    _make: Callable[[], Iterable[Demonstration]]

    @classmethod
    def of(cls, written: Iterable[Demonstration], rows: Callable[[], Iterable[Demonstration]]) -> Self:
        """The written ones, and what makes the others when they are asked for."""
        made = cls(written)
        made._make = rows
        return made

    def rows(self) -> Sequence[Demonstration]:
        """Those of the data's own rows; made at the first call."""
        return self._rows

    @cached_property
    def _rows(self) -> tuple[Demonstration, ...]:
        return tuple(self._make())


class Names:
    """Which names stand in one row alone.

    Args:
        rows: of each row the texts that say whom it edits and what it asks.
        own: how often a name of an example's row is among these rows: 0 where the examples come from another file.
    """

    def __init__(self, rows: Iterable[Iterable[str]], own: int = 1) -> None:
        self._own = own
        self._rows: Counter[str] = Counter()
        for texts in rows:
            self._rows.update({word for text in texts for word in _WORD.findall(text)})

    def alone(self, name: str) -> bool:
        """Whether a name has a word, written with a capital, that no other row has."""
        return any(word[0].isupper() and self._rows[word] == self._own for word in _WORD.findall(name))

    def alone_in(self, prompt: str) -> bool:
        """The same of a name inside a prompt; the first word of a sentence has its capital from there."""
        sentences = _SENTENCE.split(prompt)
        return any(self.alone(rest) for _, _, rest in (sentence.strip().partition(" ") for sentence in sentences))


def last_drawn(rows: Iterable[R], number: Callable[[R], object], seed: int) -> list[R]:
    """The rows, those first that a run's sample takes last."""
    return sorted(rows, key=lambda row: content_id("sample", seed, number(row)), reverse=True)


def first_of_each(examples: Iterable[Demonstration], fits: Callable[[Demonstration], bool]) -> list[Demonstration]:
    """Of the examples that fit, the first of each kind."""
    found: dict[str, Demonstration] = {}
    for example in examples:
        if example.kind not in found and fits(example):
            found[example.kind] = example
    return list(found.values())


def gathered(groups: Iterable[Sequence[Demonstration]], rows: int = ROWS) -> Iterator[Demonstration]:
    """The examples of the first rows that have any."""
    taken = 0
    for group in groups:
        if group:
            yield from group
            taken += 1
        if taken == rows:
            return
