"""Bounded concurrent execution: task queues, and maps with ordered results."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def units_at_once(concurrency: int, calls_providers: bool) -> int:
    """Return the number of concurrent units: twice the number of provider calls, so that a call is
    always ready.
    """
    return 2 * concurrency if concurrency > 1 and calls_providers else concurrency


def map_in_order(
    function: Callable[[Item], Result], items: Sequence[Item], at_once: int
) -> Iterator[Result]:
    """Yield the function's results in the order of the items, computed by this many threads in the
    caller's context.

    The first error is raised at its item's position; items that have not started are then skipped.
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
    """Passes a bounded number of tasks to a pool, so that cases are not read faster than they are
    evaluated.

    Without a pool each task runs immediately, for tasks that must not overlap.
    """

    def __init__(self, pool: ThreadPoolExecutor | None = None, bound: int = 0) -> None:
        self._pool, self._bound = pool, bound
        self._changed = threading.Condition()
        self._pending = 0
        self._error: BaseException | None = None

    def put(self, task: Callable[[], None]) -> None:
        """Wait for a free slot and submit the task; raise the error of an earlier task."""
        if self._pool is None:
            task()
            return
        self._wait_until_fewer(self._bound)
        with self._changed:
            self._pending += 1
        self._pool.submit(task).add_done_callback(self._end)

    def drain(self) -> None:
        """Wait for all tasks; raise the error of any of them."""
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
