"""Seeded samples of a file's rows that keep its proportions, and demonstrations made of its own rows."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Self, TypeVar

from emend.editors.base import Demonstration
from emend.evals.data.benchmarks.rows import NumberedRow
from emend.memory.edit import content_id

N = TypeVar("N", bound=NumberedRow)


def sample_ids(ids: Sequence[int], labels: Mapping[int, str], limit: int, seed: int) -> list[int]:
    """`limit` ids, in their order: half with a reasoning question, its labels in the proportion of the data.

    The first half of DocTER's reasoning file is all True and the second all False, and ids above 1060 have no question,
    so a prefix would measure nothing. From a limit of 2 on, both labels occur. Where one half has too few ids, the
    other fills up. A hash of seed and id decides which ids are drawn, not their order.

    Args:
        ids: those to draw from.
        labels: id -> "True" or "False", for the ids that have a reasoning question.
        limit: number of ids to draw.
        seed: random seed of the draw.
    """
    if limit >= len(ids):
        return list(ids)
    order = sorted(ids, key=lambda number: content_id("sample", seed, number))
    plain = [number for number in order if number not in labels]
    true = [number for number in order if labels.get(number) == "True"]
    false = [number for number in order if labels.get(number) == "False"]
    both = len(true) + len(false)
    labelled = min(both, limit, max(2, (limit + 1) // 2, limit - len(plain)))
    falses = round(labelled * len(false) / both) if both else 0
    if true and false and labelled >= 2:
        falses = min(max(falses, 1), labelled - 1)
    chosen = {*true[: labelled - falses], *false[:falses], *plain[: limit - labelled]}
    return [number for number in ids if number in chosen]


def sample_in_shares(rows: Sequence[N], group: Callable[[N], int], limit: int, seed: int) -> list[N]:
    """`limit` rows in their order; each group has its share of them (`proportional_shares`)."""
    left = proportional_shares(Counter(map(group, rows)), limit)
    chosen: set[int] = set()
    for row in sorted(rows, key=lambda row: content_id("sample", seed, row.id)):
        if left[group(row)]:
            left[group(row)] -= 1
            chosen.add(row.id)
    return [row for row in rows if row.id in chosen]


def sample_by_rank(rows: Sequence[N], group: Callable[[N], int], limit: int, seed: int) -> list[N]:
    """`limit` rows in their order, drawn by their relative rank within a shuffle of their group.

    A smaller limit draws a part of the same rows, which `sample_in_shares` does not promise.
    """
    groups: dict[int, list[N]] = {}
    for row in sorted(rows, key=lambda row: content_id("sample", seed, row.id)):
        groups.setdefault(group(row), []).append(row)
    ranked = sorted(
        ((rank + 0.5) / len(members), key, row.id)
        for key, members in groups.items()
        for rank, row in enumerate(members)
    )
    chosen = {number for _, _, number in ranked[:limit]}
    return [row for row in rows if row.id in chosen]


def proportional_shares(sizes: Mapping[int, int], limit: int) -> dict[int, int]:
    """Divide `limit` among groups in proportion to their sizes, the largest remainders first."""
    total = sum(sizes.values())
    exact = {name: limit * size / total for name, size in sizes.items()}
    shares = {name: int(share) for name, share in exact.items()}
    order = sorted(sizes, key=lambda name: (shares[name] - exact[name], name))
    for name in order[: limit - sum(shares.values())]:
        shares[name] += 1
    return shares


def even_shares(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """Divide `limit` among groups as evenly as their sizes allow.

    >>> even_shares({"a": 1, "b": 9, "c": 9}, 6)
    {'a': 1, 'b': 3, 'c': 2}
    """
    shares = dict.fromkeys(sizes, 0)
    left = min(limit, sum(sizes.values()))
    while left:
        for name, size in sizes.items():
            if left and shares[name] < size:
                shares[name] += 1
                left -= 1
    return shares


def last_drawn(ids: Iterable[int], seed: int) -> list[int]:
    """The ids in the reverse order of a sample: those first that a growing limit draws last."""
    return sorted(ids, key=lambda number: content_id("sample", seed, number), reverse=True)


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
