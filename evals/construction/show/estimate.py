"""Text of the expected time of a construction."""

from emend.evals.construction.estimate import BuildEstimate
from emend.evals.results.dry_run.duration import SECONDS_PER_CALL, SPREAD
from emend.evals.show.report.progress import duration


def time_of(estimate: BuildEstimate) -> str:
    """Return the expected time: a range if a local model takes part, at the speed that this machine
    has now; empty if it is unknown.
    """
    seconds = estimate.seconds
    if seconds is None:
        return ""
    if estimate.has_local_model:
        low, high = duration(seconds / SPREAD), duration(seconds * SPREAD)
        return f"{low} to {high} at the speed of this machine now"
    return f"{duration(seconds)} at {SECONDS_PER_CALL:g} s a call"
