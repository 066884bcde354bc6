"""Differences of two systems: the test keeps its level with clustered probes, and no interval claims certainty."""

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_rel

from emend.evals.metrics.paired import MCNEMAR, SIGN_FLIP, Pair, compare_pairs, mcnemar, relative_drop

CASES, PROBES, RUNS = 40, 5, 400


def simulated(rng: np.random.Generator, effect: float = 0.0) -> list[Pair]:
    """Two systems that are right equally often; what sets them apart is the case, so that its probes go together."""
    shift = np.repeat(rng.normal(0, 0.25, CASES), PROBES)
    case = np.repeat(np.arange(CASES), PROBES)
    a = rng.random(case.size) < np.clip(0.5 - shift, 0, 1)
    b = rng.random(case.size) < np.clip(0.5 + shift + effect, 0, 1)
    return [Pair(int(c), "k", float(x), float(y)) for c, x, y in zip(case, a, b, strict=True)]


@pytest.mark.slow
def test_the_clustered_test_errs_in_five_of_a_hundred_and_the_unclustered_one_in_more_than_ten() -> None:
    rng = np.random.default_rng(11)
    clustered = unclustered = 0
    for seed in range(RUNS):
        pairs = simulated(rng)
        clustered += (compare_pairs(pairs, seed=seed, resamples=10, flips=399).p or 0.0) < 0.05
        only_a, only_b = (sum(x > y for x, y in sides) for sides in (_sides(pairs), [s[::-1] for s in _sides(pairs)]))
        unclustered += mcnemar(only_a, only_b) < 0.05
    assert 0.03 <= clustered / RUNS <= 0.07
    assert unclustered / RUNS > 0.10


def _sides(pairs: list[Pair]) -> list[tuple[float, float]]:
    return [(pair.a or 0.0, pair.b or 0.0) for pair in pairs]


@pytest.mark.slow
def test_the_interval_of_the_difference_covers_the_truth() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for seed in range(300):
        told = compare_pairs(simulated(rng), seed=seed, resamples=300, flips=9)
        assert told.low is not None and told.high is not None
        covered += told.low <= 0 <= told.high
    assert 0.92 <= covered / 300 <= 0.98


def test_a_true_difference_is_found_few_cases_tried_in_full_and_equal_ones_have_no_interval() -> None:
    told = compare_pairs(simulated(np.random.default_rng(3), effect=0.35))
    assert told.p is not None and told.p < 0.01 and told.test == SIGN_FLIP
    assert told.low is not None and told.low > 0.1
    pairs = [Pair(n, "k", 0.0, 0.5 + n / 10) for n in range(6)]
    told = compare_pairs(pairs, flips=1)
    assert told.test == SIGN_FLIP and told.p == pytest.approx(2 / 2**6)
    pairs = [Pair(case, "x", 1.0, 1.0) for case in range(8)]
    assert compare_pairs(pairs, share=False).low is None and compare_pairs(pairs).low is not None


def test_one_probe_a_case_and_right_or_wrong_is_mcnemars_exact_test() -> None:
    sides = [(1, 0)] * 9 + [(0, 1)] * 2 + [(1, 1)] * 20
    told = compare_pairs([Pair(n, "k", a, b) for n, (a, b) in enumerate(sides)])
    assert told.test == MCNEMAR
    assert told.p == pytest.approx(binomtest(9, 11, 0.5).pvalue)
    assert told.difference == pytest.approx(-7 / 31)


def test_many_cases_agree_with_a_t_test() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(0, 1, 200), rng.normal(0.15, 1, 200)
    told = compare_pairs([Pair(n, "k", x, y) for n, (x, y) in enumerate(zip(a, b, strict=True))])
    assert told.p == pytest.approx(ttest_rel(b, a).pvalue, abs=0.02)


def test_what_never_differs_is_not_certain() -> None:
    same = compare_pairs([Pair(n, "k", float(n % 2), float(n % 2)) for n in range(10)])
    assert (same.difference, same.p) == (0.0, 1.0)
    assert same.low is not None and same.high is not None and same.low < -0.2 and same.high > 0.2
    always = compare_pairs([Pair(n, "k", 0.0, 1.0) for n in range(10)])
    assert always.difference == 1.0 and always.high == 1.0
    assert always.low is not None and 0.5 < always.low < 0.7


def test_unscored_sides_are_counted_and_left_out() -> None:
    pairs = [Pair(1, "k", 1.0, None), Pair(2, "k", None, None), Pair(3, "k", 1.0, 0.0)]
    told = compare_pairs(pairs)
    assert (told.n, told.unscored, told.difference, told.p, told.low) == (1, 2, -1.0, None, None)
    assert compare_pairs(pairs[:2]).difference is None


@pytest.mark.parametrize(
    ("per", "a", "b"),
    [
        ("record", 3 / 4, 2 / 4),
        ("case", (1 + 2 / 3) / 2, (0 + 2 / 3) / 2),
        ("any", 1.0, 0.5),
        ("all", 0.5, 0.0),
        ("kind", (1 + 1 / 2) / 2, (1 / 2 + 1 / 2) / 2),
        ("harmonic", 2 / (1 / 1 + 2 / 1), 2 / (2 / 1 + 2 / 1)),
    ],
)
def test_means_are_made_up_as_the_report_makes_them(per: str, a: float, b: float) -> None:
    pairs = [Pair(1, "x", 1, 0), Pair(2, "x", 1, 1), Pair(2, "y", 1, 1), Pair(2, "y", 0, 0)]
    told = compare_pairs(pairs, per)
    if per == "harmonic":
        assert told.mean_a == pytest.approx(a)
        assert told.mean_b == pytest.approx(b)
        return
    assert (told.mean_a, told.mean_b) == (pytest.approx(a), pytest.approx(b))


def test_a_drop_is_relative_to_what_there_was() -> None:
    told = relative_drop([Pair(n, "k", 1.0, float(n % 4 == 0)) for n in range(40)])
    assert told.mean == pytest.approx(0.75) and told.n == 40
    assert told.low is not None and told.high is not None and told.low < 0.75 < told.high
    nothing = relative_drop([Pair(1, "k", 0.0, 1.0), Pair(2, "k", 0.0, 0.0)])
    assert (nothing.mean, nothing.n, nothing.unscored) == (None, 0, 2)
    assert relative_drop([Pair(1, "k", 1.0, 0.0), Pair(2, "k", 1.0, None)]).low is None


@pytest.mark.parametrize("per", ["any", "all"])
def test_a_case_that_counts_once_counts_once_in_every_repeat(per: str) -> None:
    once = [Pair(n, "k", float((n + w) % 3 == 0), float((n + w) % 2)) for n in range(30) for w in range(3)]
    again = [pair._replace(repeat=repeat) for pair in once for repeat in range(4)]
    one, four = compare_pairs(once, per), compare_pairs(again, per)
    assert (one.mean_a, one.mean_b, one.cases) == (four.mean_a, four.mean_b, four.cases)
    assert (one.n, four.n) == (30, 120)


def test_what_is_unscored_decides_no_case_that_it_could_still_turn() -> None:
    half = [Pair(1, "k", 0.0, 1.0), Pair(1, "k", None, 0.0), Pair(2, "k", 1.0, 0.0), Pair(2, "k", None, 1.0)]
    told = compare_pairs(half, "any")
    assert (told.n, told.unscored, told.mean_a, told.mean_b) == (1, 1, 1.0, 1.0)
    told = compare_pairs(half, "all")
    assert (told.n, told.unscored, told.mean_a, told.mean_b) == (1, 1, 0.0, 0.0)
    assert relative_drop(half, "any").unscored == 1


@pytest.mark.parametrize("kinds", [((0.0, 1.0), (0.0, 1.0), (1.0, 0.0)), ((0.5, 1.0), (1.0, 0.5), (0.2, 0.9))])
def test_the_interval_of_a_harmonic_difference_is_around_it(kinds: tuple[tuple[float, float], ...]) -> None:
    pairs = [Pair(n, kind, a, b) for n in range(20) for kind, (a, b) in zip("xyz", kinds, strict=True)]
    told = compare_pairs(pairs, "harmonic")
    assert told.low is not None and told.high is not None and told.difference is not None
    assert told.low <= told.difference <= told.high and told.low < told.high
