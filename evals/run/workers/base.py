"""The protocol of workers: the driver deals tasks and is the only one that writes; a worker evaluates and sends.

Messages are tuples. Of the driver: `(name, *values)`, see `Worker.handle`. Of a worker: `(name, request, *values)`, see
`Driver`; a message with a number of a request is answered. Messages of one worker arrive in order, each once.
"""

from typing import Any, NamedTuple, Protocol

from emend.agents.providers.journal import CallJournal
from emend.evals.case import Case
from emend.evals.config.run_config import RunConfig
from emend.evals.run.baseline import BaselineFile
from emend.evals.run.evaluate import EvaluationContext
from emend.evals.run.results import ResultWriter

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
