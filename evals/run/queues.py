"""Tasks done at once in this thread, or by a thread pool that never runs far ahead."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(function: Callable[[Item], Result], items: Sequence[Item], at_once: int) -> Iterator[Result]:
    """The function's results in the order of the items, computed by that many threads in the caller's context.

    The first error is raised in its item's place; items that have not begun are then left out.
    """
    if at_once == 1 or len(items) < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(min(at_once, len(items)), "emend-probe") as pool:
        futures = [pool.submit(copy_context().run, function, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class TaskQueue:
    """Hands tasks to a pool, a bounded number at a time, so that cases are read no faster than they are asked.

    Without a pool each task is done at once: for tasks that may not overlap.
    """

    def __init__(self, pool: ThreadPoolExecutor | None = None, bound: int = 0) -> None:
        self._pool, self._bound = pool, bound
        self._changed = threading.Condition()
        self._pending = 0
        self._error: BaseException | None = None

    def put(self, task: Callable[[], None]) -> None:
        """Wait for room, then hand the task over; raise what an earlier task raised."""
        if self._pool is None:
            task()
            return
        self._wait_until_fewer(self._bound)
        with self._changed:
            self._pending += 1
        self._pool.submit(task).add_done_callback(self._end)

    def drain(self) -> None:
        """Wait for all tasks; raise what any of them raised."""
        self._wait_until_fewer(1)

    def _wait_until_fewer(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._pending < number or self._error is not None)
            error, self._error = self._error, None
        if error is not None:
            raise error

    def _end(self, future: Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        with self._changed:
            self._pending -= 1
            self._error = self._error or error
            self._changed.notify()
