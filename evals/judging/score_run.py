"""Judging of a finished run: adds a scoring, without changing the records or other scorings."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emend.agents.providers.policy import CallPolicy
from emend.evals.jobs.progress import Progress
from emend.evals.jobs.runner import run_job
from emend.evals.judging.disputes import EquivalenceScorer
from emend.evals.judging.panel import Panel
from emend.evals.judging.scorings.job import JudgeJob
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.manifest import (
    CALLING,
    DRAFTS,
    FOLDER,
    JudgeCalling,
    Scoring,
)
from emend.evals.judging.scorings.start import PanelSetup, start_scoring
from emend.evals.log.folder import owned_folder
from emend.memory.edit import FrozenModel
from emend.memory.files import private_folder

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class ScoreSummary(FrozenModel):
    """Summary of a scoring: numbers of items by kind, earlier and new judgements, failed calls."""

    scoring: Scoring
    items: dict[str, int]
    before: int
    judged: int
    unscored: int
    """Number of new judgements without a value."""
    failed: int
    why: str = ""
    """Message of the first failure."""
    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0


def score_run(
    folder: Path,
    panel: Panel,
    kinds: Sequence[str] = (),
    *,
    models: "Mapping[str, BaseChatModel]",
    force: bool = False,
    calling: JudgeCalling = CALLING,
    policy: CallPolicy | None = None,
    scorer: EquivalenceScorer | None = None,
    progress: Progress | None = None,
) -> ScoreSummary:
    """Judge a run's records; a panel continues a scoring that it started before.

    Args:
        folder: a run folder.
        panel: models, repeats and orders of the judging.
        kinds: names of judges (`emend list judges`); by default the kinds of `DEFAULT_KINDS` for
            which the run has items.
        models: models by their names in the panel.
        force: allow a judge that is the model under test.
        calling: concurrency, limits and settings of the calls.
        policy: the models' call policy, which the caller closes.
        scorer: scorer that disputes acceptances which it finds impossible.
        progress: called for every call.

    Raises:
        BadSettings: an unknown judge, a judge that is the model under test, or nothing to judge.
        RunRefused: the folder cannot be written, or another process scores it.
        TooManyFailures: too many calls failed; existing judgements are kept.
    """
    panel_setup = PanelSetup(panel, models, calling, policy or CallPolicy(), scorer)
    with owned_folder(folder / FOLDER, links=False):
        setup = start_scoring(folder, panel_setup, kinds, force=force)
        return _judge(JudgeJob(setup), progress)


def _judge(job: JudgeJob, progress: Progress | None) -> ScoreSummary:
    """Run the job, and summarise its new judgements."""
    setup = job.setup
    folder = setup.scoring.folder(setup.run)
    if os.path.lexists(folder):
        # rejects a symbolic link, which would write to another folder
        private_folder(folder, links=False)
    before = len(job.judged)
    run_job(lambda _: job, folder, progress, drafts=DRAFTS)
    totals: Counter[str] = Counter()
    for judgement in read_judgements(setup.run, setup.scoring):
        if judgement.key not in job.judged:
            usage = judgement.usage
            totals.update(judged=1, unscored=int(bool(judgement.problem)), calls=usage.calls)
            totals.update(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    counts = ("judged", "unscored", "calls", "input_tokens", "output_tokens")
    return ScoreSummary(
        scoring=Scoring.read(folder),
        items={name: len(items) for name, items in setup.items.items()},
        before=before,
        failed=job.failed,
        why=job.first_failure,
        **{name: totals[name] for name in counts},
    )
