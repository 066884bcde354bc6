"""The worker protocol: the driver distributes tasks and is the only writer; workers evaluate tasks
and send results and requests.

Messages are tuples. The driver sends `(name, *values)`, see `Worker.handle`. A worker sends `(name,
request, *values)`, see `Driver`; a message with a request number is answered. Messages of a worker
arrive in order and exactly once.
"""

import threading
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from emend.agents.providers.journal import RunJournal
from emend.evals.jobs.job import Job, JobContext, RemoteJob
from emend.evals.jobs.results import ResultWriter
from emend.evals.jobs.shared_answers import AnswerFile
from emend.memory import errors
from emend.memory.errors import CallDropped

# Name of the last message of every worker, created by the transport with the reason.
WORKER_LOST = "lost"


class RunState(NamedTuple):
    """A run's state in the driver: the job, its resources, the receiver of results, and the
    finished units.
    """

    job: Job
    context: JobContext
    writer: ResultWriter
    answers: AnswerFile
    journal: RunJournal | None


class Workers(Protocol):
    """Evaluator of all units of a run; `cpu_seconds` is the processor time of processes other than
    the driver.
    """

    name: str
    """As in `--workers`."""
    cpu_seconds: float

    def evaluate(self, state: RunState) -> None:
        """Evaluate every unfinished unit and write its results.

        When it returns, normally or with an error, no evaluation is running.

        Raises:
            EmendError: an error that does not concern a single unit.
        """
        ...


class WorkerSetup(NamedTuple):
    """The setup of a worker."""

    position: int
    """Number among the workers that are alive at a time, from 0."""
    job: RemoteJob
    """With the worker's part of the calls at a time."""
    folder: str | None
    """Where it keeps what it needs; None for a temporary folder."""
    trusted: dict[str, bool]
    """The driver's `trusted_names`."""
    keeps_replies: bool
    """True if the run has a journal of replies."""
    replays: bool
    """True if replies of an earlier process may be in the journal."""


class Transport(Protocol):
    """Starts workers by number and transports messages; `send` is thread-safe."""

    def start(self, worker: int, setup: WorkerSetup) -> None:
        """Start a worker."""
        ...

    def send(self, worker: int, *message: Any) -> None:
        """Send a message; ignored if the worker has ended."""
        ...

    def receive(self, seconds: float) -> list[tuple[int, tuple[Any, ...]]]:
        """Return messages with their worker, after at most this many seconds; the last message of
        each worker is `WORKER_LOST`.
        """
        ...

    def close(self) -> None:
        """End all workers immediately and remove their files."""
        ...


MAX_BATCH = 256


class Port:
    """The queue of messages to the driver, from which the transport reads; thread-safe."""

    def __init__(self) -> None:
        self._outbox = SimpleQueue[tuple[Any, ...] | None]()
        self._numbers, self._lock = count(), threading.Lock()
        self._requests: dict[int, Future[Any]] = {}
        self._is_closed = False

    def send(self, name: str, *values: Any) -> None:
        """Queue a message."""
        self._outbox.put((name, None, *values))

    def request(self, name: str, *values: Any) -> Any:
        """Send a message and wait for the answer.

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
        """Pass an answer to the waiting request."""
        with self._lock:
            future = self._requests.pop(request, None)
        if future is None:
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(rebuilt_error(*error))

    def close(self) -> None:
        """End the messages; waiting requests raise `CallDropped`."""
        with self._lock:
            self._is_closed = True
            waiting, self._requests = self._requests, {}
        for future in waiting.values():
            future.set_exception(_dropped())
        self._outbox.put(None)

    def take(self, seconds: float | None = None) -> list[tuple[Any, ...]] | None:
        """Wait for messages and return them; an empty list after a timeout, None after the last
        message.
        """
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
    return CallDropped("the run is ending: this call was not made; it will be made on resume.")


def rebuilt_error(kind: str, message: str) -> Exception:
    """Recreate an error of another process: of Emend's class of that name, or else of a new class
    with the name.
    """
    own_class = getattr(errors, kind, None)
    is_ours = isinstance(own_class, type) and issubclass(own_class, errors.EmendError)
    make: Any = own_class if is_ours else type(kind, (Exception,), {})
    error: Exception = make.__new__(make, message)  # constructors may require more than a message
    error.args = (message,)
    return error
