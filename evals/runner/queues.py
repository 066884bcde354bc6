"""Queues of tasks: done at once in this thread, or by a thread pool that never runs far ahead."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any


class Inline:
    """Does each task at once: for tasks that may not overlap."""

    def put(self, task: Callable[[], None]) -> None:
        """Do the task."""
        task()

    def drain(self) -> None:
        """Do nothing: every task is done."""


class BoundedQueue:
    """Hands tasks to a pool, a bounded number at a time, so that cases are read no faster than they are asked."""

    def __init__(self, pool: ThreadPoolExecutor, bound: int) -> None:
        self._pool, self._bound = pool, bound
        self._pending: set[Future[Any]] = set()

    def put(self, task: Callable[[], None]) -> None:
        """Wait for room, then hand the task over; raise what an earlier task raised."""
        while len(self._pending) >= self._bound:
            self._wait_for_one()
        self._pending.add(self._pool.submit(task))

    def drain(self) -> None:
        """Wait for all tasks; raise what any of them raised."""
        while self._pending:
            self._wait_for_one()

    def _wait_for_one(self) -> None:
        ended, self._pending = wait(self._pending, return_when=FIRST_COMPLETED)
        for future in ended:
            future.result()


TaskQueue = Inline | BoundedQueue
