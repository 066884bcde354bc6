"""The job interface: work that the engine evaluates unit by unit, independent of its content."""

import shlex
import threading
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from emend.agents.providers.journal import ReplyStore, unit_scope
from emend.agents.providers.policy import CallPolicy
from emend.evals.config.division import WorkersSpec
from emend.evals.config.limits import FailureLimit
from emend.evals.jobs.failures import FATAL, Stopped
from emend.evals.jobs.progress import Progress
from emend.evals.jobs.queues import TaskQueue, units_at_once
from emend.evals.jobs.results import PaidManifest, Results, UnitResult, WorkUnit
from emend.evals.jobs.shared_answers import AnswerStore
from emend.evals.log.manifest import Manifest


class RunManifest(Protocol):
    """The part of a run's manifest that the engine reads."""

    @property
    def units(self) -> int:
        """Number of units."""
        ...


@dataclass(frozen=True)
class JobContext:
    """Resources that the engine gives to a job, once per process."""

    folder: Path
    results: Results
    answers: AnswerStore
    """Answers that units share."""
    finished: set[str]
    """Keys of the units that earlier processes finished."""
    journal: ReplyStore | None = None
    """Replies of unfinished units; None where nobody is paid for them."""
    stop: threading.Event = field(default_factory=threading.Event)


class Task(NamedTuple):
    """A set of units for one worker, and the share of the worker that they use."""

    number: int
    content: Any
    """The job's own; it can be pickled."""
    stage: int = 0
    """A worker ends its tasks of one stage before it begins those of another."""
    takes: Literal["worker", "turn", "thread"] = "thread"
    """A whole worker, which waits for the next task meanwhile; its turn on one, with the next task
    ready; or one of its threads."""
    finished: frozenset[str] = frozenset()
    """Keys of its units that are finished, or have failed."""
    replays: bool = False
    """True if a worker died over it, whose calls may be in the journal."""


class RemoteJob(Protocol):
    """A picklable job for another process."""

    def load(self, folder: Path) -> "Job":
        """Load the job, with a folder for its files.

        Raises:
            RunRefused: the loaded job differs from the driver's.
        """
        ...


class Job(Protocol):
    """The interface of a job; `UnitJob` has default implementations."""

    name: ClassVar[str]
    policy: CallPolicy
    """How providers are called; local models do not need it."""
    failure_limit: FailureLimit
    concurrency: int
    """Calls, or units of local models, at the same time."""
    workers: WorkersSpec
    objects: Sequence[str]
    """Names of components that exist in this process alone."""
    shared_folders: Sequence[Path]
    """Folders of other runs, whose shared answers are used."""

    @property
    def calls_providers(self) -> bool:
        """True if a model is behind an API, so that replies are journaled."""
        ...

    @property
    def edits_weights(self) -> bool:
        """True if units change a model that other units share."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Notes about the results, known at the end and shown in the report."""
        return ()

    def prepare(self, folder: Path, finished: Collection[str]) -> RunManifest:
        """Write the manifest of a new run, or compare it with the existing one, and return it.

        Raises:
            RunRefused: the existing run was started with a different configuration.
        """
        ...

    def read_manifest(self, folder: Path) -> PaidManifest:
        """Read the run's manifest, to add its costs."""
        return Manifest.read(folder)

    def resume_command(self, folder: Path) -> str:
        """Return the command that resumes the run and retries failed units."""
        return f"emend resume {shlex.quote(str(folder))}"

    def next_command(self, folder: Path) -> str:
        """Return the command that shows the finished run."""
        return f"emend report {shlex.quote(str(folder))}"

    def start(self, context: JobContext) -> None:
        """Receive the engine's resources before the first unit."""
        ...

    def plan(self, progress: Progress, manifest: Any, finished: int) -> None:
        """Report the remaining work to the progress."""
        ...

    def evaluate(self, context: JobContext, pool: ThreadPoolExecutor) -> None:
        """Evaluate every unfinished unit in threads of this process.

        Raises:
            EmendError: an error of a class in `FATAL`; any other error makes a failed unit.
        """
        ...

    def tasks(self, finished: Collection[str], workers: int) -> Iterator[Task]:
        """Yield the tasks with unfinished units, for this number of workers in other processes."""
        ...

    def units_of(self, task: Task) -> Iterator[WorkUnit]:
        """Yield the units of a task."""
        ...

    def evaluate_task(self, task: Task, context: JobContext, pool: ThreadPoolExecutor) -> None:
        """Evaluate the unfinished units of a task; see `evaluate`."""
        ...

    def counts_once(self, line: Mapping[str, Any]) -> str:
        """Return an id under which a line of costs is written only once for all workers; "" for no
        restriction.
        """
        ...

    def remote(self, concurrency: int) -> RemoteJob:
        """Return the job for a worker in another process, with its share of concurrent calls."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


def units_of_job_at_once(job: Job) -> int:
    """Return the number of units of a job that run at the same time."""
    return units_at_once(job.concurrency, job.calls_providers)


class Lane(NamedTuple):
    """Units that are evaluated in order in one thread; lanes run in parallel."""

    units: Iterable[WorkUnit]
    content: Any = None
    """The job's own."""


class UnitJob(Job):
    """Base of jobs that run in threads and whose units are independent, or ordered within lanes.

    A subclass sets `name`, `policy`, `failure_limit` and `concurrency`, and has `prepare`, `lanes`
    and `evaluate_unit`.
    """

    workers: WorkersSpec = WorkersSpec("threads")
    objects: Sequence[str] = ("this kind of run",)
    shared_folders: Sequence[Path] = ()
    edits_weights = False

    @property
    def calls_providers(self) -> bool:
        """True if a model loaded with the policy is behind an API."""
        return bool(self.policy.models)

    @abstractmethod
    def lanes(self) -> Iterator[Lane]:
        """Yield the lanes of the run; a finished lane is not kept in memory."""

    @abstractmethod
    def evaluate_unit(self, unit: WorkUnit, session: Any, context: JobContext) -> UnitResult:
        """Evaluate a unit; a raised error is written to `errors.jsonl`, and the unit is retried on
        resume.

        Args:
            unit: the unit to evaluate.
            session: of its lane.
            context: of the run.
        """

    def session(self, lane: Lane, context: JobContext) -> AbstractContextManager[Any]:
        """Open the session that the units of a lane share in turn; empty by default.

        Args:
            lane: the lane with its units.
            context: of the run.
        """
        return nullcontext()

    def pass_over(self, unit: WorkUnit, session: Any) -> None:
        """Process an already finished unit that precedes an unfinished one in its lane."""

    def start(self, context: JobContext) -> None:
        """Do nothing."""

    def plan(self, progress: Progress, manifest: Any, finished: int) -> None:
        """Report only the number of remaining units."""

    def evaluate(self, context: JobContext, pool: ThreadPoolExecutor) -> None:
        """Evaluate the lanes, in parallel up to the limit of concurrent units."""
        self.evaluate_lanes(self.lanes(), context, pool)

    def evaluate_lanes(
        self, lanes: Iterable[Lane], context: JobContext, pool: ThreadPoolExecutor
    ) -> None:
        """Evaluate these lanes and wait for them."""
        queue = TaskQueue(pool, 2 * units_of_job_at_once(self))
        for lane in lanes:
            queue.put(partial(self.evaluate_lane, lane, context))
        queue.drain()

    def evaluate_lane(self, lane: Lane, context: JobContext) -> None:
        """Evaluate the unfinished units of a lane, in order.

        Raises:
            EmendError: an error of a class in `FATAL`; any other error makes a failed unit.
        """
        units = list(lane.units)
        pending = [number for number, unit in enumerate(units) if unit.key not in context.finished]
        if not pending or context.stop.is_set():
            return
        with self.session(lane, context) as session:
            for unit in units[: pending[-1] + 1]:
                if context.stop.is_set():
                    return
                if unit.key in context.finished:
                    self.pass_over(unit, session)
                else:
                    self._evaluate_and_write(unit, session, context)

    def _evaluate_and_write(self, unit: WorkUnit, session: Any, context: JobContext) -> None:
        try:
            with unit_scope(context.journal, unit.key):
                result = self.evaluate_unit(unit, session, context)
                context.results.unit(unit, result)
        except FATAL:
            raise
        except Exception as error:
            if context.stop.is_set():
                raise Stopped from error
            context.results.failure(unit, error)

    def tasks(self, finished: Collection[str], workers: int) -> Iterator[Task]:
        """Yield nothing: the units stay in this process."""
        return iter(())

    def units_of(self, task: Task) -> Iterator[WorkUnit]:
        """Yield nothing, since there are no tasks."""
        return iter(())

    def evaluate_task(self, task: Task, context: JobContext, pool: ThreadPoolExecutor) -> None:
        """Do nothing, since there are no tasks."""

    def counts_once(self, line: Mapping[str, Any]) -> str:
        """Return "": all lines are written."""
        return ""

    def remote(self, concurrency: int) -> RemoteJob:
        """Raise an error: `objects` says that the units stay in this process."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections to providers."""
        self.policy.close()
