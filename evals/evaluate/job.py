"""Evaluation of edits as a job: passes of editors over cases, in this or other processes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from emend.agents.providers.policy import CallPolicy
from emend.editors.edit_check import EditCheck
from emend.editors.restore_check import RestoreCheck
from emend.evals.config.division import WorkersSpec
from emend.evals.config.limits import FailureLimit
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.baseline import Baseline
from emend.evals.evaluate.evaluate import EvaluationContext, PassEvaluator
from emend.evals.evaluate.prepare import prepare_run
from emend.evals.evaluate.setup.run_setup import RunSetup, load_setup
from emend.evals.evaluate.side_effects import SideEffects, check_texts
from emend.evals.evaluate.tasks import PassPortion, groups_of, tasks_of, units_of
from emend.evals.evaluate.work_plan import plan_progress
from emend.evals.jobs.job import Job, JobContext, Task
from emend.evals.jobs.progress import Progress
from emend.evals.jobs.queues import TaskQueue
from emend.evals.jobs.results import WorkUnit
from emend.evals.log.lines import PERPLEXITY_BEFORE
from emend.evals.log.manifest import Manifest
from emend.memory.embeddings.embed import embedding_notes
from emend.memory.errors import RunRefused


class EvaluationJob(Job):
    """Evaluation of edits, whose units are cases under a pass.

    Args:
        setup: set-up of the run.
        shared_folders: folders of other runs, whose answers of the unedited model are reused.
        closes_policy: whether this job closes the connections to providers.
        unedited_measured: whether the unedited model's side effects are already measured; None to
            look in the folder.
    """

    name: ClassVar[str] = "evaluate"

    def __init__(
        self,
        setup: RunSetup,
        shared_folders: Sequence[Path] = (),
        closes_policy: bool = True,
        unedited_measured: bool | None = None,
    ) -> None:
        self.setup, self.shared_folders = setup, shared_folders
        self.policy: CallPolicy = setup.policy
        self.failure_limit: FailureLimit = setup.failure_limit
        self.concurrency = setup.concurrency
        self.workers: WorkersSpec = setup.workers
        self.objects: Sequence[str] = setup.objects
        self._closes_policy, self._unedited_measured = closes_policy, unedited_measured
        self._context: EvaluationContext | None = None

    @property
    def calls_providers(self) -> bool:
        """True if the model under test, or one that an editor loaded, is behind an API."""
        return self.setup.calls_providers

    @property
    def edits_weights(self) -> bool:
        """True if one of the editors changes weights."""
        return self.setup.edits_weights

    @property
    def notes(self) -> Sequence[str]:
        """Notes of the memory's encoder on its texts."""
        return embedding_notes(self.setup.encoder)

    def prepare(self, folder: Path, finished: Collection[str]) -> Manifest:
        """Write the manifest and cases of a new run, or compare them; see `prepare_run`."""
        return prepare_run(self.setup, folder, finished)

    def start(self, context: JobContext) -> None:
        """Create the state that all passes share, such as baseline answers."""
        setup = self.setup
        texts = setup.perplexity_texts
        if self._unedited_measured is None:
            self._unedited_measured = check_texts(context.folder, texts)
        self._context = EvaluationContext(
            setup=setup,
            baseline=Baseline(
                setup.editors.unedited(), context.answers, setup.model_fingerprint, context.journal
            ),
            side_effects=SideEffects(
                setup.model, texts, setup.abilities, context.results.cost, self._unedited_measured
            ),
            edit_check=EditCheck(setup.model),
            restore_check=RestoreCheck(setup.model),
            results=context.results,
            finished=context.finished,
            journal=context.journal,
            stop=context.stop,
        )

    def plan(self, progress: Progress, manifest: Manifest, finished: int) -> None:
        """Plan the progress with the remaining units of each editor."""
        plan_progress(progress, self.setup, manifest, finished)

    def evaluate(self, context: JobContext, pool: ThreadPoolExecutor) -> None:
        """Evaluate the passes one after the other."""
        for editor_pass in self.setup.share_passes:
            if not self.setup.is_finished(editor_pass):
                PassEvaluator(editor_pass, self._with_results(context), pool).evaluate()

    def tasks(self, finished: Collection[str], workers: int) -> Iterator[Task]:
        """Yield tasks of whole groups or parts of passes; see `tasks_of`."""
        return tasks_of(self.setup, finished, workers)

    def units_of(self, task: Task) -> Iterator[WorkUnit]:
        """Yield the units of a task."""
        portion: PassPortion = task.content
        editor_pass = self.setup.share_passes[portion.pass_index]
        return (editor_pass.work_unit(unit) for unit in units_of(portion, self.setup))

    def evaluate_task(self, task: Task, context: JobContext, pool: ThreadPoolExecutor) -> None:
        """Evaluate the groups of a task; a task for one thread runs in the current thread."""
        portion: PassPortion = task.content
        editor_pass = self.setup.share_passes[portion.pass_index]
        evaluator = PassEvaluator(editor_pass, self._with_results(context), pool)
        if task.takes == "thread":
            for group in groups_of(portion, self.setup):
                evaluator.evaluate_group(group, TaskQueue())
        elif self.setup.mode.kind == "sequential":
            evaluator.evaluate()
        else:
            evaluator.evaluate(groups_of(portion, self.setup))

    def _with_results(self, context: JobContext) -> EvaluationContext:
        if self._context is None:
            raise RuntimeError("the job has not been started")
        return replace(self._context, results=context.results)

    def counts_once(self, line: Mapping[str, Any]) -> str:
        """Return the act of a line of which only the first counts; empty for other lines."""
        return PERPLEXITY_BEFORE if line["act"] == PERPLEXITY_BEFORE else ""

    def remote(self, concurrency: int) -> "RemoteEvaluation":
        """Return the configuration from which a worker loads the same job."""
        return RemoteEvaluation(
            config=self.setup.config.model_copy(update={"concurrency": concurrency}),
            passes=tuple(editor_pass.content_id for editor_pass in self.setup.passes),
            unedited_measured=bool(self._unedited_measured),
        )

    def close(self) -> None:
        """Close the connections to providers, and the memory."""
        try:
            if self._closes_policy:
                self.policy.close()
        finally:
            self.setup.memory.close()


class RemoteEvaluation(NamedTuple):
    """The evaluation as sent to a worker.

    `passes` holds the content ids of the driver's passes, to detect a worker that loads something
    else.
    """

    config: RunConfig
    passes: tuple[str, ...]
    unedited_measured: bool

    def load(self, folder: Path) -> EvaluationJob:
        """Load the configured evaluation, with a memory in the folder.

        Raises:
            RunRefused: the worker loads something other than the driver.
        """
        setup = load_setup(self.config, folder)
        job = EvaluationJob(setup, unedited_measured=self.unedited_measured)
        if tuple(editor_pass.content_id for editor_pass in setup.passes) != self.passes:
            job.close()
            raise RunRefused(
                "a worker loads another model, other editors or other settings than the driver: "
                "give both the same files and the same versions of all packages."
            )
        return job
