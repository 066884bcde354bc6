"""State that workers share through the driver: limits, count of calls, unedited answers; and a worker's end of it."""

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
from emend.evals.log.baseline import BaselineAnswer
from emend.evals.log.records import json_line, unit_lines
from emend.evals.run.ask_unit import UnitResult
from emend.evals.run.baseline import AskUnedited, BaselineFile
from emend.evals.run.results import counts_of, error_line
from emend.evals.run.units import EditorPass, Unit
from emend.evals.run.workers.base import Port
from emend.memory.errors import BudgetReached, CallDropped, EmendError
from emend.memory.probe import Usage
from emend.memory.redaction import hide_in_bytes, hide_keys


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


class TaskResults:
    """Results of one task, sent to the driver."""

    def __init__(self, port: Port, task: int) -> None:
        self._port, self._task = port, task

    def unit(self, editor_pass: EditorPass, unit: Unit, result: UnitResult) -> None:
        """Send the lines of a finished unit."""
        records, events = map(hide_in_bytes, unit_lines(result.records, result.events))
        self._port.send("unit", self._task, unit.key, editor_pass.name, records, events, dict(counts_of(result)))

    def failure(self, editor_pass: EditorPass, unit: Unit, error: BaseException) -> None:
        """Send the line of a failed unit."""
        line, message = hide_in_bytes(json_line(error_line(editor_pass, unit, error))), hide_keys(str(error))
        self._port.send("failure", self._task, unit.key, editor_pass.name, line, type(error).__name__, message)

    def cost(self, line: dict[str, Any]) -> None:
        """Send a line of `costs.jsonl`."""
        self._port.send("cost", line)

    def probes(self, editor: str, share: float) -> None:
        """Send a share of a unit in progress."""
        self._port.send("probes", editor, share)

    def edited(self, editor: str, seconds: float, units: int) -> None:
        """Send the time that edits took."""
        self._port.send("edited", editor, seconds, units)


class RemoteBaseline:
    """Baseline answers of all workers, each asked for by the first one that needs it."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def get(self, key: str, ask: AskUnedited) -> bytes:
        """Return an answer's line; ask if nobody else has done it."""
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
    """The run's journal of replies; `replays` says whether it may hold any for this worker."""

    def __init__(self, port: Port, replays: bool) -> None:
        self._port, self.replays = port, replays

    def read(self, key: str) -> str | None:
        """Ask the driver for a reply, if there may be one."""
        reply: str | None = self._port.request("find_reply", key) if self.replays else None
        return reply

    def write(self, key: str, reply: str) -> None:
        """Send a reply."""
        self._port.send("add_reply", key, reply)

    def forget(self, unit: str) -> None:
        """Do nothing: the driver forgets them when it has written the unit."""

    def warn(self, error: Exception) -> None:
        """Do nothing: the call is made again."""


class RemoteLimiter(RateLimiter):
    """The run's limiter, asked for each call's turn while calls are limited; `throttles` after a complaint."""

    def __init__(self, port: Port, rpm: float | None, tpm: float | None) -> None:
        super().__init__(rpm, tpm)
        self._port, self.throttles = port, False

    def acquire(self, tokens: int) -> float:
        """Wait for the turn of a call."""
        if self.throttles or self.rpm is not None or self.tpm is not None:
            self._port.request("turn", tokens)
        return time.monotonic()

    def correct(self, estimated: int, actual: int) -> None:
        """Tell a call's number of tokens, where it matters."""
        if self.tpm is not None:
            self._port.send("correct", estimated, actual)

    def passed(self) -> None:
        """Tell that the provider took a call."""
        self._port.send("passed")

    def slow_down(self, sent: float, pause: float = 0.0) -> None:
        """Tell that the provider complains."""
        self._port.send("complain", time.monotonic() - sent, pause)


class RemoteLedger(Ledger):
    """The run's ledger, which is asked before each call if there is a budget, and told of it otherwise."""

    def __init__(self, port: Port, prices: Prices | None, max_cost: float | None, max_calls: int | None) -> None:
        super().__init__(prices, max_cost, max_calls)
        self._port = port

    def start_call(self, model: str, is_retry: bool = False) -> None:
        """Ask for a call, or tell of it."""
        if self.max_cost is None and self.max_calls is None:
            self._port.send("start_call", model, is_retry)
        else:
            self._port.request("start_call", model, is_retry)

    def end_call(self, model: str, usage: dict[str, Any] | None, replied: bool) -> None:
        """Tell what came of a call."""
        self._port.send("end_call", model, usage, replied)
        if replied and usage is None and self.max_cost is not None:
            raise untold_reply(model)

    def add(self, model: str, usage: ProviderUsage) -> None:
        """Tell of more usage."""
        self._port.send("spend", model, usage)

    def add_sent(self, model: str, parameters: dict[str, Any]) -> bool:
        """Tell of the parameters that a call sends, once."""
        is_new = super().add_sent(model, parameters)
        if is_new:
            self._port.send("spend", model, ProviderUsage(sent=(parameters,)))
        return is_new
