"""Runs editors over a benchmark into a folder, and finishes what an interrupted run left undone."""

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.providers.journal import CallJournal, run_journal
from emend.editors.cost import highest_memory
from emend.editors.edit_check import EditCheck
from emend.editors.restore_check import RestoreCheck
from emend.evals.config.run_config import RunConfig
from emend.evals.log.folder import finished_units, owned_folder, repair_torn_tail
from emend.evals.log.lines import EVENTS, RECORDS
from emend.evals.log.manifest import now
from emend.evals.log.mirror import Mirror
from emend.evals.log.records import RunLog
from emend.evals.log.run_index import keep_index
from emend.evals.log.table_parts import is_large
from emend.evals.run.baseline import Baseline, BaselineFile
from emend.evals.run.evaluate import EvaluationContext
from emend.evals.run.resources import refuse_unused_limits
from emend.evals.run.results import Failures, Progress, ResultWriter, Summary, save_usage
from emend.evals.run.run_setup import RunSetup, load_setup
from emend.evals.run.side_effects import SideEffects, check_texts
from emend.evals.run.start import DRAFTS, check_folder, plan_progress, prepare_run
from emend.evals.run.workers.base import RunState, Workers
from emend.evals.run.workers.choose import make_workers
from emend.memory.errors import RunRefused


def run(
    config: RunConfig,
    out: Path,
    progress: Progress | None = None,
    model: BaseChatModel | None = None,
    mirror: str | None = None,
    baselines: Sequence[Path] = (),
) -> Summary:
    """Run, or finish, what the configuration says; the folder then holds every record.

    Args:
        config: what to run.
        out: the run folder; one that holds the same run already is resumed.
        progress: called for every unit.
        model: takes the place of the model that the configuration names; only for workers that are threads.
        mirror: address of object storage to which the files are uploaded meanwhile; a new folder goes on from there.
        baselines: folders of other runs, whose answers of the unedited model are not asked for again.

    Raises:
        RunRefused: the folder cannot be used, holds a different run, or is in use.
        TooManyFailures: more units failed than allowed; what is finished is kept.
        EmendError: a name, setting or file is wrong.
    """
    with owned_folder(out, drafts=DRAFTS), ExitStack() as stack:
        check_folder(config, out, mirror)
        setup = load_setup(config, out, model)
        stack.callback(setup.memory.close)
        calls_providers = setup.calls_providers
        if model is None:
            stack.callback(setup.policy.close)
            refuse_unused_limits(config, setup.policy)
        whole = finished_units(out)
        manifest = prepare_run(setup, out, whole[0])
        finished, repairs = repair_torn_tail(out, whole)
        log = _open_log(out, repairs, mirror, stack)
        answers = BaselineFile(log, baselines)
        journal = stack.enter_context(run_journal(out, finished.union(answers.keys))) if calls_providers else None
        writer = ResultWriter(log, progress or Progress(), Failures(setup.failure_limit))
        setup.policy.on_wait = writer.waiting
        try:
            state = _state(setup, writer, answers, finished, journal)
            workers = make_workers(setup, out, manifest.units - len(finished))
            plan_progress(writer.progress, setup, manifest, len(finished))
            summary = _evaluate(state, workers, manifest.units)
            writer.failures.check_at_end(out)
            _keep_index(out)
            return summary
        finally:
            save_usage(out, setup.policy.ledger)


def _keep_index(folder: Path) -> None:
    """Keep of a large run where its lines are, and the table of its steps; a report makes that of its records."""
    keep_index(folder)
    if is_large(folder / EVENTS):
        from emend.evals.log.run_table import keep_steps  # lazily: few runs are so large that DuckDB is needed

        keep_steps(folder)


def _open_log(out: Path, repairs: list[dict[str, Any]], mirror: str | None, stack: ExitStack) -> RunLog:
    log = stack.enter_context(RunLog(out))
    for repair in repairs:
        log.line(EVENTS, repair | {"at": now()})
    if mirror is not None:
        stack.enter_context(Mirror(mirror, out, log.sizes))
    return log


def _state(
    setup: RunSetup,
    writer: ResultWriter,
    answers: BaselineFile,
    finished: set[str],
    journal: CallJournal | None,
) -> RunState:
    texts = setup.perplexity_texts
    is_measured = check_texts(writer.log.folder, texts)
    context = EvaluationContext(
        setup=setup,
        baseline=Baseline(setup.editors.unedited(), answers, setup.model_fingerprint, journal),
        side_effects=SideEffects(setup.model, texts, setup.abilities, writer.cost, is_measured),
        edit_check=EditCheck(setup.model),
        restore_check=RestoreCheck(setup.model),
        results=writer,
        finished=finished,
        journal=journal,
    )
    return RunState(context, writer, answers, journal, is_measured)


def _evaluate(state: RunState, workers: Workers, units: int) -> Summary:
    """Evaluate all units, and summarise, also when an error ends the run."""
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
            with suppress(RunRefused):  # the error that a full disk gave is under way already
                line = {"act": "run"} | summary.model_dump(exclude={"folder"}) | {"at": now()}
                writer.cost(line | {"workers": workers.name, "record_bytes": writer.log.sizes()[RECORDS]})
    return summary


def _summary(state: RunState, units: int, seconds: float, cpu_seconds: float) -> Summary:
    totals, baseline, context = state.writer.totals, state.answers.usage, state.context
    return Summary(
        folder=str(state.writer.log.folder),
        units=units,
        skipped=len(context.finished),
        finished=totals["finished"],
        failed=state.writer.failures.count,
        records=totals["records"],
        unscored=totals["unscored"],
        input_tokens=totals["input_tokens"] + baseline.input_tokens,
        output_tokens=totals["output_tokens"] + baseline.output_tokens,
        calls=totals["calls"] + baseline.calls,
        baseline_calls=baseline.calls,
        seconds=round(seconds, 3),
        cpu_seconds=round(cpu_seconds, 3),
        peak_bytes=highest_memory(),
        spent=context.setup.policy.ledger.by_model(),
    )
