"""Batching of calls from many threads, and of rows of similar length."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from emend.memory.errors import ModelError

Request = TypeVar("Request")
Result = TypeVar("Result")

# Maximum wait for the callers' next calls, as a share of the duration of the last batch.
LINGER = 0.5


class _Call(NamedTuple, Generic[Request, Result]):
    key: Hashable
    request: Request
    result: Future[Result]
    caller: int
    """The id of the waiting thread."""


# Returns newly arrived requests that may join the running batch; their indices follow the others'.
More = Callable[[], Sequence[Request]]
# Runs a batch that other requests may join: yields the index of each request with its result or
# error when it is done.
Joining = Callable[[Sequence[Request], More[Request]], Iterator[tuple[int, Result | Exception]]]


class Batcher(Generic[Request, Result]):
    """Runs the calls of many threads in batches on one worker thread; calls may join a running
    batch.

    A single call runs immediately; calls that arrive during its run join it, or wait and then run
    together. After a batch of several calls the worker waits briefly for the callers' next calls,
    see `LINGER`; otherwise the first of these would run alone while the others compete with it for
    the interpreter. The thread starts with the first call, and ends with `close` or when the
    batcher is garbage-collected.

    Args:
        run: takes a key and all requests of a batch, and returns the result or the error of each,
            in order.
        limit: maximum number of calls in a batch; with 1, results do not depend on timing.
        joining: functions that run the batches of some keys instead of `run`.
    """

    def __init__(
        self,
        run: Callable[[Hashable, list[Request]], Sequence[Result | Exception]],
        limit: int = 64,
        joining: Mapping[Hashable, Joining[Request, Result]] | None = None,
    ) -> None:
        self._run, self._limit, self._joining = run, limit, joining or {}
        self._waiting: deque[_Call[Request, Result]] = deque()
        self._expected, self._patience = 1, 0.0
        """The number of calls to wait for, and the longest wait in seconds."""
        self._began = 0.0
        """When the last batch began, or its last part before which calls could join."""
        self._back = threading.Event()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="emend-batch")

    def ask(self, key: Hashable, request: Request) -> Result:
        """Return the result when it is available; only calls with the same key share a batch.

        Raises:
            ModelError: the batcher is closed.
            Exception: the error that `run` yielded for this call, or raised on it alone.
        """
        call = _Call[Request, Result](key, request, Future(), threading.get_ident())
        self._waiting.append(call)
        if len(self._waiting) >= self._expected:
            self._back.set()
        try:
            self._worker.submit(self._drain)
        except RuntimeError as error:
            raise ModelError(
                f"the model is closed, but was called with {str(request)[:60]!r}: load it again."
            ) from error
        return call.result.result()

    def close(self) -> None:
        """Wait for the running batch and end the thread; a second call does nothing."""
        self._worker.shutdown(wait=True)

    def _drain(self) -> None:
        if not self._waiting:  # an earlier batch has taken the calls
            return
        self._linger()
        self._began = time.perf_counter()
        calls = self._take(self._limit)
        self._run_by_key(calls)
        self._patience = LINGER * (time.perf_counter() - self._began)
        callers = {call.caller for call in (*calls, *list(self._waiting))}
        self._expected = min(self._limit, len(callers))

    def _take(self, limit: int) -> list[_Call[Request, Result]]:
        """Take the calls that have waited longest."""
        # only this thread removes calls, so the length cannot shrink
        number = min(len(self._waiting), limit)
        return [self._waiting.popleft() for _ in range(number)]

    def _linger(self) -> None:
        """Wait briefly for the next calls of threads that were in the last batch or waited while it
        ran.
        """
        self._back.clear()
        if len(self._waiting) < self._expected:
            self._back.wait(self._patience)

    def _run_by_key(self, calls: Sequence[_Call[Request, Result]]) -> None:
        by_key: dict[Hashable, list[_Call[Request, Result]]] = defaultdict(list)
        for call in calls:
            by_key[call.key].append(call)
        for same_key in by_key.values():
            self._run_batch(same_key)

    def _run_batch(self, calls: Sequence[_Call[Request, Result]], alone: bool = False) -> None:
        """Run calls of one key and the calls that join them."""
        left = dict(enumerate(calls))
        try:
            if calls[0].key in self._joining:
                self._run_joining(left, alone)
            else:
                for call, result in zip(
                    calls, self._run(calls[0].key, [call.request for call in calls]), strict=True
                ):
                    _settle(call.result, result)
        except BaseException as error:  # any exception is raised in the caller's thread
            for call in [call for call in left.values() if not call.result.done()]:
                if alone or len(calls) == 1 == len(left):
                    call.result.set_exception(error)
                # run calls one by one, so that the error reaches only the call that causes it
                else:
                    self._run_batch([call], alone=True)

    def _run_joining(self, left: dict[int, _Call[Request, Result]], alone: bool) -> None:
        """Run calls by index and the calls that join them; `left` are the unfinished calls."""
        key, places = left[0].key, count(len(left))

        def next_requests() -> list[Request]:
            self._began = time.perf_counter()
            arrived = [] if alone else self._take(self._limit - len(left))
            joining = [call for call in arrived if call.key == key]
            left.update((place, call) for call, place in zip(joining, places, strict=False))
            self._run_by_key([call for call in arrived if call.key != key])
            return [call.request for call in joining]

        for place, result in self._joining[key](
            [call.request for call in left.values()], next_requests
        ):
            _settle(left.pop(place).result, result)
        if left:
            raise ModelError(f"{len(left)} calls got no result.")


def _settle(future: Future[Result], result: Result | Exception) -> None:
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def pack(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group rows of similar length into batches of at most `budget` tokens after padding (rows x
    longest).

    Args:
        lengths: number of tokens of each row.
        budget: maximum tokens of a padded batch; a longer row is a batch of its own.

    Returns:
        Batches of row indices, shortest first; every row is in exactly one batch.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not batches or (len(batches[-1]) + 1) * lengths[row] > budget:
            batches.append([])
        batches[-1].append(row)
    return batches
