"""Job that asks memory systems the questions of a stream.

A unit is a place in a pass: its questions, with the turns before them.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.evals.config.division import WorkersSpec
from emend.evals.evaluate.ask_unit import is_cut_off
from emend.evals.jobs.job import JobContext, Lane, Task, UnitJob
from emend.evals.jobs.limits import refuse_other_options
from emend.evals.jobs.line import count_lines
from emend.evals.jobs.progress import Progress, UnitShares
from emend.evals.jobs.queues import TaskQueue
from emend.evals.jobs.results import Summary, UnitResult, WorkUnit
from emend.evals.jobs.runner import prepare_manifest, refuse_other_files, run_job
from emend.evals.jobs.workers.choose import MEMORY
from emend.evals.log.lines import CASES, TURNS, event_of
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import json_line, replace
from emend.evals.metrics.expected_answers import UNKNOWN
from emend.evals.streams.run.answers import AnsweredQuestion
from emend.evals.streams.run.line import JOB, AnswerLine, StreamLine, TurnsLine
from emend.evals.streams.run.manifest import read_stream_config, stream_manifest
from emend.evals.streams.run.passes import PassSession, pass_labels
from emend.evals.streams.run.setup import StreamPass, StreamSetup, load_stream_setup
from emend.evals.streams.run.source import StreamPlace
from emend.evals.streams.stream_config import StreamConfig
from emend.memory.errors import RunRefused

# Files that a run may have written before it is refused at the start.
DRAFTS = frozenset({MEMORY, CASES})


def run_stream(
    file: str | Path,
    config: StreamConfig,
    folder: Path,
    progress: Progress | None = None,
    model: BaseChatModel | None = None,
) -> Summary:
    """Run memory systems over a stream, or finish the run in the folder.

    Args:
        file: file of the stream.
        config: the systems, the model and further settings.
        folder: run folder.
        progress: called for every place.
        model: replaces the configured model; only for workers that are threads.

    Raises:
        RunRefused: the folder cannot be used, holds something else, or is in use.
        TooManyFailures: more places failed than allowed; finished places are kept.
        EmendError: a name, setting or file is wrong.
    """

    def load(folder: Path) -> StreamJob:
        setup = load_stream_setup(str(file), config, folder, model)
        return StreamJob(setup, closes_policy=model is None)

    return run_job(load, folder, progress, drafts=DRAFTS)


def load_job(folder: Path, options: Mapping[str, Any]) -> "StreamJob":
    """Load the job of a stream's run folder.

    Args:
        folder: run folder.
        options: changed limits, concurrency, allowed failures or workers.

    Raises:
        RunRefused: an earlier version wrote the folder.
        EmendError: the manifest cannot be read, an option is not accepted, or something that the
            run names cannot be loaded.
    """
    refuse_other_options(JOB, options, StreamConfig.model_fields.keys())
    manifest = Manifest.read(folder)
    if manifest.job != JOB:
        file = manifest.config.benchmark_options.get("file", "FILE")
        raise RunRefused(
            "the folder is from an earlier version, which can be read but not continued: start a "
            f"new run with emend stream run {file}."
        )
    started = read_stream_config(manifest.config.resumed(options))
    return StreamJob(load_stream_setup(started.file, started.config, folder))


class StreamJob(UnitJob):
    """Job that takes one system after the other over the stream, since recall is timed.

    Args:
        setup: set-up of the run.
        closes_policy: whether this job closes the connections to providers.
    """

    name: ClassVar[str] = JOB

    def __init__(self, setup: StreamSetup, closes_policy: bool = True) -> None:
        self.setup = setup
        self.policy = setup.policy
        plan = setup.run_config.plan
        self.failure_limit = plan.failure_limit
        self.concurrency = plan.concurrency
        self.workers: WorkersSpec = plan.workers
        self.objects = setup.objects
        self._closes_policy = closes_policy
        self._context: JobContext | None = None

    def prepare(self, folder: Path, finished: Collection[str]) -> Manifest:
        """Write the manifest and the list of places of a new run, or check those in the folder.

        Raises:
            RunRefused: the folder holds another run, or other files.
        """
        refuse_other_files(folder, DRAFTS)
        if not os.path.lexists(folder / CASES):
            lines = map(_place_line, count(1), self.setup.source.places)
            replace(folder / CASES, b"".join(lines))
        return prepare_manifest(stream_manifest(self.setup), folder)

    def start(self, context: JobContext) -> None:
        """Store the context of the engine."""
        self._context = context

    def lanes(self) -> Iterator[Lane]:
        """Return a lane for each pass, whose places are evaluated in order."""
        return map(self._lane, self.setup.passes)

    def _lane(self, stream_pass: StreamPass) -> Lane:
        labels = pass_labels(stream_pass) | {"model": self.setup.config.model}
        units = [
            WorkUnit(
                self.setup.unit_key(stream_pass, place.id),
                stream_pass.system,
                {"case": place.id, "probe": "", **labels},
                place,
            )
            for place in self.setup.source.places
        ]
        return Lane(units, stream_pass)

    def evaluate(self, context: JobContext, pool: ThreadPoolExecutor) -> None:
        """Evaluate one pass at a time in a pool thread, so that interrupts wait for its call."""
        queue = TaskQueue(pool, 1)
        for lane in self.lanes():
            queue.put(partial(self.evaluate_lane, lane, context))
            queue.drain()

    @contextmanager
    def session(self, lane: Lane, context: JobContext) -> Iterator[PassSession]:
        """Open the system of a pass, and delete its journal of calls if all places succeed."""
        with PassSession.open(self.setup, lane.content, context) as session:
            yield session
            if session.failures == 0 and not context.stop.is_set():
                session.forget_calls()

    def pass_over(self, unit: WorkUnit, session: PassSession) -> None:
        """Observe the turns of a place whose questions are already answered."""
        session.observe_again(unit.content)

    def evaluate_unit(
        self, unit: WorkUnit, session: PassSession, context: JobContext
    ) -> UnitResult:
        """Observe the turns of a place, and ask its questions."""
        place: StreamPlace = unit.content
        with session.counting_failures():
            observation = session.observe(place)
            report = partial(context.results.probes, unit.row)
            with UnitShares(report, len(place.questions)) as shares:
                outcome = session.ask(place, shares.add)
        first = place.questions[0]
        head = dict(unit.labels) | {
            "unit": unit.key,
            "of": 1 + len(place.questions),
            "stream": first.stream,
            "place": first.place,
        }
        turns = TurnsLine(
            **head,
            kind=TURNS,
            path=(),
            usage=observation.usage,
            seconds=observation.seconds,
            cpu_seconds=observation.cpu_seconds,
            turns=tuple(turn.id for turn in place.turns),
            store=outcome.store,
        )
        # answers last: a unit's final line in the tables must be an answer
        answers = [self._answer_line(head, answered) for answered in outcome.answers]
        lines: list[StreamLine] = [turns, *answers]
        events = [event for answered in outcome.answers for event in _events(head, answered)]
        return UnitResult(lines, events, count_lines(answers))

    def _answer_line(self, head: Mapping[str, Any], answered: AnsweredQuestion) -> AnswerLine:
        question, answer = answered.question, answered.answer
        labels = {name: value for name, value in head.items() if name != "probe"}
        return AnswerLine(
            **labels,
            probe=question.id,
            kind=question.kind,
            values=answered.scores.values,
            unscored=answered.scores.unscored,
            path=tuple(step.node for step in answer.steps),
            usage=answer.usage,
            seconds=round(answered.seconds, 6),
            user=question.user,
            date=question.date,
            prompt=question.prompt,
            gold=(UNKNOWN,) if question.abstains else question.gold,
            rubric=question.rubric,
            criterion=question.criterion,
            abstains=question.abstains,
            wrong=question.wrong,
            evidence=question.evidence,
            hops=question.hops,
            age=question.age,
            answer=answer.text,
            passage=answer.passage,
            reply=answer.reply,
            retrieved=answer.retrieved,
            form=self.setup.reader.form,
            is_cut_off=is_cut_off(answer),
            no_answer=answered.no_answer,
            cut_tokens=answer.cut_tokens,
            tags=dict(question.tags),
        )

    def tasks(self, finished: Collection[str], workers: int) -> Iterator[Task]:
        """Yield a task for each pass with unfinished places; a task takes a whole worker."""
        for number, lane in enumerate(self.lanes()):
            keys = frozenset(unit.key for unit in lane.units)
            complete = keys.intersection(finished)
            if len(complete) < len(keys):
                yield Task(number, number, stage=number, takes="worker", finished=complete)

    def units_of(self, task: Task) -> Iterator[WorkUnit]:
        """Yield the places of a task's pass."""
        return iter(self._lane(self.setup.passes[task.content]).units)

    def evaluate_task(self, task: Task, context: JobContext, pool: ThreadPoolExecutor) -> None:
        """Evaluate the pass of a task."""
        self.evaluate_lane(self._lane(self.setup.passes[task.content]), context)

    def remote(self, concurrency: int) -> "RemoteStream":
        """Return a picklable job description, from which a worker loads the same job."""
        config = self.setup.config.model_copy(update={"concurrency": concurrency})
        return RemoteStream(self.setup.run_config.benchmark_options["file"], config, self._passes)

    @property
    def _passes(self) -> tuple[str, ...]:
        return tuple(map(self.setup.pass_id, self.setup.passes))

    def close(self) -> None:
        """Close the connections to providers, and the memory."""
        try:
            if self._closes_policy:
                self.policy.close()
        finally:
            self.setup.memory.close()


class RemoteStream(NamedTuple):
    """Description of the job for a worker.

    `passes` are the driver's pass ids, by which a worker checks that it has loaded the same job.
    """

    file: str
    config: StreamConfig
    passes: tuple[str, ...]

    def load(self, folder: Path) -> StreamJob:
        """Load the job, with stores in the folder.

        Raises:
            RunRefused: the job differs from the driver's.
        """
        job = StreamJob(load_stream_setup(self.file, self.config, folder))
        if job._passes != self.passes:
            job.close()
            raise RunRefused(
                "a worker loads another model, other systems or other settings than the driver: "
                "give both the same files and the same versions of all packages."
            )
        return job


def _events(head: Mapping[str, Any], answered: AnsweredQuestion) -> Iterator[dict[str, Any]]:
    names = ("unit", "case", "editor")
    labels = {name: head[name] for name in names} | {"probe": answered.question.id}
    return (labels | event_of(step) for step in answered.answer.steps)


def _place_line(number: int, place: StreamPlace) -> bytes:
    """Return the line of a place for the list of cases, with the texts of its turns."""
    turns = [{"id": turn.id, "form": "document", "text": turn.text} for turn in place.turns]
    return json_line(
        {"number": number, "setting": TURNS, "case": place.id, "tags": {}, "edits": turns}
    )
