"""Evaluation runs: start a run in a folder, or finish an interrupted one."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from langchain_core.language_models import BaseChatModel

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.job import EvaluationJob
from emend.evals.evaluate.prepare import DRAFTS, check_folder
from emend.evals.evaluate.setup.run_setup import load_setup
from emend.evals.jobs.limits import refuse_unused_limits
from emend.evals.jobs.progress import Progress
from emend.evals.jobs.results import Summary
from emend.evals.jobs.runner import run_job


def run(
    config: RunConfig,
    out: Path,
    progress: Progress | None = None,
    model: BaseChatModel | None = None,
    baselines: Sequence[Path] = (),
    require: Sequence[str] = (),
) -> Summary:
    """Start or resume the run of a configuration; afterwards the folder contains every record.

    Args:
        config: configuration of the run.
        out: the run folder; the same run in it is resumed.
        progress: called for every unit.
        model: replaces the configured model; only for workers that are threads.
        baselines: folders of other runs, whose answers of the unedited model are reused.
        require: thresholds, whose metric names are checked before the first call.

    Raises:
        RunRefused: the folder cannot be used, holds a different run, or is in use.
        TooManyFailures: more units failed than allowed; what is finished is kept.
        EmendError: a name, setting or file is wrong.
    """

    def load(folder: Path) -> EvaluationJob:
        setup = load_setup(config, folder, model, require)
        job = EvaluationJob(setup, baselines, closes_policy=model is None)
        try:
            # loads the editors, so that the policy knows their models too
            calls_providers = job.calls_providers
            if model is None and not calls_providers:
                refuse_unused_limits(config.limits, config.model, job.policy)
        except BaseException:
            job.close()
            raise
        return job

    return run_job(load, out, progress, partial(check_folder, config), DRAFTS)
