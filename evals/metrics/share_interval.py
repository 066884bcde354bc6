"""Wilson intervals over cases for shares near 0 and 1, where few cases vary and a bootstrap is too
narrow.
"""

import math

import numpy as np
from numpy.typing import NDArray

# Minimum number of cases away from 0 or 1 for which a bootstrap has about its nominal coverage.
FEW = 10.0
# Maximum number of effective successes or failures for which the adjacent end is that of Brown, Cai
# and DasGupta.
FEW_EVENTS = 3.0
ONE_SIDED = 0.05
_Z = 1.959963984540054

Floats = NDArray[np.float64]
Interval = tuple[float, float]


def wilson(successes: float, n: float) -> Interval:
    """The 95 % Wilson score interval of a proportion of `successes` in `n` > 0 observations (Wilson
    1927).
    """
    share, spread = successes / n, _Z**2 / n
    centre = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(max(0.0, share * (1 - share)) / n + spread / (4 * n))
    low = 0.0 if successes <= 0 else max(0.0, centre - half)
    high = 1.0 if successes >= n else min(1.0, centre + half)
    return low, high


def is_near_end(sums: Floats, counts: Floats) -> bool:
    """Return whether too few cases differ from 0, or from 1, for a bootstrap, or all have the same
    mean.

    Args:
        sums: sum of the values (shares from 0 to 1) of each case; shape (cases,).
        counts: number of values of each case; shape (cases,).
    """
    means = sums / counts
    return (
        min(_effective_number(means), _effective_number(1 - means)) < FEW
        or float(np.ptp(means)) == 0.0
    )


def share_interval(sums: Floats, counts: Floats) -> Interval:
    """Return the 95 % interval of a mean share near 0 or 1 over clustered values.

    This is Wilson's interval for the effective number of independent observations (Rao and Scott
    1992), no narrower than if no case, or every case, were right. Next to 0 and 1 the end is that
    of Brown, Cai and DasGupta (2001, section 4.1.1), since Wilson's is too close to the share
    there.

    Args:
        sums: as in `is_near_end`.
        counts: as in `is_near_end`.
    """
    cases, share = len(sums), float(sums.sum() / counts.sum())
    n = effective_size(sums, counts)
    low, high = wilson(share * n, n)
    successes, failures = share * n, (1 - share) * n
    if 0 < successes <= FEW_EVENTS:
        low = min(low, _poisson_limit(successes) / n)
    if 0 < failures <= FEW_EVENTS:
        high = max(high, 1 - _poisson_limit(failures) / n)
    return min(low, wilson(cases, cases)[0]), max(high, wilson(0, cases)[1])


def effective_size(sums: Floats, counts: Floats) -> float:
    """Return the effective number of independent observations of clustered values: their number
    over the design effect.

    The variance is that of a ratio of sums over cases (Rao and Scott 1992), with one additional
    all-right case and one additional all-wrong case, so that few events are not treated as
    independent. The result is the number of cases if each has a single value of 0 or 1, or equal
    ones, and never exceeds the number of such values.
    """
    cases, size = len(sums), float(counts.mean())
    all_sums, all_counts = np.append(sums, [size, 0.0]), np.append(counts, [size, size])
    share = float(all_sums.sum() / all_counts.sum())
    squares = float(((all_sums - share * all_counts) ** 2).sum())
    variance = (cases + 2) / (cases + 1) * squares / float(all_counts.sum()) ** 2
    n = share * (1 - share) / variance * cases / (cases + 1)
    is_whole = bool((sums == np.round(sums)).all())
    if is_whole:
        return min(n, float(counts.sum()))
    return n


def few_differ(gaps: Floats, counts: Floats) -> bool:
    """Return whether too few cases have a difference, or one below 1, for a bootstrap, or all have
    the same.

    Args:
        gaps: as in `difference_interval`.
        counts: as in `difference_interval`.
    """
    means = gaps / counts
    sizes = np.abs(means)
    return (
        min(_effective_number(sizes), _effective_number(1 - sizes)) < FEW
        or float(np.ptp(means)) == 0.0
    )


def _effective_number(distances: Floats) -> float:
    """Return the effective number of cases that contribute to a sum (Kish 1965)."""
    squares = float((distances**2).sum())
    if squares:
        return float(distances.sum()) ** 2 / squares
    return 0.0


def difference_interval(gaps: Floats, counts: Floats) -> Interval:
    """Return the 95 % interval of a mean difference of paired shares, if few cases differ or few do
    not.

    The shares of gains and of losses have separate intervals, whose distances are combined by
    square-and-add (Newcombe 1998).

    Args:
        gaps: difference of the sums of each case, at most its count in size; shape (cases,).
        counts: number of pairs of each case; shape (cases,).
    """
    total = counts.sum()
    gained, lost = np.maximum(gaps, 0.0), np.maximum(-gaps, 0.0)
    gained_low, gained_high = share_interval(gained, counts)
    lost_low, lost_high = share_interval(lost, counts)
    up, down = float(gained.sum() / total), float(lost.sum() / total)
    low = up - down - math.hypot(up - gained_low, lost_high - down)
    high = up - down + math.hypot(gained_high - up, down - lost_low)
    return max(-1.0, low), min(1.0, high)


def _poisson_limit(events: float) -> float:
    """Return the one-sided lower limit of a Poisson mean with `events` observed events."""
    from scipy.special import gammaincinv

    return float(gammaincinv(events, ONE_SIDED))
