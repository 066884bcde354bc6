"""Many callers, one model: what waits is gathered and run as one batch, and texts of like length are padded."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from emend.memory.errors import ModelError

Asked = TypeVar("Asked")
Told = TypeVar("Told")


LINGER = 0.5
"""For callers to come back, a batch is waited with by so much of the time that the last one took."""


class _Call(NamedTuple, Generic[Asked, Told]):
    key: Hashable
    asked: Asked
    told: Future[Told]
    caller: int
    """Its thread, which waits for the answer."""


class Batcher(Generic[Asked, Told]):
    """Runs the calls of many threads in batches on one worker thread.

    A lone call runs at once; calls that come meanwhile wait for it, and then run together. After a batch of several its
    callers are given a moment to come back with their next calls, see `LINGER`: else the first of them would run alone,
    and the others would work against it for the interpreter. The thread starts with the first call, and ends with
    `close` or when the batcher is collected.

    Args:
        run: gets a key and what was asked under it, returns as many answers in that order.
        limit: how many calls may share a batch; 1 makes every result independent of timing.
    """

    def __init__(self, run: Callable[[Hashable, list[Asked]], list[Told]], limit: int = 64) -> None:
        self._run, self._limit = run, limit
        self._waiting: deque[_Call[Asked, Told]] = deque()
        self._expected, self._patience = 1, 0.0
        """So many calls are waited for, and so many seconds."""
        self._back = threading.Event()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="emend-batch")

    def ask(self, key: Hashable, asked: Asked) -> Told:
        """The answer, as soon as the batch that it went into is done; calls of one key share a batch.

        Raises:
            ModelError: the batcher is closed.
            Exception: what `run` raised on this call alone.
        """
        call = _Call[Asked, Told](key, asked, Future(), threading.get_ident())
        self._waiting.append(call)
        if len(self._waiting) >= self._expected:
            self._back.set()
        try:
            self._worker.submit(self._drain)
        except RuntimeError as error:
            raise ModelError(f"the model is closed, and was asked {str(asked)[:60]!r}: load it again.") from error
        return call.told.result()

    def close(self) -> None:
        """Waits for the batch under way and ends the thread; a second call does nothing."""
        self._worker.shutdown(wait=True)

    def _drain(self) -> None:
        if not self._waiting:  # an earlier turn has taken them along
            return
        self._linger()
        count = min(len(self._waiting), self._limit)  # only this thread takes, so the length cannot shrink
        taken = [self._waiting.popleft() for _ in range(count)]
        by_key: dict[Hashable, list[_Call[Asked, Told]]] = defaultdict(list)
        for call in taken:
            by_key[call.key].append(call)
        began = time.perf_counter()
        for calls in by_key.values():
            self._settle(calls)
        self._patience = LINGER * (time.perf_counter() - began)
        callers = {call.caller for call in (*taken, *list(self._waiting))}
        self._expected = min(self._limit, len(callers))

    def _linger(self) -> None:
        """Gives those who were in the last batch, or waited while it ran, the time to come back."""
        self._back.clear()
        if len(self._waiting) < self._expected:
            self._back.wait(self._patience)

    def _settle(self, calls: list[_Call[Asked, Told]]) -> None:
        try:
            answers = self._run(calls[0].key, [call.asked for call in calls])
            settled = list(zip(calls, answers, strict=True))
        except BaseException as error:  # the caller's thread must hear of it, whatever it is
            if len(calls) == 1:
                calls[0].told.set_exception(error)
            else:  # run each alone, so that it reaches only the one whose fault it is
                for call in calls:
                    self._settle([call])
            return
        for call, answer in settled:
            call.told.set_result(answer)


def pack(lengths: Sequence[int], budget: int, groups: Sequence[Hashable] | None = None) -> list[list[int]]:
    """Puts rows of like length together, so that a padded batch (rows x longest) holds at most `budget` tokens.

    Args:
        lengths: tokens of each row.
        budget: tokens of a padded batch; a single longer row is a batch of its own.
        groups: rows of one group stay in one batch if they fit.

    Returns:
        Batches of row numbers, shortest first; every row is in one of them.
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
