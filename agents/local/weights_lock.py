"""A lock for a model's weights that also tracks whether they may have changed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class WeightsLock:
    """A re-entrant lock: hold it to change the weights, and use `read_access` to read them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._turns = 0
        self._waiting: list[int] = []

    @property
    def wanted(self) -> bool:
        """True if another thread waits for the lock."""
        return bool(self._waiting)

    def __enter__(self) -> "WeightsLock":
        self._enter()
        self._depth += 1
        self._turns += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._depth -= 1
        self._lock.release()

    @contextmanager
    def read_access(self) -> Iterator[int | None]:
        """Hold the lock to use the weights without changing them.

        Yields:
            A number that stays the same while the weights cannot have changed; None if the same
            thread already holds the lock, since it may change the weights between two uses.
        """
        self._enter()
        alone, self._depth = not self._depth, self._depth + 1
        try:
            yield self._turns if alone else None
        finally:
            self._depth -= 1
            self._lock.release()

    def _enter(self) -> None:
        self._waiting.append(threading.get_ident())
        try:
            self._lock.acquire()
        finally:
            self._waiting.remove(threading.get_ident())
