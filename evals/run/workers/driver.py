"""The driver of a run in other processes: deals tasks, writes what comes back, and replaces workers that die.

What is written once is never written again: a unit counts by its key, whichever worker sends it and how often.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from emend.evals.log.lines import PERPLEXITY_BEFORE
from emend.evals.run.units import Unit
from emend.evals.run.workers.base import (
    WORKER_LOST,
    RunState,
    Task,
    Transport,
    WorkerSetup,
    rebuilt_error,
    tasks_of,
    units_of,
)
from emend.evals.run.workers.shared import BaselineClaims, SharedCalls, Source
from emend.memory.errors import EmendError, WorkerDied
from emend.memory.probe import Usage

TICK = 1.0
"""Seconds after which the driver looks around even if no message comes."""
MAX_DEATHS = 2
"""Deaths of workers over one task, after which its units fail."""


@dataclass
class OpenTask:
    """A task that is not finished, keys of its units that are written, and how many workers died over it."""

    task: Task
    keys: set[str] = field(default_factory=set)
    deaths: int = 0


@dataclass
class Member:
    """A worker that is alive, the numbers of its tasks, and whether it has one alone, over which another died."""

    place: int
    is_ready: bool = False
    tasks: set[int] = field(default_factory=set)
    is_isolated: bool = False
    cpu_seconds: float = 0.0


class Driver:
    """Runs the workers of one run; all methods but `stop` are for one thread.

    Args:
        state: of the run.
        transport: to the workers.
        setups: makes the setup of each worker by its place, 0 to `workers` - 1, and its number.
        workers: how many there are at a time.
    """

    def __init__(
        self, state: RunState, transport: Transport, setups: Callable[[int, int], WorkerSetup], workers: int
    ) -> None:
        self._state, self._transport, self._setups, self._workers = state, transport, setups, workers
        self._setup, self._writer = state.context.setup, state.writer
        self._tasks = tasks_of(self._setup, state.context.finished, workers)
        self._ahead = deque(islice(self._tasks, workers))
        self._open: dict[int, OpenTask] = {}
        self._suspects = deque[OpenTask]()
        self._members: dict[int, Member] = {}
        self._failed_starts = self._unsynced = self._started = 0
        self._forgettable: list[str] = []
        self._is_ending = threading.Event()
        self._error: BaseException | None = None
        self._calls = SharedCalls(self._setup.policy, self._answer, self._throttle)
        self._claims = BaselineClaims(state.answers, self._answer)
        self._unedited_measured = state.unedited_measured
        self._handlers = self._table()
        self.cpu_seconds = 0.0

    def _table(self) -> dict[str, Callable[..., None]]:
        """Map names of messages to their handlers, which take the source of the message and its values."""
        policy, calls, writer = self._setup.policy, self._calls, self._writer
        return {
            "ready": self._ready,
            "unit": self._unit,
            "failure": self._failure,
            "done": self._done,
            "cost": self._cost,
            "claim": self._claims.claim,
            "add_answer": self._add_answer,
            "abandon": self._claims.abandon,
            "find_reply": self._find_reply,
            "add_reply": self._add_reply,
            "turn": calls.turn,
            "start_call": calls.start,
            "end_call": calls.end,
            "passed": lambda _: policy.limiter.passed(),
            "correct": lambda _, estimated, actual: policy.limiter.correct(estimated, actual),
            "complain": lambda _, age, pause: calls.complain(self._members, age, pause),
            "spend": lambda _, model, usage: policy.ledger.add(model, usage),
            "waiting": lambda _, seconds, reason: writer.waiting(seconds, reason),
            "probes": lambda source, editor, share: self._writer.probes(editor, share),
            "edited": self._edited,
            "fatal": self._fatal,
            "bye": self._bye,
            WORKER_LOST: self._lost,
        }

    def stop(self) -> None:
        """End the run after the calls in progress; safe for other threads."""
        self._is_ending.set()

    def run(self) -> None:
        """Evaluate every task, or until something ends the run; then end all workers.

        Raises:
            EmendError: an error that is not the fault of one unit.
        """
        with self._calls:
            try:
                self._replace_workers()
                while (self._ahead or self._open) and not (self._is_ending.is_set() or self._error):
                    self._step()
            except Exception as error:  # noqa: BLE001  of a benchmark's cases, or of starting a worker
                self._error = self._error or error
            self._end()
        if self._error is not None:
            raise self._error

    def _step(self) -> None:
        """Handle the messages that are there, then deal."""
        self._handle_all(self._transport.receive(TICK))
        self._calls.adjust(self._members)
        if not (self._error or self._is_ending.is_set()):
            self._replace_workers()
            self._deal()

    def _end(self) -> None:
        """Tell all workers to stop, and take what they still send."""
        self._is_ending.set()
        self._members = {worker: member for worker, member in self._members.items() if member.is_ready}
        for worker in self._members:
            self._transport.send(worker, "stop")
        with self._setup.policy.ending():
            while self._members:
                self._handle_all(self._transport.receive(TICK))

    def _handle_all(self, messages: list[tuple[int, tuple[Any, ...]]]) -> None:
        """Handle messages; an error ends the run, but loses none of the others."""
        for worker, (name, request, *values) in messages:
            if worker not in self._members:
                continue
            try:
                self._handlers[name](Source(worker, request), *values)
            except Exception as error:  # noqa: BLE001
                self._error = self._error or error
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001  a full disk
            self._error = self._error or error

    def _flush(self) -> None:
        """Wait until what was written is on the disk; its replies are not needed any longer."""
        if self._unsynced:
            self._writer.log.sync(self._unsynced)
        keys, self._unsynced, self._forgettable = self._forgettable, 0, []
        if self._state.journal is not None:
            for key in keys:
                self._state.journal.forget(key)

    def _answer(self, source: Source, value: Any, error: EmendError | None) -> None:
        failure = None if error is None else (type(error).__name__, str(error))
        self._transport.send(source.worker, "answer", source.request, value, failure)

    def _throttle(self, workers: Iterable[int], on: bool) -> None:
        for worker in workers:
            self._transport.send(worker, "throttle", on)

    def _ready(self, source: Source) -> None:
        """Take a worker whose parts are loaded."""
        self._members[source.worker].is_ready, self._failed_starts = True, 0
        if self._calls.throttles:
            self._throttle([source.worker], True)

    def _unit(
        self, source: Source, number: int, key: str, editor: str, records: bytes, events: bytes, counts: dict[str, int]
    ) -> None:
        """Write a finished unit."""
        if self._is_new(number, key):
            self._unsynced = self._writer.log.unit_lines(records, events)
            self._forgettable.append(key)
            self._writer.count(editor, counts)

    def _failure(self, source: Source, number: int, key: str, editor: str, line: bytes, *error: str) -> None:
        """Write a failed unit, with class and message of its error."""
        if self._is_new(number, key):
            self._writer.fail(editor, line, rebuilt_error(*error))

    def _is_new(self, number: int, key: str) -> bool:
        """Note that a unit of a task has come; False if it is there already."""
        task = self._open.get(number)
        if task is None or key in task.keys:
            return False
        task.keys.add(key)
        return True

    def _done(self, source: Source, number: int, cpu_seconds: float) -> None:
        """Take a task that needs no more work, and the processor time of its worker so far."""
        member = self._members[source.worker]
        member.cpu_seconds = cpu_seconds
        member.tasks.discard(number)
        member.is_isolated &= bool(member.tasks)
        self._open.pop(number, None)

    def _cost(self, source: Source, line: dict[str, Any]) -> None:
        """Write a line of costs; each worker measures the unedited model, and the first one's counts."""
        if line["act"] == PERPLEXITY_BEFORE:
            if self._unedited_measured:
                return
            self._unedited_measured = True
        self._writer.cost(line)

    def _edited(self, source: Source, editor: str, seconds: float, units: int) -> None:
        """Count the time for its part in the run's, as the workers solve at the same time."""
        self._writer.edited(editor, seconds / self._workers, units)

    def _add_answer(self, source: Source, key: str, line: bytes, usage: Usage) -> None:
        self._claims.add(source, key, line, usage)
        self._forgettable.append(key)

    def _find_reply(self, source: Source, key: str) -> None:
        self._answer(source, self._state.journal and self._state.journal.read(key), None)

    def _add_reply(self, source: Source, key: str, reply: str) -> None:
        if self._state.journal is not None:
            self._state.journal.write(key, reply)

    def _fatal(self, source: Source, kind: str, message: str, trace: str) -> None:
        """Raise an error of a worker, with the traceback of one that was not raised on purpose."""
        error = rebuilt_error(kind, message)
        if trace:
            error.add_note(f"In a worker:\n{trace}")
        raise error

    def _bye(self, source: Source, cpu_seconds: float) -> None:
        self._members[source.worker].cpu_seconds = cpu_seconds

    def _lost(self, source: Source, reason: str) -> None:
        """Forget a worker that is gone; its tasks are dealt again, each alone."""
        member = self._members.pop(source.worker)
        self.cpu_seconds += member.cpu_seconds
        self._calls.lose(source.worker)
        self._claims.lose(source.worker)
        if self._is_ending.is_set():
            return
        if not member.is_ready:
            self._failed_starts += 1
            if self._failed_starts > self._workers:
                raise WorkerDied(
                    f"{self._failed_starts} workers in a row ended while loading the model and the data ({reason}): "
                    "there may be too little memory. Give fewer --workers."
                )
        for number in sorted(member.tasks):
            self._deal_again(self._open[number], reason)

    def _deal_again(self, task: OpenTask, reason: str) -> None:
        """Deal a task once more, alone; after the second death its units fail."""
        task.deaths += 1
        if task.deaths < MAX_DEATHS:
            self._suspects.append(task)
            return
        del self._open[task.task.number]
        error = WorkerDied(
            f"{task.deaths} workers ended while they evaluated this ({reason}): there may be too little memory for it. "
            "`emend resume` tries it again; give fewer --workers."
        )
        for unit in self._missing_units(task):
            self._writer.failure(self._setup.share_passes[task.task.pass_index], unit, error)

    def _missing_units(self, task: OpenTask) -> Iterator[Unit]:
        known = task.keys | task.task.finished
        return (unit for unit in units_of(task.task, self._setup) if unit.key not in known)

    def _replace_workers(self) -> None:
        """Start workers for the places that have none, as far as there is work for them."""
        needed = min(self._workers, len(self._open) + len(self._ahead))
        for place in sorted(set(range(needed)) - {member.place for member in self._members.values()}):
            number, self._started = self._started, self._started + 1
            self._members[number] = Member(place)
            self._transport.start(number, self._setups(place, number))

    def _deal(self) -> None:
        """Give every worker that has room its next tasks."""
        for worker, member in self._members.items():
            while member.is_ready and (task := self._take(member)) is not None:
                self._open[task.task.number] = task
                member.tasks.add(task.task.number)
                finished = task.task.finished | task.keys
                dealt = task.task._replace(finished=finished, replays=task.deaths > 0)
                self._transport.send(worker, "task", dealt)

    def _take(self, member: Member) -> OpenTask | None:
        if member.is_isolated:
            return None
        if self._suspects and not member.tasks:
            member.is_isolated = True
            return self._suspects.popleft()
        if not self._ahead or len(member.tasks) >= self._depth(self._ahead[0]):
            return None
        self._ahead.extend(islice(self._tasks, 1))
        return OpenTask(self._ahead.popleft())

    def _depth(self, task: Task) -> int:
        """Return how many tasks like this one a worker has at a time: more than one, so that it need not wait."""
        editor = self._setup.share_passes[task.pass_index].editor
        if task.cases is None or (editor.needs_weights and len(task.cases) > 1):
            return 1
        share = -(-self._setup.units_at_once // self._workers)
        return 2 if editor.needs_weights else 2 * share + 1


class DealtWorkers:
    """Workers behind a transport.

    Args:
        name: as in `--workers`.
        transport: to the workers.
        setups: makes a worker's setup for a run, by place and number.
        workers: how many there are at a time.
    """

    def __init__(
        self, name: str, transport: Transport, setups: Callable[[RunState, int, int], WorkerSetup], workers: int
    ) -> None:
        self.name, self._transport, self._setups, self._workers = name, transport, setups, workers
        self.cpu_seconds = 0.0

    def evaluate(self, state: RunState) -> None:
        """Run the driver in a thread of its own: an interruption, which comes to this one, must not halve a write."""
        driver = Driver(state, self._transport, lambda *at: self._setups(state, *at), self._workers)
        errors: list[BaseException] = []
        ended = threading.Event()  # and not the end of the thread: an interrupted join() takes it for ended

        def work() -> None:
            try:
                driver.run()
            except BaseException as error:
                errors.append(error)
            finally:
                ended.set()

        threading.Thread(target=work, name="emend-driver").start()
        try:
            ended.wait()
        finally:
            driver.stop()
            ended.wait()
            self.cpu_seconds = driver.cpu_seconds
            self._transport.close()
        if errors:
            raise errors[0]
