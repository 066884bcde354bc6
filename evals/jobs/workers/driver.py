"""The driver of workers in other processes: distributes tasks, writes results, and replaces workers
that die.

Results are written exactly once: units are identified by key, regardless of which worker sends them
and how often.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from emend.evals.jobs.job import Task, units_of_job_at_once
from emend.evals.jobs.results import WorkUnit
from emend.evals.jobs.workers.base import (
    WORKER_LOST,
    RunState,
    Transport,
    WorkerSetup,
    rebuilt_error,
)
from emend.evals.jobs.workers.shared import AnswerClaims, SharedCalls, Source
from emend.memory.errors import EmendError, WorkerDied
from emend.memory.probe import Usage

# Seconds after which the driver runs its loop even without messages.
TICK = 1.0
# Number of workers that may die over a task before its units fail.
MAX_DEATHS = 2


@dataclass
class OpenTask:
    """An unfinished task, the keys of its written units, and the number of workers that died over
    it.
    """

    task: Task
    keys: set[str] = field(default_factory=set)
    deaths: int = 0


@dataclass
class Member:
    """A living worker, the numbers of its tasks, and whether it runs a single task over which
    another worker died.
    """

    position: int
    is_ready: bool = False
    tasks: set[int] = field(default_factory=set)
    is_isolated: bool = False
    cpu_seconds: float = 0.0


class Driver:
    """Runs the workers of one run; all methods except `stop` must be called from one thread.

    Args:
        state: of the run.
        transport: to the workers.
        setups: returns the setup of a worker by its position, 0 to `workers` - 1, and its number.
        workers: how many there are at a time.
    """

    def __init__(
        self,
        state: RunState,
        transport: Transport,
        setups: Callable[[int, int], WorkerSetup],
        workers: int,
    ) -> None:
        self._state, self._transport, self._setups, self._workers = (
            state,
            transport,
            setups,
            workers,
        )
        self._job, self._writer = state.job, state.writer
        self._tasks = self._job.tasks(state.context.finished, workers)
        self._ahead = deque(islice(self._tasks, workers))
        self._open: dict[int, OpenTask] = {}
        self._suspects = deque[OpenTask]()
        self._members: dict[int, Member] = {}
        self._failed_starts = self._unsynced = self._started = 0
        self._forgettable: list[str] = []
        self._is_ending = threading.Event()
        self._error: BaseException | None = None
        self._calls = SharedCalls(self._job.policy, self._answer, self._throttle)
        self._claims = AnswerClaims(state.answers, self._answer)
        self._written_once = set[str]()
        self._handlers = self._table()
        self.cpu_seconds = 0.0

    def _table(self) -> dict[str, Callable[..., None]]:
        """Map message names to handlers, which take the message's source and values."""
        policy, calls, writer = self._job.policy, self._calls, self._writer
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
            "probes": lambda _, row, share: writer.probes(row, share),
            "prepared": self._prepared,
            "fatal": self._fatal,
            "bye": self._bye,
            WORKER_LOST: self._lost,
        }

    def stop(self) -> None:
        """End the run after the calls in progress; safe for other threads."""
        self._is_ending.set()

    def run(self) -> None:
        """Evaluate tasks until all are done or an error ends the run; then end all workers.

        Raises:
            EmendError: an error that is not the fault of one unit.
        """
        with self._calls:
            try:
                self._replace_workers()
                while (self._ahead or self._open) and not (self._is_ending.is_set() or self._error):
                    self._step()
            except Exception as error:  # noqa: BLE001
                # an error while reading cases or starting a worker
                self._error = self._error or error
            self._end()
        if self._error is not None:
            raise self._error

    def _step(self) -> None:
        """Handle pending messages, then distribute tasks."""
        self._handle_all(self._transport.receive(TICK))
        self._calls.adjust(self._members)
        if not (self._error or self._is_ending.is_set()):
            self._replace_workers()
            self._deal()

    def _end(self) -> None:
        """Tell all workers to stop, and handle their last messages."""
        self._is_ending.set()
        self._members = {
            worker: member for worker, member in self._members.items() if member.is_ready
        }
        for worker in self._members:
            self._transport.send(worker, "stop")
        with self._job.policy.ending():
            while self._members:
                self._handle_all(self._transport.receive(TICK))

    def _handle_all(self, messages: list[tuple[int, tuple[Any, ...]]]) -> None:
        """Handle messages; an error ends the run, but the other messages are still handled."""
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
        """Wait until results are on the disk, and then delete their journaled replies."""
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
        """Register a worker that has finished loading."""
        self._members[source.worker].is_ready, self._failed_starts = True, 0
        if self._calls.throttles:
            self._throttle([source.worker], True)

    def _unit(
        self,
        source: Source,
        number: int,
        key: str,
        row: str,
        records: bytes,
        events: bytes,
        counts: dict[str, int],
    ) -> None:
        """Write a finished unit."""
        if self._is_new(number, key):
            self._unsynced = self._writer.log.unit_lines(records, events)
            self._forgettable.append(key)
            self._writer.count(row, counts)

    def _failure(
        self, source: Source, number: int, key: str, row: str, line: bytes, *error: str
    ) -> None:
        """Write a failed unit, with class and message of its error."""
        if self._is_new(number, key):
            self._writer.fail(row, line, rebuilt_error(*error))

    def _is_new(self, number: int, key: str) -> bool:
        """Record that a unit of a task has arrived; return False if it was already there."""
        task = self._open.get(number)
        if task is None or key in task.keys:
            return False
        task.keys.add(key)
        return True

    def _done(self, source: Source, number: int, cpu_seconds: float) -> None:
        """Close a finished task, and store its worker's processor time so far."""
        member = self._members[source.worker]
        member.cpu_seconds = cpu_seconds
        member.tasks.discard(number)
        member.is_isolated &= bool(member.tasks)
        self._open.pop(number, None)

    def _cost(self, source: Source, line: dict[str, Any]) -> None:
        """Write a line of costs; of lines that count once for all workers, only the first."""
        name = self._job.counts_once(line)
        if name in self._written_once:
            return
        if name:
            self._written_once.add(name)
        self._writer.cost(line)

    def _prepared(self, source: Source, row: str, seconds: float, units: int) -> None:
        """Count a worker's preparation time divided by the number of workers, since they prepare in
        parallel.
        """
        self._writer.prepared(row, seconds / self._workers, units)

    def _add_answer(self, source: Source, key: str, line: bytes, usage: Usage) -> None:
        self._claims.add(source, key, line, usage)
        self._forgettable.append(key)

    def _find_reply(self, source: Source, key: str) -> None:
        self._answer(source, self._state.journal and self._state.journal.read(key), None)

    def _add_reply(self, source: Source, key: str, reply: str) -> None:
        journal = self._state.journal
        if journal is not None:
            journal.write(key, reply)
        self._answer(source, None, None)
        if journal is not None:
            journal.require_room()

    def _fatal(self, source: Source, kind: str, message: str, trace: str) -> None:
        """Raise a worker's error, with the traceback if it is not one of Emend's errors."""
        error = rebuilt_error(kind, message)
        if trace:
            error.add_note(f"In a worker:\n{trace}")
        raise error

    def _bye(self, source: Source, cpu_seconds: float) -> None:
        self._members[source.worker].cpu_seconds = cpu_seconds

    def _lost(self, source: Source, reason: str) -> None:
        """Remove a lost worker; its tasks are distributed again, each alone."""
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
                    f"{self._failed_starts} workers in a row ended while loading the model and the "
                    f"data ({reason}): there may be too little memory. Give fewer --workers."
                )
        for number in sorted(member.tasks):
            self._deal_again(self._open[number], reason)

    def _deal_again(self, task: OpenTask, reason: str) -> None:
        """Distribute a task again, alone; after the second death its units fail."""
        task.deaths += 1
        if task.deaths < MAX_DEATHS:
            self._suspects.append(task)
            return
        del self._open[task.task.number]
        error = WorkerDied(
            f"{task.deaths} workers ended while they evaluated this ({reason}): there may be too "
            "little memory for it. Retry with fewer --workers: "
            f"{self._job.resume_command(self._state.context.folder)}"
        )
        for unit in self._missing_units(task):
            self._writer.failure(unit, error)

    def _missing_units(self, task: OpenTask) -> Iterator[WorkUnit]:
        finished = task.keys | task.task.finished
        return (unit for unit in self._job.units_of(task.task) if unit.key not in finished)

    def _replace_workers(self) -> None:
        """Start workers for empty positions, as long as there is work."""
        needed = min(self._workers, len(self._open) + len(self._ahead))
        positions = {member.position for member in self._members.values()}
        for position in sorted(set(range(needed)) - positions):
            number, self._started = self._started, self._started + 1
            self._members[number] = Member(position)
            self._transport.start(number, self._setups(position, number))

    def _deal(self) -> None:
        """Give each worker with free capacity its next tasks."""
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
        """Return how many tasks like this one a worker gets at a time: more than one, so that it
        never waits.
        """
        if task.takes == "worker":
            return 1
        share = -(-units_of_job_at_once(self._job) // self._workers)
        return 2 if task.takes == "turn" else 2 * share + 1


class DealtWorkers:
    """Workers that are reached through a transport.

    Args:
        name: name as in `--workers`.
        transport: to the workers.
        setups: returns a worker's setup for a run, by position and number.
        workers: how many there are at a time.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        setups: Callable[[RunState, int, int], WorkerSetup],
        workers: int,
    ) -> None:
        self.name, self._transport, self._setups, self._workers = name, transport, setups, workers
        self.cpu_seconds = 0.0

    def evaluate(self, state: RunState) -> None:
        """Run the driver in a separate thread, so that an interrupt in the main thread cannot cut a
        write in half.
        """
        driver = Driver(state, self._transport, lambda *at: self._setups(state, *at), self._workers)
        errors: list[BaseException] = []
        # wait for the event and not the thread: an interrupted join() considers the thread ended
        ended = threading.Event()

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
