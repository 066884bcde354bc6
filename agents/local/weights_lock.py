"""The lock of a model's weights, which also shows whether they may have changed between two uses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class WeightsLock:
    """A re-entrant lock: `acquire` it to change the weights, and use the context `read_access` to read them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._turns = 0
        self._waiting: list[int] = []

    @property
    def wanted(self) -> bool:
        """True while another thread waits for the lock."""
        return bool(self._waiting)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire like a lock of `threading`, to change the weights."""
        acquired = self._enter(blocking, timeout)
        if acquired:
            self._depth += 1
            self._turns += 1
        return acquired

    def release(self) -> None:
        """Release like a lock of `threading`."""
        self._depth -= 1
        self._lock.release()

    def __enter__(self) -> "WeightsLock":
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    @contextmanager
    def read_access(self) -> Iterator[int | None]:
        """Context in which the weights are used but not changed.

        Yields:
            A number that stays equal as long as no one could have changed the weights; None inside an `acquire` of the
            same thread, which may change them between two uses.
        """
        self._enter()
        alone, self._depth = not self._depth, self._depth + 1
        try:
            yield self._turns if alone else None
        finally:
            self._depth -= 1
            self._lock.release()

    def _enter(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._lock.acquire(blocking=False):
            return True
        if not blocking:
            return False
        self._waiting.append(threading.get_ident())
        try:
            return self._lock.acquire(timeout=timeout)
        finally:
            self._waiting.remove(threading.get_ident())
