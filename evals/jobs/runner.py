"""Running of a job in a run folder, including resuming an interrupted run."""

import os
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from emend.agents.providers.journal import RunJournal, run_journal
from emend.evals.jobs.failures import Failures
from emend.evals.jobs.job import Job, JobContext
from emend.evals.jobs.progress import Progress
from emend.evals.jobs.results import ResultWriter, Summary, save_notes, save_usage
from emend.evals.jobs.shared_answers import AnswerFile
from emend.evals.jobs.workers.base import RunState, Workers
from emend.evals.jobs.workers.choose import make_workers
from emend.evals.log.folder import LOCK, finished_units, owned_folder, repair_torn_tail
from emend.evals.log.lines import EVENTS, RECORDS
from emend.evals.log.manifest import MANIFEST, Manifest, now
from emend.evals.log.records import RunLog
from emend.evals.log.run_index import keep_index
from emend.evals.log.table_parts import is_large
from emend.memory.errors import BudgetReached, RunRefused
from emend.memory.process_memory import highest_memory, rare_collections


class StartedJob(NamedTuple):
    """A job with its open folder, log and shared answers."""

    job: Job
    log: RunLog
    answers: AnswerFile
    finished: set[str]
    journal: RunJournal | None


def run_job(
    load: Callable[[Path], Job],
    out: Path,
    progress: Progress | None = None,
    check: Callable[[Path], None] | None = None,
    drafts: Collection[str] = (),
) -> Summary:
    """Run or resume a job, and write all its lines to the folder.

    Args:
        load: creates the job, after the folder is locked.
        out: the run folder; an existing run with the same configuration is resumed.
        progress: called for every unit.
        check: validates the folder before anything is loaded.
        drafts: files that the job writes before its manifest.

    Raises:
        RunRefused: the folder cannot be used, contains a different run, or is in use.
        TooManyFailures: more units failed than allowed; finished units are kept.
        EmendError: a name, setting or file is wrong.
    """
    with owned_folder(out, drafts=drafts), ExitStack() as stack:
        if check is not None:
            check(out)
        with rare_collections():  # imports and loaded parts stay, so that collections find nothing
            job = load(out)
        stack.callback(job.close)
        complete = finished_units(out)
        manifest = job.prepare(out, complete[0])
        finished, repairs = repair_torn_tail(out, complete)
        log = stack.enter_context(RunLog(out, job.resume_command(out)))
        for repair in repairs:
            log.line(EVENTS, repair | {"at": now()})
        answers = AnswerFile(log, job.shared_folders)
        journal = None
        if job.calls_providers:
            journal = stack.enter_context(run_journal(out, finished.union(answers.keys)))
            stack.enter_context(rare_collections())
        started = StartedJob(job, log, answers, finished, journal)
        try:
            return _run(started, manifest, progress or Progress())
        except BudgetReached as error:
            remedy = f"The run is in {out}. Continue with: {job.resume_command(out)}"
            raise BudgetReached(f"{error} {remedy}") from error
        finally:
            save_usage(out, job.policy.ledger, job.read_manifest)
            save_notes(out, job.notes)


def refuse_other_files(folder: Path, start_files: Collection[str]) -> None:
    """Check that a folder without a manifest has no files except those of a run killed while
    starting.

    Raises:
        RunRefused: the folder contains other files.
    """
    allowed = {LOCK, MANIFEST, *start_files}
    others = sorted(path.name for path in folder.iterdir() if path.name not in allowed)
    if others and not os.path.lexists(folder / MANIFEST):
        raise RunRefused(
            f"'{folder}' contains {len(others)} other files ({', '.join(others[:3])}), but no "
            "run: give a new or empty --out folder."
        )


def prepare_manifest(manifest: Manifest, folder: Path) -> Manifest:
    """Write the manifest of a new run, or return that of an existing run with the same
    configuration.

    Raises:
        RunRefused: the existing run was started with a different configuration.
    """
    if not os.path.lexists(folder / MANIFEST):
        manifest.write(folder)
        return manifest
    started = Manifest.read(folder)
    started.refuse_change(manifest.model_dump(mode="json"), folder)
    return started


def _run(started: StartedJob, manifest: Any, progress: Progress) -> Summary:
    """Start the job, evaluate its units, and close the folder's indexes."""
    job, finished = started.job, started.finished
    folder = started.log.folder
    failures = Failures(job.failure_limit, job.resume_command(folder))
    writer = ResultWriter(started.log, progress, failures)
    job.policy.on_wait = writer.waiting
    context = JobContext(folder, writer, started.answers, finished, started.journal)
    job.start(context)
    job.plan(progress, manifest, len(finished))
    state = RunState(job, context, writer, started.answers, started.journal)
    workers = make_workers(job, folder, manifest.units - len(finished))
    summary = _evaluate(state, workers, manifest.units)
    writer.failures.check_at_end()
    _keep_index(folder)
    return summary


def _keep_index(folder: Path) -> None:
    """Save the line index and the table of steps of a large run; a report creates the table of its
    lines.
    """
    keep_index(folder)
    if is_large(folder / EVENTS):
        from emend.evals.log.run_table import keep_steps  # lazily: few runs need DuckDB

        keep_steps(folder)


def _evaluate(state: RunState, workers: Workers, units: int) -> Summary:
    """Evaluate all units and summarise them, even if an error ends the run."""
    wall, cpu = time.perf_counter(), time.process_time()
    writer = state.writer
    writer.progress.start(units, skipped=min(len(state.context.finished), units))
    try:
        workers.evaluate(state)
    finally:
        writer.progress.close()
        cpu_seconds = time.process_time() - cpu + workers.cpu_seconds
        summary = _summary(state, units, time.perf_counter() - wall, cpu_seconds)
        if summary.finished or summary.failed:
            with suppress(RunRefused):  # the error of a full disk is already being raised
                line = {"act": "run"} | summary.model_dump(exclude={"folder"}) | {"at": now()}
                sizes = writer.log.sizes()
                writer.cost(line | {"workers": workers.name, "record_bytes": sizes[RECORDS]})
    return summary


def _summary(state: RunState, units: int, seconds: float, cpu_seconds: float) -> Summary:
    totals, shared = state.writer.totals, state.answers.usage
    skipped = len(state.context.finished)
    ended = skipped + totals["finished"] + state.writer.failures.count
    return Summary(
        folder=str(state.writer.log.folder),
        units=max(units, ended),  # the job may have found more units
        skipped=skipped,
        finished=totals["finished"],
        failed=state.writer.failures.count,
        records=totals["records"],
        unscored=totals["unscored"],
        input_tokens=totals["input_tokens"] + shared.input_tokens,
        output_tokens=totals["output_tokens"] + shared.output_tokens,
        calls=totals["calls"] + shared.calls,
        baseline_calls=shared.calls,
        seconds=round(seconds, 3),
        cpu_seconds=round(cpu_seconds, 3),
        peak_bytes=highest_memory(),
        spent=state.job.policy.ledger.by_model(),
    )
