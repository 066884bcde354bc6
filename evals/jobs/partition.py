"""The partition of a run into shares, by a digest of the items."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from emend.evals.config.division import Share
from emend.memory.errors import BadSettings

T = TypeVar("T")


@dataclass(frozen=True)
class Partition:
    """The portions of `size` consecutive items that a share evaluates: by list, True for assigned
    portions.

    Only one byte per portion is kept in memory, and items are streamed.
    """

    size: int
    portions: Mapping[str, NDArray[np.bool_]]

    @classmethod
    def of(
        cls, share: Share, ids: Mapping[str, Iterable[str]], size: int = 1, name: str = ""
    ) -> "Partition":
        """Assign portions round-robin, sorted by the digest of their ids, continuing from list to
        list.

        Args:
            share: the share to assign to.
            ids: ids of the items in order, by list.
            size: number of consecutive items that must stay together.
            name: name of the portions, for the error.

        Raises:
            BadSettings: there are fewer portions than shares.
        """
        portions: dict[str, NDArray[np.bool_]] = {}
        dealt = 0
        for listed, stream in ids.items():
            order = np.argsort(np.fromiter(_digests(stream, size), np.uint64), kind="stable")
            portions[listed] = np.zeros(len(order), np.bool_)
            portions[listed][order[(share.number - 1 - dealt) % share.of :: share.of]] = True
            dealt += len(order)
        if dealt < share.of:
            raise BadSettings(
                f"--share {share}: this run has {dealt} {name or 'items'} to distribute, too few "
                f"for {share.of} shares: give at most {dealt}."
            )
        return cls(size, portions)

    def pick(self, name: str, stream: Iterable[T], size: int | None = None) -> Iterator[T]:
        """Yield the assigned items, or groups, of a list; `size` of them are a portion."""
        number, portions = size or self.size, self.portions[name]
        return (item for index, item in enumerate(stream) if portions[index // number])

    def count(self, name: str, items: int) -> int:
        """Return the number of assigned items among the first `items` of a list."""
        portions = self.portions[name]
        missing = len(portions) * self.size - items if len(portions) and portions[-1] else 0
        return int(portions.sum()) * self.size - missing


def _digests(ids: Iterable[str], size: int) -> Iterator[int]:
    """Yield a 64-bit number for each portion."""
    stream = iter(ids)
    while portion := tuple(islice(stream, size)):
        yield int.from_bytes(hashlib.sha256("\n".join(portion).encode()).digest()[:8])
