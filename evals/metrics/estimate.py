"""Means with 95 % intervals over cases, since probes of one case are not independent.

Intervals are by bootstrap, and near 0 and 1 by `share_interval`;
`scripts/benchmarks/interval_coverage.py` measures their coverage.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from emend.evals.metrics.share_interval import (
    difference_interval,
    few_differ,
    is_near_end,
    share_interval,
)
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

LEVEL = 0.95
RESAMPLES = 2000
Group = TypeVar("Group", bound=Hashable)
EXTREMES: dict[str, Callable[[float, float], float]] = {"any": max, "all": min}
DRAWN_AT_ONCE = 100_000  # sampled case indices held at once, few enough for a processor's cache
# Number of sampled case indices cached for the next metric with as many cases; 64 MB.
MAX_KEPT_DRAWS = 2**24

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Ends = tuple[float | None, float | None]


class Estimate(FrozenModel):
    """A mean over `n` scored records with its 95 % interval, and the number of unscored records.

    `mean` is None if nothing was scored; `low` and `high` are None if fewer than two cases were.
    """

    mean: float | None
    n: int
    unscored: int = 0
    low: float | None = None
    high: float | None = None

    def scaled(self, factor: float) -> "Estimate":
        """Return the estimate in other units, e.g. factor 100 for percent."""
        changed = {
            name: None if value is None else value * factor
            for name, value in (("mean", self.mean), ("low", self.low), ("high", self.high))
        }
        return self.model_copy(update=changed)


def ends_text(low: float | None, high: float | None, form: str) -> str:
    """Return an interval in a number format, after a space; empty without an interval.

    >>> ends_text(0.25, 0.5, ".2f"), ends_text(None, None, ".2f")
    (' [0.25, 0.50]', '')
    """
    if low is None or high is None:
        return ""
    return f" [{low:{form}}, {high:{form}}]"


def estimate(
    values: Sequence[float | None] | Floats,
    cases: Sequence[Hashable] | Integers,
    *,
    per: str = "record",
    share: bool = True,
    difference: bool = False,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Compute the mean of the values and its percentile-bootstrap interval.

    Whole cases are sampled with replacement (cluster bootstrap). For a share near 0 or 1 most
    samples are alike, so that the bootstrap interval is too narrow, with width zero if all cases
    are equal; Wilson's interval over the cases is returned instead (10 of 10 is [0.72, 1], not [1,
    1]; 1 of 40 is [0.001, 0.13], not [0, 0.08]), see `share_interval`.

    Args:
        values: one per record; None for an unscored record. May be an array if all are scored.
        cases: the case of each record, same length; an array of integers if the values are an
            array.
        per: `record` averages over records (micro), `case` over the means of cases, `any` over
            their best values and `all` over their worst (a case is right if any, or all, of its
            records are).
        share: True if values are shares; otherwise equal values have no interval.
        difference: True if values are differences of shares, from -1 to 1.
        seed: random seed of the resampling.
        resamples: number of bootstrap samples.

    Raises:
        ValueError: lengths differ, `per` is unknown, or a value is not a finite number.
    """
    if per not in ("record", "case", *EXTREMES):
        raise ValueError(f"per='{per}': choose 'record', 'case', 'any' or 'all'.")
    numbers, owners = _scored(values, cases)
    unscored = len(values) - len(numbers)
    if not len(numbers):
        return Estimate(mean=None, n=0, unscored=unscored)
    if per in EXTREMES:
        numbers, owners = _extremes(numbers, owners, per)
    sums, counts = _by_case(numbers, owners)
    if per == "case":
        sums, counts = sums / counts, np.ones_like(counts)
    interval = _interval_method(numbers, share, difference)
    low, high = interval(sums, counts, seed, resamples) if len(sums) > 1 else (None, None)
    mean = float(sums.sum() / counts.sum())
    return Estimate(mean=mean, n=len(numbers), unscored=unscored, low=low, high=high)


def _scored(
    values: Sequence[float | None] | Floats, cases: Sequence[Hashable] | Integers
) -> tuple[Floats, Sequence[Hashable] | Integers]:
    """Return the values that are not None, shape (n,), and their cases.

    Raises:
        ValueError: lengths differ, or a value is not a finite number.
    """
    if len(values) != len(cases):
        raise ValueError(f"{len(values)} values but {len(cases)} cases: give one case per value.")
    if isinstance(values, np.ndarray):
        numbers, owners = values, cases
    else:
        scored = [pair for pair in zip(values, cases, strict=True) if pair[0] is not None]
        numbers = np.array([value for value, _ in scored], dtype=np.float64)
        owners = [case for _, case in scored]
    if not np.isfinite(numbers).all():
        raise ValueError(
            "a value is not a finite number: leave it unscored (None) with its reason."
        )
    return numbers, owners


def _interval_method(numbers: Floats, share: bool, difference: bool) -> Callable[..., Ends]:
    """Return the interval method for such values."""
    if difference:
        return _difference_interval
    if share and _are_shares(numbers):
        return _share_interval
    return _interval


def _are_shares(numbers: Floats) -> bool:
    return bool(((numbers >= 0.0) & (numbers <= 1.0)).all())


def decided(values: Iterable[tuple[Group, float | None]], per: str) -> dict[Group, float | None]:
    """Return the best (`any`) or worst (`all`) value of each group; None if a missing value could
    change it.

    A group that has already failed with `all`, or succeeded with `any`, is decided regardless of
    missing values.
    """
    extreme, final = EXTREMES[per], EXTREMES[per](0.0, 1.0)
    extremes: dict[Group, float | None] = {}
    incomplete: set[Group] = set()
    for group, value in values:
        before = extremes.setdefault(group, value)
        if value is None:
            incomplete.add(group)
        else:
            extremes[group] = value if before is None else extreme(before, value)
    return {
        group: None if group in incomplete and value != final else value
        for group, value in extremes.items()
    }


def _extremes(
    numbers: Floats, cases: Sequence[Hashable] | Integers, per: str
) -> tuple[Floats, list[Hashable]]:
    """Return one value per case: its best or its worst."""
    extremes: dict[Hashable, float] = {}
    for value, case in zip(numbers.tolist(), cases, strict=True):
        extremes[case] = EXTREMES[per](extremes[case], value) if case in extremes else value
    return np.array(list(extremes.values())), list(extremes)


def _by_case(numbers: Floats, cases: Sequence[Hashable] | Integers) -> tuple[Floats, Floats]:
    """Return sum and number of the values of each case, in the order of `case_positions`, on which
    seeded samples depend.
    """
    if isinstance(cases, np.ndarray):
        distinct, index = np.unique(cases, return_inverse=True)
        place = case_positions(distinct.tolist())
        index = np.array([place[case] for case in distinct.tolist()])[index]
    else:
        place = case_positions(cases)
        index = np.array([place[case] for case in cases])
    counts = np.bincount(index, minlength=len(place)).astype(np.float64)
    sums = np.bincount(index, weights=numbers, minlength=len(place)).astype(np.float64)
    return sums, counts


def case_positions(cases: Iterable[Hashable]) -> dict[Hashable, int]:
    """Return the position of each case, independent of the order of records, which threads write as
    they finish.
    """
    return {case: at for at, case in enumerate(sorted(set(cases), key=repr))}


def _interval(sums: Floats, counts: Floats, seed: int, resamples: int) -> Ends:
    """Return the bootstrap interval of a mean; None if nothing varies, since the scale of the
    values is unknown.
    """
    if float(np.ptp(sums / counts)) == 0.0:
        return None, None
    return percentile_interval(bootstrap_means(sums, counts, seed, resamples))


def _share_interval(sums: Floats, counts: Floats, seed: int, resamples: int) -> Ends:
    if is_near_end(sums, counts):
        return share_interval(sums, counts)
    return percentile_interval(bootstrap_means(sums, counts, seed, resamples))


def _difference_interval(sums: Floats, counts: Floats, seed: int, resamples: int) -> Ends:
    if few_differ(sums, counts):
        return difference_interval(sums, counts)
    return percentile_interval(bootstrap_means(sums, counts, seed, resamples))


def percentile_interval(draws: Floats) -> tuple[float, float]:
    """Return the 95 % percentile interval of bootstrap values."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def chunk_sizes(total: int, size: int, most: int = 4_000_000) -> list[int]:
    """Split `total` rows of `size` values into chunks of at most `most` values, to limit memory;
    return rows per chunk.
    """
    rows = max(1, most // size)
    return [min(rows, total - start) for start in range(0, total, rows)]


def case_weights(seed: int, size: int, resamples: int, width: int = 0) -> Iterator[Integers]:
    """Yield how often each of `size` cases is sampled, in chunks of bootstrap samples; shape
    (samples, size).

    `width` is the number of values that the caller computes per sample, if larger than `size`.
    """
    rng = np.random.default_rng(seed)
    for rows in chunk_sizes(resamples, max(size, width)):
        yield rng.multinomial(size, np.full(size, 1 / size), size=rows)


def bootstrap_means(sums: Floats, counts: Floats, seed: int, resamples: int) -> Floats:
    """Return the means of `resamples` bootstrap samples of the cases; shape (resamples,)."""
    # every sample of cases then has the same number of values
    alike = bool((counts == counts[0]).all())
    size = len(sums)
    draw = _all_draws if size * resamples <= MAX_KEPT_DRAWS else _draws
    return np.concatenate(
        [
            sums[drawn].sum(axis=1) / (counts.sum() if alike else counts[drawn].sum(axis=1))
            for drawn in draw(seed, size, resamples)
        ]
    )


def _draws(seed: int, size: int, resamples: int) -> Iterator[NDArray[np.int32]]:
    """Yield bootstrap samples of the cases, in chunks of rows."""
    rng = np.random.default_rng(seed)
    for rows in chunk_sizes(resamples, size, DRAWN_AT_ONCE):
        yield rng.integers(0, size, size=(rows, size), dtype=np.int32)


@lru_cache(1)
def _all_draws(seed: int, size: int, resamples: int) -> tuple[NDArray[np.int32], ...]:
    """Return all bootstrap samples, shared by all metrics with this number of cases."""
    return tuple(_draws(seed, size, resamples))


def harmonic(
    kinds: Sequence[tuple[Sequence[float], Sequence[Hashable]]],
    *,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Compute the harmonic mean of several means over cases, e.g. CounterFact's S, with a bootstrap
    interval over cases.

    Each mean is a mean of case means. The result is 0 if one of them is 0, as in scipy. If a mean
    is near 0 or 1, the interval is at least as wide as the one propagated from the intervals of the
    means (`_propagated`), for the reason given in `estimate`.

    Args:
        kinds: values and cases (same length) of each mean; all use the same samples of cases.
        resamples: number of bootstrap samples.
    """
    n = sum(len(values) for values, _ in kinds)
    if not kinds or not all(values for values, _ in kinds):
        return Estimate(mean=None, n=n)
    place = case_positions(case for _, cases in kinds for case in cases)
    sums, counts = np.zeros((len(kinds), len(place))), np.zeros((len(kinds), len(place)))
    for row, (values, cases) in enumerate(kinds):
        at = np.array([place[case] for case in cases])
        np.add.at(sums[row], at, np.array(values, dtype=np.float64))
        np.add.at(counts[row], at, 1.0)
    observed = counts > 0
    shares = np.divide(sums, counts, out=np.zeros_like(sums), where=observed)
    mean = _harmonic(shares.sum(axis=1) / observed.sum(axis=1))
    if len(place) < 2:
        return Estimate(mean=mean, n=n)
    low, high = percentile_interval(_drawn(shares, observed, resamples))
    wide_low, wide_high = _propagated(
        [row[mask] for row, mask in zip(shares, observed, strict=True)]
    )
    return Estimate(mean=mean, n=n, low=min(low, wide_low), high=max(high, wide_high))


def _propagated(shares: Sequence[Floats]) -> tuple[float, float]:
    """Propagate the intervals of the means to their harmonic mean, if some means are near 0 or 1.

    Means near 0 or 1 are moved to their interval ends together, since they may depend on the same
    cases, and each other mean separately; the resulting changes are combined by square-and-add (Zou
    and Donner 2008).

    Args:
        shares: the case means of each mean, each of shape (cases,).
    """
    means = np.array([row.mean() for row in shares])
    near = np.array([is_near_end(row, np.ones_like(row)) for row in shares])
    centre = _harmonic(means)
    if not near.any():
        return centre, centre
    ends = np.array([share_interval(row, np.ones_like(row)) for row in shares])
    moved = [near, *(np.arange(len(means)) == at for at in np.flatnonzero(~near))]

    def distance(side: Floats) -> float:
        return math.hypot(*(_harmonic(np.where(mask, side, means)) - centre for mask in moved))

    low, high = map(distance, ends.T)
    return max(0.0, centre - low), min(1.0, centre + high)


def _drawn(shares: Floats, observed: NDArray[np.bool_], resamples: int) -> Floats:
    """Return the harmonic mean of each bootstrap sample; samples without any value of some mean are
    omitted.
    """
    rng, size, means = np.random.default_rng(0), shares.shape[1], []
    for _ in range(resamples):
        drawn = rng.integers(0, size, size=size)
        counts = observed[:, drawn].sum(axis=1)
        if counts.all():
            means.append(_harmonic(shares[:, drawn].sum(axis=1) / counts))
    return np.array(means)


def _harmonic(means: Floats) -> float:
    if (means > 0).all():
        return float(len(means) / (1 / means).sum())
    return 0.0


def macro(groups: Sequence[Estimate]) -> Estimate:
    """Compute the unweighted mean of the groups' means (ReCoE's average over schemes), with its
    interval.

    The groups are independent samples, so the distance of an interval's end from the mean is the
    root of the summed squares of the groups' own distances, over their number (Zou and Donner 2008,
    method of variance estimates recovery). A group without scored records is excluded from the
    mean; its unscored records are counted.
    """
    scored = [group for group in groups if group.mean is not None]
    means = [group.mean for group in scored if group.mean is not None]
    unscored = sum(group.unscored for group in groups)
    if not means:
        return Estimate(mean=None, n=0, unscored=unscored)
    mean, n = math.fsum(means) / len(means), sum(group.n for group in scored)
    ends = [
        (mean_of_group - group.low, group.high - mean_of_group)
        for mean_of_group, group in zip(means, scored, strict=True)
        if group.low is not None and group.high is not None
    ]
    if len(ends) < len(means):  # a group of one case has no interval
        return Estimate(mean=mean, n=n, unscored=unscored)
    below, above = (math.hypot(*side) / len(means) for side in zip(*ends, strict=True))
    return Estimate(mean=mean, n=n, unscored=unscored, low=mean - below, high=mean + above)


def pass_hat_k(successes: int, attempts: int, k: int) -> float:
    """Return pass^k of tau-bench (Yao et al. 2024), the probability that k attempts all succeed, by
    its unbiased estimate C(successes, k) / C(attempts, k).

    Raises:
        BadSettings: k is below 1 or above the attempts.
    """
    if not 1 <= k <= attempts:
        raise BadSettings(
            f"pass^{k} of {attempts} attempts: k is from 1 to the number of attempts (--repeats)."
        )
    return math.comb(successes, k) / math.comb(attempts, k)
