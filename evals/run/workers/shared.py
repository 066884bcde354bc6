"""State that workers share through the driver: limits and count of calls, and the unedited model's answers."""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

from emend.agents.providers.policy import CallPolicy
from emend.evals.run.baseline import BaselineFile
from emend.memory.errors import BudgetReached, CallDropped, EmendError
from emend.memory.probe import Usage


class Source(NamedTuple):
    """Where a message comes from: worker, and number of the request if it waits for an answer."""

    worker: int
    request: int | None


Answer = Callable[[Source, Any, EmendError | None], None]
"""Sends a value or an error to a request that waits."""


class SharedCalls:
    """The limiter and the ledger of a run, shared with its workers; used by one thread.

    Args:
        policy: of the run.
        answer: answers requests.
        throttle: tells workers whether they must ask for the turn of each call.
    """

    def __init__(self, policy: CallPolicy, answer: Answer, throttle: Callable[[Iterable[int], bool], None]) -> None:
        self._policy, self._answer, self._throttle = policy, answer, throttle
        self._in_flight: dict[int, Counter[str]] = defaultdict(Counter)
        self._turns = SimpleQueue[tuple[Source, int] | None]()
        self._thread = threading.Thread(target=self._give_turns, name="emend-turns", daemon=True)
        self.throttles = False
        """Whether workers must ask for the turn of each call, because the provider has complained."""

    def __enter__(self) -> "SharedCalls":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._turns.put(None)
        with self._policy.ending():
            self._thread.join()

    def turn(self, source: Source, tokens: int) -> None:
        """Answer when the limits allow the call."""
        self._turns.put((source, tokens))

    def _give_turns(self) -> None:
        while (turn := self._turns.get()) is not None:
            source, tokens = turn
            try:
                self._policy.limiter.acquire(tokens)
                self._answer(source, None, None)
            except CallDropped as error:
                self._answer(source, None, error)

    def start(self, source: Source, model: str, is_retry: bool) -> None:
        """Count a call; answer whether the budget allows it."""
        error = None
        try:
            self._policy.ledger.start_call(model, is_retry)
            self._in_flight[source.worker][model] += 1
        except BudgetReached as reached:
            error = reached
        if not self._policy.limiter.is_throttling:  # else the call had to wait for its turn
            self._policy.limiter.record_send()
        if source.request is not None:
            self._answer(source, None, error)

    def end(self, source: Source, model: str, usage: dict[str, Any] | None, replied: bool) -> None:
        """Count what came of a call."""
        self._in_flight[source.worker][model] -= 1
        with suppress(BudgetReached):  # the worker raises it, too
            self._policy.ledger.end_call(model, usage, replied)

    def complain(self, workers: Iterable[int], age: float, pause: float) -> None:
        """Lower the pace of all workers, after a refusal of a call that was sent so many seconds ago."""
        self._policy.limiter.slow_down_after(age, pause)
        self.adjust(workers)

    def adjust(self, workers: Iterable[int]) -> None:
        """Tell workers when the pace begins or ceases to be lowered."""
        if self._policy.limiter.is_throttling != self.throttles:
            self.throttles = not self.throttles
            self._throttle(workers, self.throttles)

    def lose(self, worker: int) -> None:
        """End the calls of a worker that is gone, as calls without a reply."""
        for model, calls in self._in_flight.pop(worker, Counter[str]()).items():
            for _ in range(calls):
                self._policy.ledger.end_call(model, None, replied=False)


class BaselineClaims:
    """Who asks the unedited model for which answer, and who waits for it; used by one thread.

    Args:
        answers: in the run folder.
        answer: answers requests.
    """

    def __init__(self, answers: BaselineFile, answer: Answer) -> None:
        self._answers, self._answer = answers, answer
        self._holders: dict[str, int] = {}
        self._waiting: dict[str, deque[Source]] = {}

    def claim(self, source: Source, key: str) -> None:
        """Answer with the line, or with None to let the caller ask, or let it wait for the one that asks."""
        line = self._answers.find(key) or self._answers.copy(key)
        if line is None and key in self._holders:
            self._waiting.setdefault(key, deque()).append(source)
            return
        if line is None:
            self._holders[key] = source.worker
        self._answer(source, line, None)

    def add(self, source: Source, key: str, line: bytes, usage: Usage) -> None:
        """Write the answer and give it to those who wait; of two the first one counts."""
        stored = self._answers.find(key) or self._answers.add_line(key, line, usage)
        self._holders.pop(key, None)
        for waiting in self._waiting.pop(key, ()):
            self._answer(waiting, stored, None)

    def abandon(self, source: Source, key: str) -> None:
        """Let the next one that waits ask, because an error ended the call."""
        if self._holders.get(key) == source.worker:
            self._pass_on(key)

    def lose(self, worker: int) -> None:
        """Forget a worker that is gone."""
        for key, waiting in self._waiting.items():
            self._waiting[key] = deque(source for source in waiting if source.worker != worker)
        for key in [key for key, holder in self._holders.items() if holder == worker]:
            self._pass_on(key)

    def _pass_on(self, key: str) -> None:
        del self._holders[key]
        if waiting := self._waiting.get(key):
            source = waiting.popleft()
            self._holders[key] = source.worker
            self._answer(source, None, None)
