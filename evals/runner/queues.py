"""Where units are worked on: at once in this thread, or by a pool that never runs far ahead."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any


class Inline:
    """Does each thing at once: for what may not overlap."""

    def put(self, act: Callable[[], None]) -> None:
        """Do it."""
        act()

    def drain(self) -> None:
        """Nothing is left."""


class Queue:
    """Hands things to a pool, a bounded number at a time, so that cases are read no faster than they are asked."""

    def __init__(self, pool: ThreadPoolExecutor, bound: int) -> None:
        self._pool, self._bound = pool, bound
        self._pending: set[Future[Any]] = set()

    def put(self, act: Callable[[], None]) -> None:
        """Wait for room, then hand it over; raises what an earlier thing raised."""
        while len(self._pending) >= self._bound:
            self._settle()
        self._pending.add(self._pool.submit(act))

    def drain(self) -> None:
        """Wait for all; raises what any of them raised."""
        while self._pending:
            self._settle()

    def _settle(self) -> None:
        done, self._pending = wait(self._pending, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
