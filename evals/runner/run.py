"""Runs editors over a benchmark into a folder, and finishes what an interrupted run left undone."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.providers.journal import run_journal
from emend.editors.cost import highest_memory
from emend.editors.restore_check import RestoreCheck
from emend.evals.log.baseline import read_baseline
from emend.evals.log.config import RunConfig
from emend.evals.log.lines import COSTS, EVENTS
from emend.evals.log.locking import owned_folder
from emend.evals.log.manifest import now
from emend.evals.log.mirror import Mirror
from emend.evals.log.records import RunLog, repair_torn_tail
from emend.evals.runner.baseline import Baseline
from emend.evals.runner.components import load_components, refuse_unused_limits
from emend.evals.runner.evaluate import EvaluationContext, PassEvaluator
from emend.evals.runner.failures import Failures
from emend.evals.runner.perplexity import Perplexity
from emend.evals.runner.results import Progress, ResultWriter
from emend.evals.runner.start import DRAFTS, check_folder, prepare_run
from emend.evals.runner.summary import Summary, save_usage
from emend.memory.errors import RunRefused


def run(
    config: RunConfig,
    out: Path,
    progress: Progress | None = None,
    model: BaseChatModel | None = None,
    mirror: str | None = None,
) -> Summary:
    """Run, or finish, what the configuration says; the folder then holds every record.

    Args:
        config: what to run.
        out: the run folder; one that holds the same run already is resumed.
        progress: called for every unit.
        model: takes the place of the model that the configuration names.
        mirror: address of object storage to which the files are uploaded meanwhile.

    Raises:
        RunRefused: the folder cannot be used, holds a different run, or is in use.
        TooManyFailures: more units failed than allowed; what is finished is kept.
        EmendError: a name, setting or file is wrong.
    """
    with owned_folder(out, drafts=DRAFTS), ExitStack() as stack:
        check_folder(config, out)
        components = load_components(config, out, model)
        stack.callback(components.memory.close)
        calls_providers = components.calls_providers
        if model is None:
            stack.callback(components.policy.close)
            refuse_unused_limits(config, components.policy)
        manifest = prepare_run(components, out)
        finished, repairs = repair_torn_tail(out)
        log = _open_log(out, repairs, mirror, stack)
        answered = {answer.key for _, answer in read_baseline(out)}
        journal = stack.enter_context(run_journal(out, finished.union(answered))) if calls_providers else None
        context = EvaluationContext(
            components=components,
            baseline=Baseline(components.unedited(), log, components.model_fingerprint, journal),
            perplexity=Perplexity(components.model, components.perplexity_texts, log),
            restore_check=RestoreCheck(components.model),
            results=ResultWriter(log, progress or Progress(), Failures(components.failure_limit)),
            finished=finished,
            journal=journal,
        )
        components.policy.on_wait = context.results.waiting
        try:
            summary = _evaluate_passes(context, manifest.units)
            context.results.failures.check_at_end(out)
            return summary
        finally:
            save_usage(out, components.policy.ledger)


def _open_log(out: Path, repairs: list[dict[str, Any]], mirror: str | None, stack: ExitStack) -> RunLog:
    log = stack.enter_context(RunLog(out))
    for repair in repairs:
        log.line(EVENTS, repair | {"at": now()})
    if mirror is not None:
        stack.enter_context(Mirror(mirror, out, log.sizes))
    return log


def _evaluate_passes(context: EvaluationContext, units: int) -> Summary:
    """Evaluate pass after pass, and summarise, also when an error ends the run."""
    wall, cpu = time.perf_counter(), time.process_time()
    components, results = context.components, context.results
    results.progress.start(units, skipped=min(len(context.finished), units))
    pool = ThreadPoolExecutor(components.units_at_once, "emend-unit")
    try:
        for editor_pass in components.share_passes:
            PassEvaluator(editor_pass, context, pool).evaluate()
    finally:
        context.stop.set()
        with components.policy.ending():
            pool.shutdown(wait=True, cancel_futures=True)
        results.progress.close()
        summary = _summary(context, units, time.perf_counter() - wall, time.process_time() - cpu)
        if summary.finished or summary.failed:
            with suppress(RunRefused):  # the error that a full disk gave is under way already
                results.log.line(COSTS, {"act": "run"} | summary.model_dump(exclude={"folder"}) | {"at": now()})
    return summary


def _summary(context: EvaluationContext, units: int, seconds: float, cpu_seconds: float) -> Summary:
    totals, baseline = context.results.totals, context.baseline.usage
    return Summary(
        folder=str(context.results.log.folder),
        units=units,
        skipped=len(context.finished),
        finished=totals["finished"],
        failed=context.results.failures.count,
        records=totals["records"],
        unscored=totals["unscored"],
        input_tokens=totals["input_tokens"] + baseline.input_tokens,
        output_tokens=totals["output_tokens"] + baseline.output_tokens,
        calls=totals["calls"] + baseline.calls,
        baseline_calls=baseline.calls,
        seconds=round(seconds, 3),
        cpu_seconds=round(cpu_seconds, 3),
        peak_bytes=highest_memory(),
        spent=context.components.policy.ledger.by_model(),
    )
