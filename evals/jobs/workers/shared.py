"""State that workers share through the driver: limits, call counts and shared answers, on both
sides.
"""

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from emend.agents.providers.journal import ReplyStore
from emend.agents.providers.policy import CallPolicy
from emend.agents.providers.prices import Prices
from emend.agents.providers.rate_limit import RateLimiter
from emend.agents.providers.usage import Ledger, ProviderUsage, untold_reply
from emend.evals.jobs.failures import error_fields
from emend.evals.jobs.results import UnitResult, WorkUnit
from emend.evals.jobs.shared_answers import AnswerFile, AskAnswer
from emend.evals.jobs.workers.base import Port
from emend.evals.log.baseline import BaselineAnswer
from emend.evals.log.records import json_line, unit_lines
from emend.memory.errors import BudgetReached, CallDropped, EmendError
from emend.memory.probe import Usage
from emend.memory.redaction import hide_in_bytes, hide_keys


class Source(NamedTuple):
    """The source of a message: worker, and request number if it waits for an answer."""

    worker: int
    request: int | None


# Sends a value or an error to a waiting request.
Answer = Callable[[Source, Any, EmendError | None], None]


class SharedCalls:
    """The rate limiter and ledger of a run, shared with its workers; used by one thread.

    Args:
        policy: the run's policy.
        answer: answers requests.
        throttle: tells workers whether they must request a turn for each call.
    """

    def __init__(
        self, policy: CallPolicy, answer: Answer, throttle: Callable[[Iterable[int], bool], None]
    ) -> None:
        self._policy, self._answer, self._throttle = policy, answer, throttle
        self._in_flight: dict[int, Counter[str]] = defaultdict(Counter)
        self._turns = SimpleQueue[tuple[Source, int] | None]()
        self._thread = threading.Thread(target=self._give_turns, name="emend-turns", daemon=True)
        self.throttles = False
        """True if workers must ask for the turn of each call, because the provider has
        complained."""

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
        if not self._policy.limiter.is_throttling:  # otherwise the call had to wait for its turn
            self._policy.limiter.record_send()
        if source.request is not None:
            self._answer(source, None, error)

    def end(self, source: Source, model: str, usage: dict[str, Any] | None, replied: bool) -> None:
        """Count the result of a call."""
        self._in_flight[source.worker][model] -= 1
        with suppress(BudgetReached):  # the worker raises the error too
            self._policy.ledger.end_call(model, usage, replied)

    def complain(self, workers: Iterable[int], age: float, pause: float) -> None:
        """Lower the pace of all workers after the rejection of a call sent `age` seconds ago."""
        self._policy.limiter.slow_down_after(age, pause)
        self.adjust(workers)

    def adjust(self, workers: Iterable[int]) -> None:
        """Tell workers when throttling begins or ends."""
        if self._policy.limiter.is_throttling != self.throttles:
            self.throttles = not self.throttles
            self._throttle(workers, self.throttles)

    def lose(self, worker: int) -> None:
        """Count the open calls of a lost worker as calls without a reply."""
        for model, calls in self._in_flight.pop(worker, Counter[str]()).items():
            for _ in range(calls):
                self._policy.ledger.end_call(model, None, replied=False)


class AnswerClaims:
    """Claims of workers on shared answers, and the workers waiting for them; used by one thread.

    Args:
        answers: the answers in the run folder.
        answer: answers requests.
    """

    def __init__(self, answers: AnswerFile, answer: Answer) -> None:
        self._answers, self._answer = answers, answer
        self._holders: dict[str, int] = {}
        self._waiting: dict[str, deque[Source]] = {}

    def claim(self, source: Source, key: str) -> None:
        """Answer with the line, or with None if the caller should ask the model, or let it wait for
        the worker that does.
        """
        line = self._answers.find(key) or self._answers.copy(key)
        if line is None and key in self._holders:
            self._waiting.setdefault(key, deque()).append(source)
            return
        if line is None:
            self._holders[key] = source.worker
        self._answer(source, line, None)

    def add(self, source: Source, key: str, line: bytes, usage: Usage) -> None:
        """Write the answer and send it to the waiting workers; only the first of two answers
        counts.
        """
        stored = self._answers.find(key) or self._answers.add_line(key, line, usage)
        self._holders.pop(key, None)
        for waiting in self._waiting.pop(key, ()):
            self._answer(waiting, stored, None)

    def abandon(self, source: Source, key: str) -> None:
        """Let the next waiting worker ask, because an error ended the call."""
        if self._holders.get(key) == source.worker:
            self._pass_on(key)

    def lose(self, worker: int) -> None:
        """Remove a lost worker."""
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


class TaskResults:
    """Results of one task, sent to the driver."""

    def __init__(self, port: Port, task: int) -> None:
        self._port, self._task = port, task

    def unit(self, unit: WorkUnit, result: UnitResult) -> None:
        """Send the lines of a finished unit."""
        lines, events = map(hide_in_bytes, unit_lines(result.lines, result.events))
        counts = dict(result.counts)
        self._port.send("unit", self._task, unit.key, unit.row, lines, events, counts)

    def failure(self, unit: WorkUnit, error: BaseException) -> None:
        """Send the line of a failed unit."""
        line = hide_in_bytes(json_line(error_fields(unit.key, unit.labels, error)))
        name, message = type(error).__name__, hide_keys(str(error))
        self._port.send("failure", self._task, unit.key, unit.row, line, name, message)

    def cost(self, line: dict[str, Any]) -> None:
        """Send a line of `costs.jsonl`."""
        self._port.send("cost", line)

    def probes(self, row: str, share: float) -> None:
        """Send a share of a unit in progress."""
        self._port.send("probes", row, share)

    def prepared(self, row: str, seconds: float, units: int) -> None:
        """Send the time to prepare units."""
        self._port.send("prepared", row, seconds, units)


class RemoteAnswers:
    """Shared answers of all workers, each requested by the first worker that needs it."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def get(self, key: str, ask: AskAnswer) -> bytes:
        """Return an answer's line; ask the model if no other worker has."""
        line: bytes | None = self._port.request("claim", key)
        if line is not None:
            return line
        try:
            return ask(partial(self._add, key))
        except BaseException:
            self._port.send("abandon", key)
            raise

    def _add(self, key: str, answer: BaselineAnswer, usage: Usage) -> bytes:
        line = hide_in_bytes(json_line(answer))
        self._port.send("add_answer", key, line, usage)
        return line


class RemoteJournal(ReplyStore):
    """A worker's view of the run's reply journal; `replays` says whether it may have replies for
    this worker.
    """

    def __init__(self, port: Port, replays: bool) -> None:
        self._port, self.replays = port, replays

    def read(self, key: str) -> str | None:
        """Request a reply from the driver, if there may be one."""
        reply: str | None = self._port.request("find_reply", key) if self.replays else None
        return reply

    def write(self, key: str, reply: str) -> None:
        """Send a reply, and wait until the driver has it on its disk.

        A kill of the driver then loses no more replies than there are calls at a time.
        """
        self._port.request("add_reply", key, reply)

    def require_room(self) -> None:
        """Do nothing: the driver ends the run."""

    def forget(self, unit: str) -> None:
        """Do nothing: the driver deletes the replies after writing the unit."""

    def warn(self, error: Exception) -> None:
        """Do nothing: the call is made again."""


class RemoteLimiter(RateLimiter):
    """A worker's view of the run's rate limiter, which requests a turn for each call while calls
    are limited; `throttles` after a complaint.
    """

    def __init__(self, port: Port, rpm: float | None, tpm: float | None) -> None:
        super().__init__(rpm, tpm)
        self._port, self.throttles = port, False

    def acquire(self, tokens: int) -> float:
        """Wait for the turn of a call."""
        if self.throttles or self.rpm is not None or self.tpm is not None:
            self._port.request("turn", tokens)
        return time.monotonic()

    def correct(self, estimated: int, actual: int) -> None:
        """Report a call's number of tokens, if it matters."""
        if self.tpm is not None:
            self._port.send("correct", estimated, actual)

    def passed(self) -> None:
        """Report that the provider accepted a call."""
        self._port.send("passed")

    def slow_down(self, sent: float, pause: float = 0.0) -> None:
        """Report a complaint of the provider."""
        self._port.send("complain", time.monotonic() - sent, pause)


class RemoteLedger(Ledger):
    """A worker's view of the run's ledger, which is asked before each call if there is a budget,
    and otherwise notified.
    """

    def __init__(
        self, port: Port, prices: Prices | None, max_cost: float | None, max_calls: int | None
    ) -> None:
        super().__init__(prices, max_cost, max_calls)
        self._port = port

    def start_call(self, model: str, is_retry: bool = False) -> None:
        """Request permission for a call, or report it."""
        if self.max_cost is None and self.max_calls is None:
            self._port.send("start_call", model, is_retry)
        else:
            self._port.request("start_call", model, is_retry)

    def end_call(self, model: str, usage: dict[str, Any] | None, replied: bool) -> None:
        """Report the result of a call."""
        self._port.send("end_call", model, usage, replied)
        if replied and usage is None and self.max_cost is not None:
            raise untold_reply(model)

    def add(self, model: str, usage: ProviderUsage) -> None:
        """Report additional usage."""
        self._port.send("spend", model, usage)

    def add_sent(self, model: str, parameters: dict[str, Any]) -> bool:
        """Report the parameters that a call sends, each set once."""
        is_new = super().add_sent(model, parameters)
        if is_new:
            self._port.send("spend", model, ProviderUsage(sent=(parameters,)))
        return is_new
