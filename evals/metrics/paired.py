"""Paired comparison of two systems on the same probes: the difference with interval and test,
resampling whole cases.

Probes of one case are not independent, so both the bootstrap and the permutations resample cases,
never single probes.
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
)
from emend.evals.metrics.share_interval import difference_interval, few_differ, wilson
from emend.memory.edit import FrozenModel

FLIPS = 9999
# Maximum number of differing cases for which all sign patterns are enumerated, so that the p value
# is exact.
EXACT = 13
MCNEMAR, SIGN_FLIP = "McNemar", "sign flip"

Floats = NDArray[np.float64]


class Paired(FrozenModel):
    """The means of both systems over the pairs, and their difference (second minus first) with 95 %
    interval and p value.

    `difference` is None if there are no pairs; `low`, `high` and `p` are None for fewer than two
    cases. `n` counts pairs, `unscored` those without a value on one or both sides. For metrics per
    best or worst probe of a case, a pair is a case in one repeat, unscored if a missing value could
    change it.
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
    """The values of both systems for one probe in one repeat; None is unscored."""

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
    """Compute the difference of the means over the pairs.

    The interval is a percentile bootstrap over cases. The test is McNemar's exact test if values
    are 0 or 1 and every case has one pair; otherwise a sign-flip permutation test over cases, since
    the two sides of a case are exchangeable under the null hypothesis.

    Args:
        pairs: one per probe.
        per: how records make up the mean: `record`, `case`, `any`, `all`, `case_kinds`, `kind` or
            `harmonic`, as in `Metric.per`.
        seed: random seed of the resampling.
        resamples: bootstrap samples.
        flips: number of sampled sign patterns if there are too many to enumerate.
        share: True if values are shares, which have an interval even if all are equal.
    """
    scored, unscored, per = _scored(pairs, per)
    if not scored:
        return Paired(unscored=unscored)
    table = _table(scored, per)
    a, b = (
        _metric_value(sums.sum(axis=1), table.counts.sum(axis=1), per)
        for sums in (table.a, table.b)
    )
    result = Paired(
        mean_a=a,
        mean_b=b,
        difference=b - a,
        n=len(scored),
        cases=table.counts.shape[1],
        unscored=unscored,
    )
    if result.cases < 2:
        return result
    low, high = _interval(table, per, seed, resamples, share)
    p, test = _test(table, per, seed, flips)
    return result.model_copy(update={"low": low, "high": high, "p": p, "test": test})


def _scored(pairs: Sequence[Pair], per: str) -> tuple[list[tuple[Pair, float, float]], int, str]:
    """Return the pairs with both values, the number of other pairs, and how the mean is
    computed.
    """
    if per in EXTREMES:
        pairs, per = _by_attempt(pairs, per), "record"
    scored = [(pair, pair.a, pair.b) for pair in pairs if pair.a is not None and pair.b is not None]
    return scored, len(pairs) - len(scored), per


def _by_attempt(pairs: Sequence[Pair], per: str) -> list[Pair]:
    """Return one pair per case and repeat: the best or worst value of its probes on each side."""
    a = decided((((pair.case, pair.repeat), pair.a) for pair in pairs), per)
    b = decided((((pair.case, pair.repeat), pair.b) for pair in pairs), per)
    attempts = dict.fromkeys((pair.case, pair.repeat) for pair in pairs)
    return [Pair(case, "", a[case, repeat], b[case, repeat], repeat) for case, repeat in attempts]


class PairTable:
    """Sums of both systems and counts, by kind (rows) and case (columns); each of shape (kinds,
    cases).
    """

    def __init__(self, kinds: int, cases: int) -> None:
        self.a, self.b, self.counts = (np.zeros((kinds, cases)) for _ in range(3))


def _table(scored: Sequence[tuple[Pair, float, float]], per: str) -> PairTable:
    """Build the table of a metric: one row, or one per kind if the metric combines the kinds'
    means.
    """
    has_kinds = per in ("case_kinds", "kind", "harmonic")
    names = [pair.kind if has_kinds else "" for pair, _, _ in scored]
    rows = {name: row for row, name in enumerate(dict.fromkeys(names))}
    columns = case_positions(pair.case for pair, _, _ in scored)
    table = PairTable(len(rows), len(columns))
    for name, (pair, a, b) in zip(names, scored, strict=True):
        at = rows[name], columns[pair.case]
        table.a[at] += a
        table.b[at] += b
        table.counts[at] += 1
    if per in ("case", "case_kinds", "harmonic"):
        observed = table.counts > 0
        for sums in (table.a, table.b):
            np.divide(sums, table.counts, out=sums, where=observed)
        table.counts = observed.astype(np.float64)
    if per == "case_kinds":
        kinds = table.counts.sum(axis=0, keepdims=True)
        table.a, table.b = (sums.sum(axis=0, keepdims=True) / kinds for sums in (table.a, table.b))
        table.counts = np.ones_like(kinds)
    return table


def _metric_value(sums: Floats, counts: Floats, per: str) -> float:
    return float(_metric_values(sums[:, None], counts[:, None], per)[0])


def _metric_values(sums: Floats, counts: Floats, per: str) -> Floats:
    """Return the metric of each column of sums and counts by kind, shape (columns,). Kinds without
    a value are omitted.
    """
    observed = counts > 0
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=observed)
    if per != "harmonic":
        return np.asarray(means.sum(axis=0) / np.maximum(observed.sum(axis=0), 1))
    positive = observed.all(axis=0) & (means > 0).all(axis=0)
    inverse = np.divide(1.0, means, out=np.zeros_like(means), where=means > 0)
    return np.where(positive, len(means) / np.maximum(inverse.sum(axis=0), 1e-300), 0.0)


def _interval(
    table: PairTable, per: str, seed: int, resamples: int, share: bool
) -> tuple[float | None, float | None]:
    """Return the percentile bootstrap interval of the difference over cases; for shares with few
    differing cases, Newcombe's.
    """
    if len(table.counts) == 1:
        gaps, counts = (table.b - table.a)[0], table.counts[0]
        if share and _has_shares(table) and few_differ(gaps, counts):
            return difference_interval(gaps, counts)
        if np.ptp(gaps / counts) == 0:
            return None, None
    parts = []
    for drawn in case_weights(seed, table.counts.shape[1], resamples):
        weights = drawn.T.astype(np.float64)
        counts = table.counts @ weights
        parts.append(
            _metric_values(table.b @ weights, counts, per)
            - _metric_values(table.a @ weights, counts, per)
        )
    draws = np.concatenate(parts)
    if len(table.counts) > 1 and np.ptp(draws) < 1e-12:
        if share:
            return _unvaried(table, float(draws[0]))
        return (None, None)
    return percentile_interval(draws)


def _has_shares(table: PairTable) -> bool:
    """Return whether every value may be a share, from 0 to 1."""
    return all(
        bool((sums >= 0).all() and (sums <= table.counts).all()) for sums in (table.a, table.b)
    )


def _unvaried(table: PairTable, gap: float) -> tuple[float | None, float | None]:
    """Return the interval if all cases have the same difference, for which a bootstrap interval has
    width 0.

    The half width is the share of differing cases that Wilson's interval allows for n of n. If one
    side is always right and the other never, both may vary, and Newcombe's square-and-add (1998) is
    used. None if values are not shares.
    """
    if not _has_shares(table):
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
    """Return the exact two-sided p value of McNemar's test (1947) from the numbers of pairs in
    which only one side is right.
    """
    from scipy.special import bdtr  # not scipy.stats, which takes as long to import as a report

    return min(1.0, 2 * float(bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def _flipped(table: PairTable, per: str, seed: int, flips: int) -> float:
    """Return the share of sign patterns over cases whose difference is at least as extreme as the
    observed one.
    """
    gaps = table.b - table.a
    differ = (gaps != 0).any(axis=0)
    if not differ.any():
        return 1.0
    gaps, counts = gaps[:, differ], table.counts.sum(axis=1)[:, None]
    sums_a, sums_b = table.a.sum(axis=1)[:, None], table.b.sum(axis=1)[:, None]

    def difference(exchanged: Floats) -> Floats:
        # shape (kinds, patterns): the sum moved from b to a by exchanging sides
        moved = gaps @ exchanged
        return _metric_values(sums_b - moved, counts, per) - _metric_values(
            sums_a + moved, counts, per
        )

    size = gaps.shape[1]
    limit = abs(float(difference(np.zeros((size, 1)))[0])) * (1 - 1e-9) - 1e-12
    if size <= EXACT:
        every = (np.arange(2**size)[None, :] >> np.arange(size)[:, None] & 1).astype(np.float64)
        return float((np.abs(difference(every)) >= limit).mean())
    rng = np.random.default_rng(seed)
    drawn = (
        rng.integers(0, 2, size=(size, rows), dtype=np.int8) for rows in chunk_sizes(flips, size)
    )
    extreme = sum(
        int((np.abs(difference(signs.astype(np.float64))) >= limit).sum()) for signs in drawn
    )
    return (extreme + 1) / (flips + 1)


def relative_drop(pairs: Sequence[Pair], per: str = "record") -> Estimate:
    """Return the relative drop from the first mean to the second, 1 - second / first, with a
    bootstrap over cases.

    It is None if the first mean is 0. `n` counts pairs with both values. There is no interval if
    nothing varies, or if a sample may have a first mean of 0.

    Args:
        pairs: `a` is the value under the first condition, `b` that under the second.
        per: as in `compare_pairs`.
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
    draws = [
        (weights @ table.a[0], weights @ table.b[0]) for weights in case_weights(0, size, RESAMPLES)
    ]
    firsts, seconds = (np.concatenate(side) for side in zip(*draws, strict=True))
    if size < 2 or not firsts.all() or np.ptp(seconds / firsts) == 0:
        return result
    low, high = percentile_interval(1 - seconds / firsts)
    return result.model_copy(update={"low": low, "high": high})
