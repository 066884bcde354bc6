"""The lock of a model's weights, which also tells whether they may have changed since somebody looked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class WeightsLock:
    """A re-entrant lock: held plainly by who may change the weights, and through `asking` by who only uses them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._turns = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As a lock of `threading`; the weights may then change."""
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            self._depth += 1
            self._turns += 1
        return taken

    def release(self) -> None:
        """As a lock of `threading`."""
        self._depth -= 1
        self._lock.release()

    def __enter__(self) -> "WeightsLock":
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    @contextmanager
    def asking(self) -> Iterator[int | None]:
        """Holds the lock to use the weights and leave them as they are.

        Yields:
            A number that is the same as long as nobody could change them; None inside somebody's own hold, who may
            change them between one use and the next.
        """
        with self._lock:
            alone, self._depth = not self._depth, self._depth + 1
            try:
                yield self._turns if alone else None
            finally:
                self._depth -= 1
