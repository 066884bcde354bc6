"""Inter-rater agreement of two raters, with intervals by bootstrap over cases.

All coefficients are functions of a contingency table (first rater by second), so that the bootstrap
sums tables instead of visiting the items again. The tests compare the values with scipy and
scikit-learn.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from emend.evals.metrics.estimate import (
    RESAMPLES,
    Estimate,
    case_weights,
    estimate,
    percentile_interval,
)
from emend.memory.edit import FrozenModel

ONE_LABEL = "undefined: {who} gave one label only, {label}"
NO_ITEM = "undefined: no item has both"
_MOST_UNDEFINED = 0.05

Floats = NDArray[np.float64]


class Coefficient(FrozenModel):
    """A coefficient with its 95 % interval, or the reason why it is undefined.

    `low` and `high` are None for fewer than two cases, if nothing varies between draws, and if the
    coefficient is undefined in more than 5 % of the draws.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""


class RaterAgreement(FrozenModel):
    """Agreement of two raters of the same items; the first is the reference.

    `raw` is the share of equal labels. `kappa` is Cohen's kappa, with quadratic weights for ordered
    labels; `alpha` is Krippendorff's alpha, with squared distances for ordered labels (None in
    older files). `spearman`, `kendall` (tau-b), `mae` and the means are None for unordered labels.
    `base_rate` is the share of the first rater's most frequent label, which is also the raw
    agreement of a second rater who always gives it; `constant_mae` is the mean absolute error of
    always giving the first rater's median. `mean_first` and `mean_second` show whether a rater is
    more lenient or only less consistent.
    """

    n: int
    unscored: int
    cases: int
    labels: tuple[float, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Counts: the first rater's labels by the second's, in the order of `labels`."""
    raw: Estimate
    base_rate: Estimate
    kappa: Coefficient | None = None
    alpha: Coefficient | None = None
    spearman: Coefficient | None = None
    kendall: Coefficient | None = None
    mae: Estimate | None = None
    constant_mae: Estimate | None = None
    mean_first: Estimate | None = None
    mean_second: Estimate | None = None


def agreement(
    first: Sequence[float],
    second: Sequence[float | None],
    cases: Sequence[Hashable],
    *,
    ordered: bool = True,
    categories: bool = True,
    raters: tuple[str, str] = ("people", "the judge"),
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> RaterAgreement:
    """Compute the agreement per item; items without the second rater's label are unscored.

    Args:
        first: labels of the reference rater, as numbers.
        second: labels of the other rater, None where one is missing.
        cases: the case of each item; the bootstrap draws cases, never single items.
        ordered: whether labels are marks or shares, not names.
        categories: whether labels are few and exact, so that kappa is meaningful; False for shares.
        raters: names of the raters, for the reason of an undefined coefficient.
        seed: random seed of the resampling.
        resamples: number of bootstrap samples.

    Raises:
        ValueError: lengths differ, or a label is not a finite number.
    """
    pairs = [(a, b, case) for a, b, case in zip(first, second, cases, strict=True) if b is not None]
    if not np.isfinite([label for a, b, _ in pairs for label in (a, b)]).all():
        raise ValueError("a label is not a finite number: leave it out (None).")
    return _agreement(pairs, len(first) - len(pairs), ordered, categories, raters, seed, resamples)


def _agreement(
    pairs: Sequence[tuple[float, float, Hashable]],
    unscored: int,
    ordered: bool,
    categories: bool,
    raters: tuple[str, str],
    seed: int,
    resamples: int,
) -> RaterAgreement:
    ones = [a for a, _, _ in pairs]
    others = [b for _, b, _ in pairs]
    owners = [case for _, _, case in pairs]
    labels = sorted({*ones, *others})
    tables = _tables(ones, others, owners, labels)
    mode, median = _constants(ones)
    values = np.array(labels)
    if ordered:
        distances = (values[:, None] - values) ** 2
    else:
        distances = 1 - np.eye(len(values))

    def mean(values: Sequence[float], share: bool = False) -> Estimate:
        result = estimate(values, owners, share=share, seed=seed, resamples=resamples)
        return result.model_copy(update={"unscored": unscored})

    def coefficient(function: Callable[[Floats], Floats]) -> Coefficient:
        return _coefficient(function, tables, _undefined(ones, others, raters), seed, resamples)

    return RaterAgreement(
        n=len(pairs),
        unscored=unscored,
        cases=len(set(owners)),
        labels=tuple(labels),
        confusion=tuple(tuple(map(int, row)) for row in tables.sum(axis=0)),
        raw=mean([float(a == b) for a, b, _ in pairs], share=True),
        base_rate=mean([float(a == mode) for a in ones], share=True),
        kappa=coefficient(partial(kappa, distances=distances)) if categories else None,
        alpha=coefficient(partial(alpha, distances=distances)),
        spearman=coefficient(spearman) if ordered else None,
        kendall=coefficient(kendall) if ordered else None,
        mae=mean([abs(a - b) for a, b, _ in pairs]) if ordered else None,
        constant_mae=mean([abs(a - median) for a in ones]) if ordered else None,
        mean_first=mean(ones) if ordered else None,
        mean_second=mean(others) if ordered else None,
    )


def _constants(ones: Sequence[float]) -> tuple[float, float]:
    """Return the most frequent label (the smallest of several), and the median."""
    return max(sorted(set(ones)), key=ones.count, default=0.0), float(
        np.median(ones)
    ) if ones else 0.0


def _undefined(ones: Sequence[float], others: Sequence[float], raters: tuple[str, str]) -> str:
    """Return the reason why coefficients of association are undefined; "" if they are defined."""
    if not ones:
        return NO_ITEM
    for who, labels in zip(raters, (ones, others), strict=True):
        if len(set(labels)) == 1:
            return ONE_LABEL.format(who=who, label=f"{labels[0]:g}")
    return ""


def _tables(
    ones: Sequence[float],
    others: Sequence[float],
    cases: Sequence[Hashable],
    labels: Sequence[float],
) -> Floats:
    """Return the contingency table of each case; shape (cases, labels, labels)."""
    at = {label: place for place, label in enumerate(labels)}
    places = {case: place for place, case in enumerate(dict.fromkeys(cases))}
    tables = np.zeros((len(places), len(labels), len(labels)))
    for a, b, case in zip(ones, others, cases, strict=True):
        tables[places[case], at[a], at[b]] += 1
    return tables


def _coefficient(
    function: Callable[[Floats], Floats], tables: Floats, reason: str, seed: int, resamples: int
) -> Coefficient:
    if reason:
        return Coefficient(why=reason)
    value, size = float(function(tables.sum(axis=0)[None])[0]), len(tables)
    if size < 2:
        return Coefficient(value=value)
    flat = tables.reshape(size, -1)
    weights = case_weights(seed, size, resamples, flat.shape[1])
    draws = np.concatenate(
        [function((drawn @ flat).reshape(-1, *tables.shape[1:])) for drawn in weights]
    )
    defined = draws[np.isfinite(draws)]
    if len(defined) < (1 - _MOST_UNDEFINED) * resamples or np.ptp(defined) == 0:
        return Coefficient(value=value)
    low, high = percentile_interval(defined)
    return Coefficient(value=value, low=low, high=high)


def kappa(tables: Floats, distances: Floats) -> Floats:
    """Return Cohen's kappa (1960) of each table, shape (tables,); NaN for a table with only one
    label.

    With squared distances of the label values this is weighted kappa (1968).
    """
    first, second = tables.sum(axis=2), tables.sum(axis=1)
    chance = np.einsum("ti,tj,ij->t", first, second, distances) / tables.sum(axis=(1, 2))
    return _divided(chance - (tables * distances).sum(axis=(1, 2)), chance)


def alpha(tables: Floats, distances: Floats) -> Floats:
    """Return Krippendorff's alpha (2011) for two raters without missing labels."""
    counts, totals = tables.sum(axis=2) + tables.sum(axis=1), 2 * tables.sum(axis=(1, 2))
    chance = np.einsum("ti,tj,ij->t", counts, counts, distances) / (totals - 1)
    return _divided(chance - 2 * (tables * distances).sum(axis=(1, 2)), chance)


def spearman(tables: Floats) -> Floats:
    """Return Spearman's coefficient: Pearson's coefficient of the ranks, with mean ranks for
    ties.
    """
    first, second = tables.sum(axis=2), tables.sum(axis=1)
    total = tables.sum(axis=(1, 2))[:, None]
    ranks_a, ranks_b = (
        counts.cumsum(axis=1) - counts / 2 - total / 2 for counts in (first, second)
    )
    product = np.einsum("ti,tj,tij->t", ranks_a, ranks_b, tables)
    return _divided(
        product, np.sqrt((ranks_a**2 * first).sum(axis=1) * (ranks_b**2 * second).sum(axis=1))
    )


def kendall(tables: Floats) -> Floats:
    """Return Kendall's tau-b (1945), which corrects for ties."""
    before = tables.cumsum(axis=1).cumsum(axis=2)
    lower = np.zeros_like(tables)
    lower[:, 1:, 1:] = before[:, :-1, :-1]
    back = tables[:, :, ::-1].cumsum(axis=1).cumsum(axis=2)
    crossed = np.zeros_like(tables)
    crossed[:, 1:, 1:] = back[:, :-1, :-1]
    gained = (tables * (lower - crossed[:, :, ::-1])).sum(axis=(1, 2))
    total = tables.sum(axis=(1, 2)) ** 2
    untied = [
        (total - (counts**2).sum(axis=1)) / 2 for counts in (tables.sum(axis=2), tables.sum(axis=1))
    ]
    return _divided(gained, np.sqrt(untied[0] * untied[1]))


def _divided(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full_like(below, np.nan), where=below > 0)
