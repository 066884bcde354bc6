"""Confidence intervals of a mean over a few conversations with many questions each.

A bootstrap interval over five conversations is too narrow, and an interval for five binary values
is far too wide: the mean of a hundred questions varies less than a single question.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from emend.evals.metrics.estimate import LEVEL, Estimate

# Minimum mean number of values per conversation at which its mean is taken as normally distributed.
LARGE = 10


def interval_of_large(
    values: Sequence[float], owners: Sequence[Hashable]
) -> tuple[float, float] | None:
    """Return Student's interval of a ratio of sums over clusters, by linearisation (Cochran 1977,
    section 6.3).

    Args:
        values: one per question.
        owners: cluster of each value, same length.

    Returns:
        Lower and upper end; None if there are fewer than two clusters, if they are small, or if all
        have the same mean.
    """
    from scipy.stats import t  # imported lazily because it is slow

    names = list(dict.fromkeys(owners))
    if len(names) < 2 or len(values) < LARGE * len(names):
        return None
    positions = {name: position for position, name in enumerate(names)}
    clusters = np.array([positions[owner] for owner in owners])
    counts = np.bincount(clusters).astype(np.float64)
    sums = np.bincount(clusters, weights=np.array(values, np.float64))
    if float(np.ptp(sums / counts)) == 0.0:
        return None
    mean = float(sums.sum() / counts.sum())
    residuals = sums - mean * counts
    variance = len(names) / (len(names) - 1) * float((residuals**2).sum())
    half = float(t.ppf((1 + LEVEL) / 2, len(names) - 1)) * variance**0.5 / float(counts.sum())
    return mean - half, mean + half


def with_interval(
    figure: Estimate, values: Sequence[float | None], owners: Sequence[Hashable]
) -> Estimate:
    """Return the estimate of a proportion, with Student's interval if its clusters are large."""
    numbers = [value for value in values if value is not None]
    ends = interval_of_large(numbers, owners) if len(numbers) == len(values) else None
    if ends is None:
        return figure
    return figure.model_copy(update={"low": max(0.0, ends[0]), "high": min(1.0, ends[1])})
