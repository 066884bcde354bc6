"""A mean with its uncertainty: 95 % intervals by bootstrap over cases, as probes of one case are not independent."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from emend.memory.edit import FrozenModel

LEVEL = 0.95
RESAMPLES = 2000
Group = TypeVar("Group", bound=Hashable)
EXTREMES: dict[str, Callable[[float, float], float]] = {"any": max, "all": min}
_Z = 1.959963984540054
DRAWN_AT_ONCE = 100_000  # drawn case numbers held at once, few enough for a processor's cache
MAX_KEPT_DRAWS = 2**24
"""Number of drawn case numbers that are kept for the next metric of as many cases; 64 MB."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Estimate(FrozenModel):
    """A mean over `n` scored records, the records that could not be scored, and the 95 % interval of the mean.

    `mean` is None when nothing was scored; `low` and `high` are None when fewer than two cases were.
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


def estimate(
    values: Sequence[float | None] | Floats,
    cases: Sequence[Hashable] | Integers,
    *,
    per: str = "record",
    share: bool = True,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """The mean of the values and its percentile-bootstrap interval.

    Whole cases are drawn with replacement (cluster bootstrap). When all values are 0 or 1 and all cases have the same
    mean, the bootstrap's interval has width zero whatever the number of cases; the Wilson interval over the cases is
    returned instead (10 of 10 is [0.72, 1], not [1, 1]), where a case is one observation however many records it has.

    Args:
        values: one per record; None for a record that could not be scored. An array if all were.
        cases: the case of each record, same length. With an array of values an array of numbers.
        per: `record` averages over records (micro), `case` over the means of cases, `any` over their best values and
            `all` over their worst (a case is right if any, or all, of its records are).
        share: True if values are shares; equal marks or magnitudes have no interval.
        seed: random seed of the resampling.
        resamples: number of bootstrap samples.

    Raises:
        ValueError: lengths differ, `per` is neither, or a value is not a finite number.
    """
    if len(values) != len(cases):
        raise ValueError(f"{len(values)} values but {len(cases)} cases: give one case per value.")
    if per not in ("record", "case", *EXTREMES):
        raise ValueError(f"per='{per}': choose 'record', 'case', 'any' or 'all'.")
    numbers, owners = _scored(values, cases)
    unscored = len(values) - len(numbers)
    if not len(numbers):
        return Estimate(mean=None, n=0, unscored=unscored)
    if not np.isfinite(numbers).all():
        raise ValueError("a value is not a finite number: leave it unscored (None) with its reason.")
    return _estimate(numbers, owners, unscored, per, share, seed, resamples)


def _scored(
    values: Sequence[float | None] | Floats, cases: Sequence[Hashable] | Integers
) -> tuple[Floats, Sequence[Hashable] | Integers]:
    if isinstance(values, np.ndarray):
        return values, cases
    scored = [(value, case) for value, case in zip(values, cases, strict=True) if value is not None]
    return np.array([value for value, _ in scored], dtype=np.float64), [case for _, case in scored]


def _estimate(
    numbers: Floats,
    owners: Sequence[Hashable] | Integers,
    unscored: int,
    per: str,
    share: bool,
    seed: int,
    resamples: int,
) -> Estimate:
    if per in EXTREMES:
        numbers, owners = _extremes(numbers, owners, per)
    sums, counts = _by_case(numbers, owners)
    if per == "case":
        sums, counts = sums / counts, np.ones_like(counts)
    means = sums / counts
    if len(means) > 1 and bool((means == means[0]).all()) and (not share or bool(np.isin(numbers, (0.0, 1.0)).all())):
        low, high = wilson(float(means[0]) * len(means), len(means)) if share else (None, None)
    else:
        low, high = _interval(sums, counts, seed, resamples)
    mean = float(sums.sum() / counts.sum())
    return Estimate(mean=mean, n=len(numbers), unscored=unscored, low=low, high=high)


def decided(values: Iterable[tuple[Group, float | None]], per: str) -> dict[Group, float | None]:
    """Return the best (`any`) or worst (`all`) value of each group; None where a missing value could change it.

    A group that has failed by `all`, or has succeeded by `any`, is decided whatever is missing.
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
    return {group: None if group in incomplete and value != final else value for group, value in extremes.items()}


def _extremes(numbers: Floats, cases: Sequence[Hashable] | Integers, per: str) -> tuple[Floats, list[Hashable]]:
    """Return one value per case: its best or its worst."""
    extremes: dict[Hashable, float] = {}
    for value, case in zip(numbers.tolist(), cases, strict=True):
        extremes[case] = EXTREMES[per](extremes[case], value) if case in extremes else value
    return np.array(list(extremes.values())), list(extremes)


def _by_case(numbers: Floats, cases: Sequence[Hashable] | Integers) -> tuple[Floats, Floats]:
    """Sum and number of the values of each case, in the order of `case_positions`, on which seeded draws depend."""
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
    """Position of each case, independent of the order of records: threads write them as they finish."""
    return {case: at for at, case in enumerate(sorted(set(cases), key=repr))}


def _interval(sums: Floats, counts: Floats, seed: int, resamples: int) -> tuple[float | None, float | None]:
    if len(sums) < 2:
        return None, None
    return percentile_interval(bootstrap_means(sums, counts, seed, resamples))


def percentile_interval(draws: Floats) -> tuple[float, float]:
    """The 95 % interval of a statistic by its bootstrap draws."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def chunk_sizes(total: int, size: int, most: int = 4_000_000) -> list[int]:
    """Numbers of rows of `size` values that sum to `total`; chunks have at most `most` values, to bound the memory."""
    rows = max(1, most // size)
    return [min(rows, total - start) for start in range(0, total, rows)]


def case_weights(seed: int, size: int, resamples: int, width: int = 0) -> Iterator[Integers]:
    """Yield how often each of `size` cases is drawn, some draws of them all at a time; shape (draws, size).

    `width` is the number of values that the caller makes of a draw, where there are more of them than cases.
    """
    rng = np.random.default_rng(seed)
    for rows in chunk_sizes(resamples, max(size, width)):
        yield rng.multinomial(size, np.full(size, 1 / size), size=rows)


def bootstrap_means(sums: Floats, counts: Floats, seed: int, resamples: int) -> Floats:
    """Mean of each of `resamples` draws of all cases with replacement; shape (resamples,)."""
    alike = bool((counts == counts[0]).all())  # any draw of all cases then has as many values as they have
    size = len(sums)
    draw = _all_draws if size * resamples <= MAX_KEPT_DRAWS else _draws
    return np.concatenate(
        [
            sums[drawn].sum(axis=1) / (counts.sum() if alike else counts[drawn].sum(axis=1))
            for drawn in draw(seed, size, resamples)
        ]
    )


def _draws(seed: int, size: int, resamples: int) -> Iterator[NDArray[np.int32]]:
    """Yield draws of all cases with replacement, some rows of them at a time."""
    rng = np.random.default_rng(seed)
    for rows in chunk_sizes(resamples, size, DRAWN_AT_ONCE):
        yield rng.integers(0, size, size=(rows, size), dtype=np.int32)


@lru_cache(1)
def _all_draws(seed: int, size: int, resamples: int) -> tuple[NDArray[np.int32], ...]:
    """All draws together, which serve every metric of as many cases."""
    return tuple(_draws(seed, size, resamples))


def harmonic(
    kinds: Sequence[tuple[Sequence[float], Sequence[Hashable]]], *, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """The harmonic mean of several means over cases, e.g. CounterFact's S, with its bootstrap interval over cases.

    Each mean is that of its cases' means. The result is 0 where one of them is 0, as in scipy. Where nothing varies,
    the Wilson intervals of the means are taken, for the reason given in `estimate`.

    Args:
        kinds: values and their cases (same length) of each mean; one draw of cases serves all of them.
        seed: random seed of the resampling.
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
    if all(len(set(row[mask].tolist())) == 1 for row, mask in zip(shares, observed, strict=True)):
        ends = [wilson(float(row[mask].sum()), int(mask.sum())) for row, mask in zip(shares, observed, strict=True)]
        low, high = (_harmonic(np.array(end)) for end in zip(*ends, strict=True))
    else:
        low, high = percentile_interval(_drawn(shares, observed, seed, resamples))
    return Estimate(mean=mean, n=n, low=low, high=high)


def _drawn(shares: Floats, observed: NDArray[np.bool_], seed: int, resamples: int) -> Floats:
    """Harmonic mean of each draw of all cases; a draw without any value of some mean is left out."""
    rng, size, means = np.random.default_rng(seed), shares.shape[1], []
    for _ in range(resamples):
        drawn = rng.integers(0, size, size=size)
        counts = observed[:, drawn].sum(axis=1)
        if counts.all():
            means.append(_harmonic(shares[:, drawn].sum(axis=1) / counts))
    return np.array(means)


def _harmonic(means: Floats) -> float:
    return float(len(means) / (1 / means).sum()) if (means > 0).all() else 0.0


def wilson(successes: float, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion of `successes` in `n` > 0 observations (Wilson 1927)."""
    share, spread = successes / n, _Z**2 / n
    centre = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def macro(groups: Sequence[Estimate]) -> Estimate:
    """The mean of the groups' means, each group counting alike (ReCoE's average over its schemes), with its interval.

    The groups are independent samples, so the distance of an interval's end from the mean is the root of the summed
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
        (mean_of_group - group.low, group.high - mean_of_group)
        for mean_of_group, group in zip(means, scored, strict=True)
        if group.low is not None and group.high is not None
    ]
    if len(ends) < len(means):  # a group of one case has no interval
        return Estimate(mean=mean, n=n, unscored=unscored)
    below, above = (math.hypot(*side) / len(means) for side in zip(*ends, strict=True))
    return Estimate(mean=mean, n=n, unscored=unscored, low=mean - below, high=mean + above)
