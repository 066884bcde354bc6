"""Partition of a run's cases, or passes, among its shares: by a digest of their content, and evenly."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from emend.evals.config.run_config import Share
from emend.memory.errors import BadSettings

T = TypeVar("T")
PASSES = "passes"
"""Name under which passes are dealt, in place of a setting."""


@dataclass(frozen=True)
class Partition:
    """The portions of `size` neighbouring cases that one share evaluates: by setting, true for those dealt to it.

    Only a byte per portion is held, and cases are streamed.
    """

    size: int
    portions: Mapping[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, share: Share, ids: Mapping[str, Iterable[str]], size: int = 1) -> "Partition":
        """Deal portions out round-robin, sorted by the digest of their ids, going on from setting to setting.

        Args:
            share: the one to deal to.
            ids: those of the cases, by setting, in their order.
            size: number of neighbouring cases that must stay together.

        Raises:
            BadSettings: there are fewer portions than shares.
        """
        portions, dealt = {}, 0
        for name, stream in ids.items():
            order = np.argsort(np.fromiter(_digests(stream, size), np.uint64), kind="stable")
            portions[name] = np.zeros(len(order), np.bool_)
            portions[name][order[(share.number - 1 - dealt) % share.of :: share.of]] = True
            dealt += len(order)
        if dealt < share.of:
            together = "passes" if PASSES in ids else f"portions of {size} cases" if size > 1 else "cases"
            raise BadSettings(
                f"--share {share}: this run has {dealt} {together} to deal out, too few for {share.of} shares: "
                f"give at most {dealt}."
            )
        return cls(size, portions)

    def pick(self, name: str, stream: Iterable[T], size: int | None = None) -> Iterator[T]:
        """Yield the dealt ones of a setting's cases, or of its groups, `size` of which are a portion."""
        number, portions = size or self.size, self.portions[name]
        return (item for place, item in enumerate(stream) if portions[place // number])

    def count(self, name: str, cases: int) -> int:
        """Return the number of dealt cases among the first so many of a setting."""
        portions = self.portions[name]
        missing = len(portions) * self.size - cases if len(portions) and portions[-1] else 0
        return int(portions.sum()) * self.size - missing

    def has(self, name: str, place: int) -> bool:
        """Return whether the case at that place, from 0, is dealt."""
        return bool(self.portions[name][place // self.size])


def pass_ids(settings: Iterable[str], repeats: int, editors: Iterable[str]) -> Iterator[str]:
    """Yield an id for each pass of a run, in their order: by setting, repeat and editor."""
    return map(" ".join, product(settings, map(str, range(repeats)), editors))


def _digests(ids: Iterable[str], size: int) -> Iterator[int]:
    """Yield a number of 64 bits for each portion."""
    stream = iter(ids)
    while portion := tuple(islice(stream, size)):
        yield int.from_bytes(hashlib.sha256("\n".join(portion).encode()).digest()[:8])
