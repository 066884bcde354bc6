"""Items of several kinds in turn."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def take_turns(iterators: Iterable[Iterator[T]], count: int) -> list[T]:
    """At most so many items, one from each iterator in turn; where one has no more, from the others."""
    turns, items = deque(iterators), list[T]()
    while turns and len(items) < count:
        iterator = turns.popleft()
        for item in iterator:
            items.append(item)
            turns.append(iterator)
            break
    return items
