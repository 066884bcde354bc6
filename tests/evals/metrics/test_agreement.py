"""Coefficients equal scipy's and scikit-learn's; where they are undefined this is said; intervals cover."""

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from emend.evals.metrics.agreement import Coefficient, RaterAgreement, agreement

MARKS = [1.0, 2.0, 3.0, 4.0, 5.0]


def value(found: Coefficient | None) -> float:
    assert found is not None and found.value is not None
    return found.value


@pytest.mark.parametrize("seed", range(12))
def test_coefficients_are_those_of_the_libraries(seed: int) -> None:
    """Few marks and many items, so that there are ties on both sides."""
    rng = np.random.default_rng(seed)
    people = rng.integers(1, 6, 40).astype(float)
    judge = np.clip(people + rng.integers(-2, 3, 40), 1, 5)
    told = agreement(people.tolist(), judge.tolist(), range(40), resamples=5)
    names = agreement(people.tolist(), judge.tolist(), range(40), ordered=False, resamples=5)
    assert value(told.kappa) == pytest.approx(cohen_kappa_score(people, judge, weights="quadratic", labels=MARKS))
    assert value(names.kappa) == pytest.approx(cohen_kappa_score(people, judge))
    assert value(told.spearman) == pytest.approx(spearmanr(people, judge).statistic)
    assert value(told.kendall) == pytest.approx(kendalltau(people, judge).statistic)
    assert np.array_equal(told.confusion, confusion_matrix(people, judge, labels=list(told.labels)))
    assert told.mae is not None and told.mae.mean == pytest.approx(float(np.abs(people - judge).mean()))
    assert told.raw.mean == pytest.approx(float((people == judge).mean()))


def test_the_same_order_is_one_and_the_opposite_is_minus_one() -> None:
    for judge, wanted in (([2.0, 3.0, 3.0, 4.0], 1), ([4.0, 3.0, 3.0, 2.0], -1)):
        told = agreement([1.0, 2.0, 2.0, 5.0], judge, range(4), resamples=5)
        assert value(told.spearman) == pytest.approx(wanted) and value(told.kendall) == pytest.approx(wanted)


def test_a_milder_judge_shows_in_the_means_and_not_in_the_order() -> None:
    told = agreement([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], range(3), resamples=5)
    assert value(told.spearman) == pytest.approx(1)
    assert told.mean_first is not None and told.mean_second is not None
    assert (told.mean_first.mean, told.mean_second.mean) == (2.0, 3.0)
    names = agreement([1.0, 0.0], [1.0, 0.0], "ab", ordered=False, resamples=5)
    assert names.mean_first is None and names.mean_second is None


def test_shares_are_ranked_and_have_no_kappa() -> None:
    rng = np.random.default_rng(1)
    people, judge = rng.random(30).round(2), rng.random(30).round(2)
    told = agreement(people.tolist(), judge.tolist(), range(30), categories=False, resamples=5)
    assert told.kappa is None
    assert value(told.kendall) == pytest.approx(kendalltau(people, judge).statistic)
    assert value(told.spearman) == pytest.approx(spearmanr(people, judge).statistic)


def test_one_label_only_leaves_kappa_undefined_and_says_so() -> None:
    told = agreement([1.0, 1.0, 1.0], [1.0, 0.0, 1.0], "abc", ordered=False)
    assert told.kappa == Coefficient(why="undefined: people gave one label only, 1")
    assert told.raw.mean == pytest.approx(2 / 3) and told.base_rate.mean == 1.0
    other = agreement([1.0, 0.0], [1.0, 1.0], "ab")
    assert (
        other.spearman is not None and other.spearman.value is None and "the judge gave one label" in other.spearman.why
    )


def test_a_constant_judge_is_what_the_base_rate_says() -> None:
    people = [5.0, 5.0, 5.0, 2.0, 1.0]
    told = agreement(people, [5.0] * 5, range(5))
    assert told.base_rate.mean == told.raw.mean == pytest.approx(0.6)
    assert told.constant_mae is not None and told.mae is not None
    assert told.constant_mae.mean == told.mae.mean == pytest.approx(7 / 5)


def test_items_without_a_verdict_are_unscored() -> None:
    told = agreement([1.0, 0.0, 1.0], [1.0, None, 0.0], "abc", ordered=False)
    assert (told.n, told.unscored, told.raw.n, told.raw.unscored, told.cases) == (2, 1, 2, 1, 2)
    empty = agreement([1.0], [None], "a")
    assert empty.n == 0 and empty.raw.mean is None and empty.kappa == Coefficient(why="undefined: no item has both")
    with pytest.raises(ValueError, match="not a finite number"):
        agreement([float("nan")], [1.0], "a")


def test_perfect_agreement_has_no_interval_of_width_zero() -> None:
    told = agreement([1.0, 0.0] * 10, [1.0, 0.0] * 10, range(20), ordered=False)
    assert value(told.kappa) == 1.0 and told.kappa is not None and told.kappa.low is None
    assert told.raw.low is not None and told.raw.low < 0.9


def drawn(rng: np.random.Generator, cases: int, resamples: int = 160, each: int = 3) -> RaterAgreement:
    """A judge who is off by one at times, more on some cases than on others."""
    owner = np.repeat(np.arange(cases), each)
    people = np.clip(np.round(rng.normal(3, 1.2, owner.size) + np.repeat(rng.normal(0, 0.6, cases), each)), 1, 5)
    blur = np.repeat(rng.uniform(0.3, 1.3, cases), each)
    judge = np.clip(np.round(people + rng.normal(0, 1, owner.size) * blur), 1, 5)
    return agreement(
        people.tolist(), judge.tolist(), owner.tolist(), resamples=resamples, seed=int(rng.integers(1 << 30))
    )


@pytest.mark.slow
def test_intervals_cover_the_truth_nineteen_times_in_twenty() -> None:
    rng = np.random.default_rng(8)
    truth = drawn(rng, 40_000, resamples=1)
    runs, covered = 250, dict.fromkeys(("kappa", "spearman", "kendall"), 0)
    for _ in range(runs):
        told = drawn(rng, 60)
        for name in covered:
            one, real = getattr(told, name), value(getattr(truth, name))
            covered[name] += one.low <= real <= one.high
    for name, count in covered.items():
        assert 0.92 <= count / runs <= 0.98, name


@pytest.mark.parametrize(
    ("first", "second", "alpha"),
    [
        ("0100000010", "1110010000", 0.095),
        ("aabbdcccedda", "babbbcccceddd"[:12], None),
        ("aabbdcccedda", "babbbccccddd", None),
    ],
)
def test_alpha_is_that_of_its_definition(first: str, second: str, alpha: float | None) -> None:
    """The first are Krippendorff's own figures (2011, example A)."""
    ones, others = ([float(ord(sign)) for sign in text] for text in (first, second))
    for ordered in (False, True):
        told = agreement(ones, others, range(len(ones)), ordered=ordered, resamples=200)
        values, n = ones + others, 2 * len(ones)

        def distance(a: float, b: float, ordered: bool = ordered) -> float:
            return (a - b) ** 2 if ordered else float(a != b)

        observed = 2 * sum(map(distance, ones, others)) / n
        expected = sum(distance(a, b) for a in values for b in values) / (n * (n - 1))
        assert value(told.alpha) == pytest.approx(1 - observed / expected)
        assert told.alpha is not None and told.alpha.low is not None and told.alpha.low <= value(told.alpha)
        if alpha is not None:
            assert value(told.alpha) == pytest.approx(alpha, abs=5e-4)
