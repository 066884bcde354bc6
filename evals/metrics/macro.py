"""The mean over groups that count alike, however many records each has: ReCoE's average over its schemes."""

import math
from collections.abc import Sequence

from emend.evals.metrics.estimate import Estimate


def macro(groups: Sequence[Estimate]) -> Estimate:
    """The mean of the groups' means, with the interval that follows from theirs.

    The groups are independent samples, so the interval's ends lie as far from the mean as the root of the summed
    squares of the groups' own distances, over their number (Zou and Donner 2008, method of variance estimates
    recovery). A group in which nothing is scored is left out of the mean; its unscored records are counted.
    """
    scored = [group for group in groups if group.mean is not None]
    means = [group.mean for group in scored if group.mean is not None]
    unscored = sum(group.unscored for group in groups)
    if not means:
        return Estimate(mean=None, n=0, unscored=unscored)
    mean, n = math.fsum(means) / len(means), sum(group.n for group in scored)
    ends = [
        (own - group.low, group.high - own)
        for own, group in zip(means, scored, strict=True)
        if group.low is not None and group.high is not None
    ]
    if len(ends) < len(means):  # a group of one case says nothing of its own uncertainty
        return Estimate(mean=mean, n=n, unscored=unscored)
    below, above = (math.hypot(*side) / len(means) for side in zip(*ends, strict=True))
    return Estimate(mean=mean, n=n, unscored=unscored, low=mean - below, high=mean + above)
