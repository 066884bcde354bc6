"""Part of a configuration about how a run is carried out."""

from typing import NamedTuple

from emend.evals.config.division import Share, WorkersSpec
from emend.evals.config.limits import FailureLimit
from emend.evals.config.mode import Checkpoints, Mode


class Plan(NamedTuple):
    """Mode, checkpoints, limits, workers, repeats and seed of a run.

    Attributes:
        mode: how many cases' edits are applied together; None for the benchmark's default.
        checkpoints: numbers of edits after which earlier cases are asked again.
        failure_limit: number of failed units above which the run ends.
        share: share of the run to evaluate; None for the whole run.
        workers: where units are evaluated.
        repeats: number of times that each editor evaluates a setting.
        concurrency: number of simultaneous calls, or of simultaneous units of a local model.
        seed: random seed for sampling cases and for generation.
    """

    mode: Mode | None
    checkpoints: Checkpoints
    failure_limit: FailureLimit
    share: Share | None
    workers: WorkersSpec
    repeats: int = 1
    concurrency: int = 4
    seed: int = 0
