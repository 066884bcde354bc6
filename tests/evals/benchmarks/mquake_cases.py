"""MQuAKE's hand-made folder, and the cases that its loader makes of it."""

from pathlib import Path

from emend.evals.benchmarks.mquake.benchmark import MQuAKE

FIXTURE = Path(__file__).resolve().parents[2] / "data" / "mquake"


def cases_of(options=None, folder=FIXTURE, **more):
    """All cases of the one setting, or those that `more` asks for."""
    return list(MQuAKE(folder, options or {}).cases("triplet", **more))
