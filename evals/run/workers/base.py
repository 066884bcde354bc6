"""The protocol of workers: the driver deals tasks and alone writes; a worker evaluates them and sends what it asks.

Messages are tuples. Of the driver: `(name, *values)`, see `Worker.handle`. Of a worker: `(name, request, *values)`,
see `Driver`; a message with a number of a request is answered. Messages of one worker arrive in order, each once.
"""

import threading
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import chain, count, islice
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from emend.agents.providers.journal import CallJournal
from emend.editors.base import BatchSolver
from emend.evals.case import Case
from emend.evals.config.run_config import RunConfig
from emend.evals.run.baseline import BaselineFile
from emend.evals.run.edit_groups import CHUNK
from emend.evals.run.evaluate import EvaluationContext
from emend.evals.run.results import ResultWriter
from emend.evals.run.run_setup import RunSetup
from emend.evals.run.units import EditorPass, Group, Unit, groups
from emend.memory import errors
from emend.memory.errors import CallDropped

WORKER_LOST = "lost"
"""Name of the last message of every worker, made by the transport, with the reason."""


class RunState(NamedTuple):
    """A run, as its driver has it: how units are evaluated, where results go, and what the run folder has."""

    context: EvaluationContext
    writer: ResultWriter
    answers: BaselineFile
    journal: CallJournal | None
    unedited_measured: bool
    """Whether the run folder has what was measured of the unedited model."""


class Workers(Protocol):
    """Evaluates all units of a run; `cpu_seconds` is the processor time of processes other than the driver's."""

    name: str
    """As in `--workers`."""
    cpu_seconds: float

    def evaluate(self, state: RunState) -> None:
        """Evaluate every unfinished unit and write its results.

        However it ends, nothing is evaluated any more when it returns.

        Raises:
            EmendError: an error that is not the fault of one unit.
        """
        ...


class WorkerSetup(NamedTuple):
    """How a worker is set up."""

    place: int
    """Number among the workers that are alive at a time, from 0."""
    config: RunConfig
    """Of the run, with the worker's share of `concurrency`."""
    passes: tuple[str, ...]
    """Content ids of the passes: a worker that loads something else is refused."""
    memory: str | None
    """Folder of its memory; None for a temporary one."""
    trusted: dict[str, bool]
    """The driver's `trusted_names`."""
    keeps_replies: bool
    """Whether the run has a journal of replies."""
    replays: bool
    """Whether replies of an earlier process may be in the journal."""
    unedited_measured: bool


class Transport(Protocol):
    """Starts workers by number and carries messages; `send` is safe for many threads."""

    def start(self, worker: int, setup: WorkerSetup) -> None:
        """Start a worker."""
        ...

    def send(self, worker: int, *message: Any) -> None:
        """Send a message; to a worker that is gone, do nothing."""
        ...

    def receive(self, seconds: float) -> list[tuple[int, tuple[Any, ...]]]:
        """Return messages with their worker, after so many seconds at the latest; the last of each is `WORKER_LOST`."""
        ...

    def close(self) -> None:
        """End all workers at once, and remove what they leave behind."""
        ...


class Task(NamedTuple):
    """Units of one pass for one worker: whole groups, or in modes `all` and `sequential` a part of the pass."""

    number: int
    pass_index: int
    cases: tuple[Case, ...] | None
    """Cases of whole groups; None for a part of the pass, whose cases the worker reads itself."""
    stride: tuple[int, int] = (0, 1)
    """Place of the first case, and distance to the next: (1, 4) has the second, the sixth and so on."""
    finished: frozenset[str] = frozenset()
    """Keys of its units that are finished, or have failed."""
    replays: bool = False
    """Whether a worker died over it, whose calls may be in the journal."""


def tasks_of(setup: RunSetup, finished: Collection[str], workers: int) -> Iterator[Task]:
    """Yield the tasks of all passes that have unfinished units.

    In modes `single` and `batch:N` a task is a group, or where edits are solved ahead of their groups all those that
    are solved together. In mode `all` each worker applies all edits, and asks its share of the units. In mode
    `sequential` a task is a whole pass.
    """
    numbers = count()
    for index, editor_pass in enumerate(setup.share_passes):
        if setup.is_finished(editor_pass):
            continue
        for task in _tasks_of_pass(setup, editor_pass, index, workers):
            if finished:
                keys = [unit.key for unit in units_of(task, setup)]
                task = task._replace(finished=frozenset(keys).intersection(finished))
                if len(task.finished) == len(keys):
                    continue
            yield task._replace(number=next(numbers))


def _tasks_of_pass(setup: RunSetup, editor_pass: EditorPass, index: int, workers: int) -> Iterator[Task]:
    mode = editor_pass.mode
    if mode.kind == "sequential":
        yield Task(0, index, None)
    elif mode.kind == "all":
        yield from (Task(0, index, None, (part, workers)) for part in range(workers))
    else:
        together = CHUNK if mode.kind == "single" and isinstance(editor_pass.editor, BatchSolver) else 1
        stream = setup.groups(editor_pass.setting)
        while portion := list(islice(stream, together)):
            yield Task(0, index, tuple(case for group in portion for case in group.cases()))


def groups_of(task: Task, setup: RunSetup) -> Iterator[Group]:
    """Yield the groups of a task; in mode `all` one with all edits and a share of the cases."""
    editor_pass = setup.share_passes[task.pass_index]
    if task.cases is not None:
        yield from groups(lambda: iter(task.cases or ()), editor_pass.mode)
        return
    for group in setup.groups(editor_pass.setting):
        yield group if task.stride == (0, 1) else group._replace(cases=partial(_every, group, *task.stride))


def _every(group: Group, first: int, step: int) -> Iterator[Case]:
    return islice(group.cases(), first, None, step)


def units_of(task: Task, setup: RunSetup) -> Iterator[Unit]:
    """Yield the units of a task."""
    editor_pass = setup.share_passes[task.pass_index]
    return chain.from_iterable(group.units(editor_pass) for group in groups_of(task, setup))


MAX_BATCH = 256


class Port:
    """Messages to the driver, which the transport takes from here; safe for many threads."""

    def __init__(self) -> None:
        self._outbox = SimpleQueue[tuple[Any, ...] | None]()
        self._numbers, self._lock = count(), threading.Lock()
        self._requests: dict[int, Future[Any]] = {}
        self._is_closed = False

    def send(self, name: str, *values: Any) -> None:
        """Send a message soon."""
        self._outbox.put((name, None, *values))

    def request(self, name: str, *values: Any) -> Any:
        """Send a message, and return the answer.

        Raises:
            EmendError: the driver answered with an error.
            CallDropped: the connection ended.
        """
        future = Future[Any]()
        with self._lock:
            if self._is_closed:
                raise _dropped()
            number = next(self._numbers)
            self._requests[number] = future
        self._outbox.put((name, number, *values))
        return future.result()

    def answer(self, request: int, value: Any, error: tuple[str, str] | None) -> None:
        """Pass an answer to the request that waits for it."""
        with self._lock:
            future = self._requests.pop(request, None)
        if future is None:
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(rebuilt_error(*error))

    def close(self) -> None:
        """End the messages; requests that still wait raise `CallDropped`."""
        with self._lock:
            self._is_closed = True
            waiting, self._requests = self._requests, {}
        for future in waiting.values():
            future.set_exception(_dropped())
        self._outbox.put(None)

    def take(self, seconds: float | None = None) -> list[tuple[Any, ...]] | None:
        """Wait for messages and return them; an empty list after so many seconds without one, None after the last."""
        batch: list[tuple[Any, ...]] = []
        with suppress(Empty):
            message = self._outbox.get(timeout=seconds)
            while message is not None:
                batch.append(message)
                if len(batch) == MAX_BATCH:
                    return batch
                message = self._outbox.get_nowait()
            if not batch:
                return None
            self._outbox.put(None)
        return batch


def _dropped() -> CallDropped:
    return CallDropped("the run is ending: this call was not made, and is made on resume.")


def rebuilt_error(kind: str, message: str) -> Exception:
    """Make an error of another process anew: of Emend's class of that name, else of a class that only has the name."""
    known = getattr(errors, kind, None)
    is_known = isinstance(known, type) and issubclass(known, errors.EmendError)
    make: Any = known if is_known else type(kind, (Exception,), {})
    error: Exception = make.__new__(make, message)  # constructors may take more than a message
    error.args = (message,)
    return error
