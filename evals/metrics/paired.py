"""The difference of two systems on the same probes: its interval and its test, with whole cases as the unit of chance.

Probes of one case are not independent, so both the bootstrap and the permutations move cases, never single probes.
"""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.metrics.estimate import (
    EXTREMES,
    RESAMPLES,
    Estimate,
    case_positions,
    case_weights,
    chunk_sizes,
    decided,
    percentile_interval,
    wilson,
)
from emend.memory.edit import FrozenModel

FLIPS = 9999
EXACT = 13
"""Number of differing cases up to which every pattern of signs is tried, so that the p value is exact."""
MCNEMAR, SIGN_FLIP = "McNemar", "sign flip"

Floats = NDArray[np.float64]


class Paired(FrozenModel):
    """The means of both systems over the pairs, second less first, with the 95 % interval and the test's p value.

    `difference` is None when nothing was paired; `low`, `high` and `p` are None when fewer than two cases were. `n`
    counts pairs, `unscored` those in which one side or both have no value. Where a case counts by the best or the worst
    of its probes, a pair is a case in one repeat, without a value where a missing one could change it.
    """

    mean_a: float | None = None
    mean_b: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    test: str = ""
    n: int = 0
    cases: int = 0
    unscored: int = 0


class Pair(NamedTuple):
    """Both systems' values of one probe in one repeat; None is unscored."""

    case: Hashable
    kind: str
    a: float | None
    b: float | None
    repeat: int = 0


def compare_pairs(
    pairs: Sequence[Pair],
    per: str = "record",
    seed: int = 0,
    resamples: int = RESAMPLES,
    flips: int = FLIPS,
    share: bool = True,
) -> Paired:
    """The difference of the means over the pairs.

    Cases are drawn with replacement for the interval (percentile bootstrap). The test is McNemar's exact one where
    values are 0 or 1 and every case has one of them; else a sign-flip permutation test over cases, as under the null
    hypothesis the two sides of a case are exchangeable.

    Args:
        pairs: one per probe.
        per: how records make up the mean: `record`, `case`, `any`, `all`, `kind` or `harmonic`, as in `Metric.per`.
        seed: random seed of the resampling.
        resamples: bootstrap samples.
        flips: number of sign patterns to draw where there are too many to try all.
        share: True if values are shares, which have an interval even where all are equal.
    """
    scored, unscored, per = _scored(pairs, per)
    if not scored:
        return Paired(unscored=unscored)
    table = _table(scored, per)
    a, b = (_metric_value(sums.sum(axis=1), table.counts.sum(axis=1), per) for sums in (table.a, table.b))
    result = Paired(mean_a=a, mean_b=b, difference=b - a, n=len(scored), cases=table.counts.shape[1], unscored=unscored)
    if result.cases < 2:
        return result
    low, high = _interval(table, per, seed, resamples, share)
    p, test = _test(table, per, seed, flips)
    return result.model_copy(update={"low": low, "high": high, "p": p, "test": test})


def _scored(pairs: Sequence[Pair], per: str) -> tuple[list[tuple[Pair, float, float]], int, str]:
    """Return the pairs with both values, the number of the others, and how they make up the mean."""
    if per in EXTREMES:
        pairs, per = _by_attempt(pairs, per), "record"
    scored = [(pair, pair.a, pair.b) for pair in pairs if pair.a is not None and pair.b is not None]
    return scored, len(pairs) - len(scored), per


def _by_attempt(pairs: Sequence[Pair], per: str) -> list[Pair]:
    """One pair for each case in each repeat: the best, or the worst, of its probes on either side."""
    a, b = (
        decided((((pair.case, pair.repeat), value) for pair, value in zip(pairs, side, strict=True)), per)
        for side in ([pair.a for pair in pairs], [pair.b for pair in pairs])
    )
    attempts = dict.fromkeys((pair.case, pair.repeat) for pair in pairs)
    return [Pair(case, "", a[case, repeat], b[case, repeat], repeat) for case, repeat in attempts]


class PairTable:
    """Sums of both systems and counts, by kind (rows) and case (columns); each of shape (kinds, cases)."""

    def __init__(self, kinds: int, cases: int) -> None:
        self.a, self.b, self.counts = (np.zeros((kinds, cases)) for _ in range(3))


def _table(scored: Sequence[tuple[Pair, float, float]], per: str) -> PairTable:
    """The table of a metric: one row, or one per kind where the metric is made of the kinds' means."""
    apart = per in ("kind", "harmonic")
    kinds = {kind: at for at, kind in enumerate(dict.fromkeys(pair.kind if apart else "" for pair, _, _ in scored))}
    places = case_positions(pair.case for pair, _, _ in scored)
    table = PairTable(len(kinds), len(places))
    for pair, a, b in scored:
        at = kinds[pair.kind if apart else ""], places[pair.case]
        table.a[at] += a
        table.b[at] += b
        table.counts[at] += 1
    if per in ("case", "harmonic"):
        observed = table.counts > 0
        for sums in (table.a, table.b):
            np.divide(sums, table.counts, out=sums, where=observed)
        table.counts = observed.astype(np.float64)
    return table


def _metric_value(sums: Floats, counts: Floats, per: str) -> float:
    return float(_metric_values(sums[:, None], counts[:, None], per)[0])


def _metric_values(sums: Floats, counts: Floats, per: str) -> Floats:
    """Metric of each column of sums and counts by kind; shape (columns,). A kind without a value is left out."""
    observed = counts > 0
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=observed)
    if per != "harmonic":
        return np.asarray(means.sum(axis=0) / np.maximum(observed.sum(axis=0), 1))
    positive = observed.all(axis=0) & (means > 0).all(axis=0)
    inverse = np.divide(1.0, means, out=np.zeros_like(means), where=means > 0)
    return np.where(positive, len(means) / np.maximum(inverse.sum(axis=0), 1e-300), 0.0)


def _interval(table: PairTable, per: str, seed: int, resamples: int, share: bool) -> tuple[float | None, float | None]:
    """Percentile interval of the difference, by bootstrap over cases."""
    if len(table.counts) == 1:
        gaps = ((table.b - table.a) / table.counts)[0]
        if np.ptp(gaps) == 0:
            return _unvaried(table, float(gaps[0])) if share else (None, None)
    parts = []
    for drawn in case_weights(seed, table.counts.shape[1], resamples):
        weights = drawn.T.astype(np.float64)
        counts = table.counts @ weights
        parts.append(_metric_values(table.b @ weights, counts, per) - _metric_values(table.a @ weights, counts, per))
    draws = np.concatenate(parts)
    if len(table.counts) > 1 and np.ptp(draws) < 1e-12:
        return _unvaried(table, float(draws[0])) if share else (None, None)
    return percentile_interval(draws)


def _unvaried(table: PairTable, gap: float) -> tuple[float | None, float | None]:
    """Interval where all cases have the same difference, for which a bootstrap would claim certainty.

    Its half width is the share of differing cases that Wilson's interval allows for n of n; where one side is always
    right and the other never, both may differ, and Newcombe's square-and-add is taken (1998). None where values are no
    shares.
    """
    if any(bool((sums < 0).any() or (sums > table.counts).any()) for sums in (table.a, table.b)):
        return None, None
    cases = table.counts.shape[1]
    share = 1 - wilson(cases, cases)[0]
    half = share if gap == 0 else math.hypot(share, share)
    return max(-1.0, gap - half), min(1.0, gap + half)


def _test(table: PairTable, per: str, seed: int, flips: int) -> tuple[float, str]:
    once = table.counts.shape[0] == 1 and bool((table.counts == 1).all())
    if once and bool(np.isin(np.stack([table.a, table.b]), (0.0, 1.0)).all()):
        return mcnemar(int((table.a > table.b).sum()), int((table.b > table.a).sum())), MCNEMAR
    return _flipped(table, per, seed, flips), SIGN_FLIP


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p value of McNemar's test (1947) from the numbers of pairs in which only one side is right."""
    from scipy.stats import binomtest

    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def _flipped(table: PairTable, per: str, seed: int, flips: int) -> float:
    """Share of sign patterns over cases whose difference is at least as far from 0 as the observed one."""
    gaps = table.b - table.a
    differ = (gaps != 0).any(axis=0)
    if not differ.any():
        return 1.0
    gaps, counts = gaps[:, differ], table.counts.sum(axis=1)[:, None]
    sums_a, sums_b = table.a.sum(axis=1)[:, None], table.b.sum(axis=1)[:, None]

    def difference(exchanged: Floats) -> Floats:
        moved = gaps @ exchanged  # (kinds, patterns): what passes from b to a where sides are exchanged
        return _metric_values(sums_b - moved, counts, per) - _metric_values(sums_a + moved, counts, per)

    size = gaps.shape[1]
    limit = abs(float(difference(np.zeros((size, 1)))[0])) * (1 - 1e-9) - 1e-12
    if size <= EXACT:
        every = (np.arange(2**size)[None, :] >> np.arange(size)[:, None] & 1).astype(np.float64)
        return float((np.abs(difference(every)) >= limit).mean())
    rng = np.random.default_rng(seed)
    drawn = (rng.integers(0, 2, size=(size, rows), dtype=np.int8) for rows in chunk_sizes(flips, size))
    extreme = sum(int((np.abs(difference(signs.astype(np.float64))) >= limit).sum()) for signs in drawn)
    return (extreme + 1) / (flips + 1)


def relative_drop(
    pairs: Sequence[Pair],
    per: str = "record",
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """The share of the first mean that is lost in the second, 1 - second / first, with a bootstrap over cases.

    None where the first mean is 0, so that nothing can be lost. `n` counts pairs in which both have a value. The
    interval is left out where nothing varies, and where a draw may have a first mean of 0.

    Args:
        pairs: `a` is the value under the first condition, `b` that under the second.
        per: as in `compare_pairs`.
        seed: random seed of the resampling.
        resamples: bootstrap samples.
    """
    scored, unscored, per = _scored(pairs, per)
    if not scored:
        return Estimate(mean=None, n=0, unscored=unscored)
    table = _table(scored, per)
    first, second = table.a.sum(), table.b.sum()
    if not first:
        return Estimate(mean=None, n=0, unscored=unscored + len(scored))
    result = Estimate(mean=1 - float(second / first), n=len(scored), unscored=unscored)
    size = table.counts.shape[1]
    draws = [(weights @ table.a[0], weights @ table.b[0]) for weights in case_weights(seed, size, resamples)]
    firsts, seconds = (np.concatenate(side) for side in zip(*draws, strict=True))
    if size < 2 or not firsts.all() or np.ptp(seconds / firsts) == 0:
        return result
    low, high = percentile_interval(1 - seconds / firsts)
    return result.model_copy(update={"low": low, "high": high})
