"""MQuAKE's hand-made folder, and the cases that its loader makes of it."""

from emend.evals.benchmarks.mquake.benchmark import MQuAKE
from tests.paths import DATA

FIXTURE = DATA / "mquake"


def cases_of(options=None, folder=FIXTURE, **more):
    """All cases of the one setting, or those that `more` asks for."""
    return list(MQuAKE(folder, options or {}).cases("triplet", **more))
