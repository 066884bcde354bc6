"""Loading of a scoring's job from its folder, to resume it."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from emend.evals.config.limits import Limits
from emend.evals.jobs.limits import refuse_other_options
from emend.evals.judging.scorings.job import JudgeJob
from emend.evals.judging.scorings.manifest import FOLDER, JOB, JudgeCalling, Scoring
from emend.evals.judging.scorings.start import PanelSetup, start_scoring
from emend.evals.log.folder import owned_folder
from emend.evals.metrics.equivalence.scorer import load_equivalence
from emend.memory.errors import BadData, RunRefused
from emend.memory.files import private_folder

# Options that may be changed when a scoring is resumed.
OPTIONS = frozenset({"concurrency", "fail_on_error", *Limits.model_fields})
# Limits that name files; they are never read from the manifest in a run folder.
FILES = ("prices", "cache")


def load_job(folder: Path, options: Mapping[str, Any]) -> JudgeJob:
    """Load the job of a scoring; no other process can judge the run until the job is closed.

    Args:
        folder: folder of the scoring, within the folder of the judged run.
        options: changed limits, number of calls at the same time or allowed failures.

    Raises:
        BadSettings: an option cannot be changed, or a model or judge of the scoring cannot be
            loaded.
        BadData: the folder is not a scoring of a run, or cannot be read.
        RunRefused: the judges have changed, or another process judges the run.
    """
    refuse_other_options(JOB, options, OPTIONS)
    path = Path(os.path.abspath(folder))
    run = path.parent.parent
    if path.parent.name != FOLDER:
        raise BadData(f"'{folder}' is not in the folder '{FOLDER}' of a run: put it back there.")
    private_folder(path, links=False)
    stored = Scoring.read(path)
    calling = resumed_calling(stored.calling, options)
    with ExitStack() as stack:
        policy = calling.limits.policy()
        stack.callback(policy.close)
        models = stored.panel.models(policy, calling.settings)
        scorer = load_equivalence().probability
        panel_setup = PanelSetup(stored.panel, models, calling, policy, scorer)
        stack.enter_context(owned_folder(path.parent, links=False))
        setup = start_scoring(run, panel_setup, stored.kinds, force=stored.forced)
        if setup.scoring.id != stored.id:
            raise RunRefused(
                f"scoring '{stored.id}' cannot continue: a model, its settings or a prompt has "
                f"changed. Start a new scoring with: emend judge run {run}"
            )
        return JudgeJob(setup, stack.pop_all())


def resumed_calling(stored: JudgeCalling, options: Mapping[str, Any]) -> JudgeCalling:
    """Return the call settings of a scoring resumed with these options.

    Raises:
        BadSettings: an option is out of range.
    """
    limits = stored.limits.model_dump(exclude={*FILES})
    limits |= {name: value for name, value in options.items() if name in Limits.model_fields}
    others = {name: value for name, value in options.items() if name not in Limits.model_fields}
    return JudgeCalling.model_validate(
        stored.model_dump() | others | {"limits": Limits.model_validate(limits)}
    )
