"""Estimated time of a run, from calls of a provider or passes of a local model."""

from collections.abc import Sequence

from emend.editors.device_speed import device_speed
from emend.editors.edit_estimate import PASSES_PER_STEP, estimate_edit_tokens
from emend.editors.hyperparameters import folder_config
from emend.evals.config.limits import Limits
from emend.evals.config.plan import Plan
from emend.evals.config.run_config import RunConfig
from emend.evals.results.dry_run.estimate import EstimatedRow
from emend.evals.results.dry_run.local_model import editor_settings, model_folder

SECONDS_PER_CALL = 1.0
# Factor between an estimate and each end of the range shown before anything is measured.
SPREAD = 3.0
# Mean share of concurrent calls that generate text at a time: others score, and replies end at
# different times.
BUSY = 0.5


def provider_seconds(limits: Limits, plan: Plan, calls: int, tokens: int) -> float:
    """Return the seconds of a provider's calls, from call length and from limits per minute.

    The machines of a run in shares use one limit together.
    """
    share = plan.share
    shares = 1
    if share:
        shares = share.of
    minutes = []
    if limits.rpm:
        minutes.append(calls / limits.rpm)
    if limits.tpm:
        minutes.append(tokens / limits.tpm)
    waits = [count * 60 * shares for count in minutes]
    return max(calls * SECONDS_PER_CALL / plan.concurrency, *waits, 0)


def local_seconds(config: RunConfig, rows: Sequence[EstimatedRow], parameters: float) -> float:
    """Return the seconds of a local run: reading and writing of answers, and passes of editors."""
    speed, architecture, total = (
        device_speed(parameters),
        folder_config(model_folder(config.model)),
        0.0,
    )
    for row in rows:
        total += (row.input_tokens + row.perplexity_tokens) * speed.reading
        total += row.output_tokens * (
            speed.reading + speed.writing / _replies_at_once(config.concurrency, row)
        )
        if row.edits:
            settings = editor_settings(row.editor, config.overrides, architecture)
            total += (
                row.edits
                * PASSES_PER_STEP
                * estimate_edit_tokens(settings, row.edit_tokens / row.edits)
                * speed.reading
            )
    return total


def _replies_at_once(concurrency: int, row: EstimatedRow) -> float:
    """Return the mean number of replies generated in one pass.

    Under edited weights only replies of the same unit are generated together.
    """
    if row.edits:
        calls = row.calls / max(1, row.units)
    else:
        calls = row.calls
    return max(1.0, BUSY * min(concurrency, calls))
