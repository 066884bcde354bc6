"""Batches calls of many threads to one model, and rows of similar length into padded batches."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from emend.memory.errors import ModelError

Request = TypeVar("Request")
Result = TypeVar("Result")

LINGER = 0.5
"""Longest wait for the callers' next calls, as a share of the duration of the last batch."""


class _Call(NamedTuple, Generic[Request, Result]):
    key: Hashable
    request: Request
    result: Future[Result]
    caller: int
    """The id of the waiting thread."""


class Batcher(Generic[Request, Result]):
    """Runs the calls of many threads in batches on one worker thread.

    A single call runs at once; calls that arrive meanwhile wait, and then run together. After a batch of several calls
    the worker waits briefly for their callers' next calls, see `LINGER`: else the first of them would run alone while
    the others compete with it for the interpreter. The thread starts with the first call, and ends with `close` or when
    the batcher is garbage-collected.

    Args:
        run: gets a key and its requests, returns as many results in that order.
        limit: maximum number of calls in a batch; 1 makes every result independent of timing.
    """

    def __init__(self, run: Callable[[Hashable, list[Request]], list[Result]], limit: int = 64) -> None:
        self._run, self._limit = run, limit
        self._waiting: deque[_Call[Request, Result]] = deque()
        self._expected, self._patience = 1, 0.0
        """The number of calls to wait for, and the longest wait in seconds."""
        self._back = threading.Event()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="emend-batch")

    def ask(self, key: Hashable, request: Request) -> Result:
        """The result, as soon as the call's batch has run; only calls with the same key share a batch.

        Raises:
            ModelError: the batcher is closed.
            Exception: the error that `run` raised on this call alone.
        """
        call = _Call[Request, Result](key, request, Future(), threading.get_ident())
        self._waiting.append(call)
        if len(self._waiting) >= self._expected:
            self._back.set()
        try:
            self._worker.submit(self._drain)
        except RuntimeError as error:
            raise ModelError(f"the model is closed, and got {str(request)[:60]!r}: load it again.") from error
        return call.result.result()

    def close(self) -> None:
        """Waits for the running batch and ends the thread; a second call does nothing."""
        self._worker.shutdown(wait=True)

    def _drain(self) -> None:
        if not self._waiting:  # an earlier batch included them
            return
        self._linger()
        count = min(len(self._waiting), self._limit)  # only this thread takes, so the length cannot shrink
        calls = [self._waiting.popleft() for _ in range(count)]
        by_key: dict[Hashable, list[_Call[Request, Result]]] = defaultdict(list)
        for call in calls:
            by_key[call.key].append(call)
        began = time.perf_counter()
        for same_key in by_key.values():
            self._run_batch(same_key)
        self._patience = LINGER * (time.perf_counter() - began)
        callers = {call.caller for call in (*calls, *list(self._waiting))}
        self._expected = min(self._limit, len(callers))

    def _linger(self) -> None:
        """Wait for callers of the last batch, or who waited while it ran, to make their next call."""
        self._back.clear()
        if len(self._waiting) < self._expected:
            self._back.wait(self._patience)

    def _run_batch(self, calls: list[_Call[Request, Result]]) -> None:
        try:
            answers = self._run(calls[0].key, [call.request for call in calls])
            pairs = list(zip(calls, answers, strict=True))
        except BaseException as error:  # raised in the caller's thread, whatever it is
            if len(calls) == 1:
                calls[0].result.set_exception(error)
            else:  # run each alone, so that the error reaches only the call that causes it
                for call in calls:
                    self._run_batch([call])
            return
        for call, answer in pairs:
            call.result.set_result(answer)


def pack(lengths: Sequence[int], budget: int, groups: Sequence[Hashable] | None = None) -> list[list[int]]:
    """Groups rows of similar length, so that a padded batch (rows x longest) holds at most `budget` tokens.

    Args:
        lengths: tokens of each row.
        budget: maximum tokens of a padded batch; a longer row is a batch alone.
        groups: rows of one group stay in one batch if they fit.

    Returns:
        Batches of row numbers, shortest first; every row is in exactly one.
    """
    together: dict[Hashable, list[int]] = defaultdict(list)
    for row, group in enumerate(range(len(lengths)) if groups is None else groups):
        together[group].append(row)
    batches: list[list[int]] = []
    longest = 0
    for members in sorted(together.values(), key=lambda rows: max(lengths[row] for row in rows)):
        width = max(lengths[row] for row in members)
        size = max(1, budget // max(1, width))
        for part in (members[at : at + size] for at in range(0, len(members), size)):
            if not batches or (len(batches[-1]) + len(part)) * max(longest, width) > budget:
                batches.append([])
                longest = 0
            batches[-1] += part
            longest = max(longest, width)
    return batches
