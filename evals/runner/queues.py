"""A queue of tasks: done at once in this thread, or by a thread pool that never runs far ahead."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any


class TaskQueue:
    """Hands tasks to a pool, a bounded number at a time, so that cases are read no faster than they are asked.

    Without a pool each task is done at once: for tasks that may not overlap.
    """

    def __init__(self, pool: ThreadPoolExecutor | None = None, bound: int = 0) -> None:
        self._pool, self._bound = pool, bound
        self._pending: set[Future[Any]] = set()

    def put(self, task: Callable[[], None]) -> None:
        """Wait for room, then hand the task over; raise what an earlier task raised."""
        if self._pool is None:
            task()
            return
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
