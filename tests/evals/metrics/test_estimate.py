"""Means and their intervals, and pass^k."""

import itertools

import numpy as np
import pytest

from emend.evals.metrics.estimate import Estimate, estimate, pass_hat_k
from emend.evals.metrics.share_interval import wilson
from emend.memory.errors import BadSettings


def test_mean_and_counts_are_of_the_scored_records_whatever_the_cases_names():
    found = estimate([1.0, None, 0.0, None], ["a", "a", "b", "c"])
    assert (found.mean, found.n, found.unscored) == (0.5, 2, 2)
    assert estimate([None, None], ["a", "b"]) == Estimate(mean=None, n=0, unscored=2)
    assert estimate([], []) == Estimate(mean=None, n=0)
    values = [0.0, 1.0, 1.0, 0.5]
    assert estimate(values, ["x", "y", "x", "z"]) == estimate(values, [7, 1, 7, 3])


def test_one_case_has_no_interval_however_many_records():
    found = estimate([0.0, 1.0, 1.0], ["a", "a", "a"])
    assert (found.low, found.high) == (None, None)
    unscored_elsewhere = estimate([1.0, 0.0, None], ["a", "a", "b"])
    assert unscored_elsewhere.low is None


def width(found: Estimate) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


def test_records_of_one_case_are_drawn_together():
    values = [float(case % 2) for case in range(40) for _ in range(25)]
    clustered = estimate(values, [case for case in range(40) for _ in range(25)])
    as_if_independent = estimate(values, list(range(1000)))
    assert clustered.mean == as_if_independent.mean == 0.5
    assert width(clustered) > 4 * width(as_if_independent)
    assert width(clustered) == pytest.approx(2 * 1.96 * np.sqrt(0.25 / 40), rel=0.15)


def test_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(5)
    shares = [estimate(list(rng.normal(0.3, 1.0, 60)), list(range(60)), seed=n, resamples=400) for n in range(200)]
    covered = sum(s.low is not None and s.high is not None and s.low <= 0.3 <= s.high for s in shares) / 200
    assert 0.88 <= covered <= 0.99


def test_the_same_seed_gives_the_same_interval_and_another_one_nearly():
    values = list(np.random.default_rng(0).random(200))
    cases = [n // 4 for n in range(200)]
    first, again, other = (estimate(values, cases, seed=s) for s in (3, 3, 4))
    assert first == again
    assert first != other
    assert other.low == pytest.approx(first.low, abs=0.02)


@pytest.mark.parametrize(("value", "low", "high"), [(1.0, 0.7225, 1.0), (0.0, 0.0, 0.2775)])
def test_all_right_or_all_wrong_still_has_a_width(value, low, high):
    found = estimate([value] * 30, [n // 3 for n in range(30)])  # 10 cases
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-3), pytest.approx(high, abs=1e-3))
    assert (found.low, found.high) == wilson(int(value) * 10, 10)


def test_wilson_agrees_with_a_known_interval():
    assert wilson(8, 10) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))


def test_per_case_weighs_cases_alike_and_scaling_keeps_what_is_missing():
    values, cases = [1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"]
    assert estimate(values, cases).mean == 0.75
    assert estimate(values, cases, per="case").mean == 0.5
    found = Estimate(mean=0.5, n=4, low=0.25, high=0.75).scaled(100)
    assert (found.mean, found.low, found.high, found.n) == (50.0, 25.0, 75.0, 4)
    assert Estimate(mean=None, n=0).scaled(100).mean is None


@pytest.mark.parametrize(
    ("values", "cases", "more", "said"),
    [
        ([1.0], ["a", "b"], {}, "one case per value"),
        ([1.0], ["a"], {"per": "probe"}, "per='probe'"),
        ([float("nan"), 1.0], ["a", "b"], {}, "unscored"),
    ],
)
def test_impossible_arguments_are_refused(values, cases, more, said):
    with pytest.raises(ValueError, match=said):
        estimate(values, cases, **more)


def test_cases_that_all_have_one_right_and_one_wrong_do_not_give_an_interval_of_width_zero():
    found = estimate([1.0, 0.0] * 10, [case for case in range(10) for _ in range(2)])
    assert found.mean == 0.5
    assert (found.low, found.high) == pytest.approx(wilson(10, 20))  # no better than 20 independent records


def test_a_case_can_count_with_its_best_or_its_worst_record():
    values, cases = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0], ["a", "a", "b", "b", "c", "c"]
    best, worst = estimate(values, cases, per="any"), estimate(values, cases, per="all")
    assert (best.mean, best.n) == (pytest.approx(2 / 3), 3)
    assert (worst.mean, worst.n) == (pytest.approx(1 / 3), 3)


def test_of_what_is_no_share_and_does_not_vary_no_interval_is_known():
    marks = estimate([1.0] * 6, range(6), share=False)
    assert (marks.mean, marks.low, marks.high) == (1.0, None, None)
    varied = estimate([1.0, 5.0, 1.0, 5.0], range(4), share=False)
    assert varied.low is not None and varied.high is not None and 1.0 <= varied.low < 3.0 < varied.high <= 5.0
    assert estimate([1.0] * 6, range(6)).low == pytest.approx(wilson(6, 6)[0])


@pytest.mark.parametrize("attempts", [1, 2, 5, 8])
def test_pass_hat_k_is_the_share_of_all_choices_of_k_attempts_that_succeed(attempts: int):
    for successes, k in itertools.product(range(attempts + 1), range(1, attempts + 1)):
        outcomes = [True] * successes + [False] * (attempts - successes)
        chosen = [all(part) for part in itertools.combinations(outcomes, k)]
        assert pass_hat_k(successes, attempts, k) == pytest.approx(sum(chosen) / len(chosen))


@pytest.mark.parametrize("k", [0, 4])
def test_pass_hat_k_needs_k_attempts(k: int):
    with pytest.raises(BadSettings, match="--repeats"):
        pass_hat_k(2, 3, k)
