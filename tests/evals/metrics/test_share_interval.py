"""Intervals of shares near 0 and 1, of harmonic means with such parts, and of differences of few cases."""

import numpy as np
import pytest

from emend.evals.metrics.estimate import bootstrap_means, estimate, harmonic, percentile_interval
from emend.evals.metrics.paired import Pair, compare_pairs
from emend.evals.metrics.share_interval import effective_size, wilson


def ends(right: int, cases: int, probes: int = 1) -> tuple[float, float]:
    """The interval of so many right values, in as many cases, of all values of the cases."""
    values = [float(probe == 0 and case < right) for case in range(cases) for probe in range(probes)]
    result = estimate(values, [case for case in range(cases) for _ in range(probes)])
    assert result.low is not None and result.high is not None
    return result.low, result.high


@pytest.mark.parametrize("probes", [1, 3, 10])
@pytest.mark.parametrize("cases", [12, 40, 100])
def test_one_success_does_not_narrow_the_interval(cases: int, probes: int) -> None:
    none, one, two = (ends(right, cases, probes) for right in range(3))
    assert none == (0.0, pytest.approx(wilson(0, cases)[1]))
    assert none[1] <= one[1] <= two[1]
    assert 0 < one[0] < two[0] < 2 / (cases * probes)


def test_one_of_forty_and_its_mirror() -> None:
    assert ends(0, 40) == (0.0, pytest.approx(0.0876, abs=1e-4))
    assert ends(1, 40) == (pytest.approx(0.0013, abs=1e-4), pytest.approx(0.1288, abs=1e-4))
    failed = estimate([0.0] + [1.0] * 39, range(40))
    assert (failed.low, failed.high) == (pytest.approx(1 - 0.1288, abs=1e-4), pytest.approx(1 - 0.0013, abs=1e-4))


def test_far_from_the_ends_the_bootstrap_is_kept() -> None:
    values = np.array([float(n % 3 == 0) for n in range(60)])
    result = estimate(list(values), [f"{n:02}" for n in range(60)])
    drawn = percentile_interval(bootstrap_means(values, np.ones(60), 0, 2000))
    assert (result.low, result.high) == drawn


def test_alike_probes_of_a_case_are_one_observation_and_others_more() -> None:
    alike = effective_size(np.array([3.0] * 6 + [0.0] * 6), np.full(12, 3.0))
    mixed = effective_size(np.array([2.0, 1.0] * 6), np.full(12, 3.0))
    assert alike == pytest.approx(12) and 12 < mixed <= 36


def test_a_harmonic_mean_of_zero_is_not_certain() -> None:
    cases = range(12)
    right, wrong = ([1.0] * 12, cases), ([0.0] * 12, cases)
    result = harmonic([right, right, wrong])
    assert (result.mean, result.low) == (0.0, 0.0) and 0.3 < (result.high or 0) < 0.6
    assert 0.1 < (harmonic([right, wrong, wrong]).high or 0) < 0.6


def test_few_differing_cases_do_not_make_a_difference_certain() -> None:
    def interval(better: int, worse: int = 0) -> tuple[float, float]:
        pairs = [Pair(n, "k", float(better <= n < better + worse), float(n < better)) for n in range(40)]
        result = compare_pairs(pairs)
        assert result.low is not None and result.high is not None
        return result.low, result.high

    (same_low, same_high), (one_low, one_high) = interval(0), interval(1)
    assert same_low == pytest.approx(-same_high) and same_high == pytest.approx(wilson(0, 40)[1])
    assert one_low < 0 < one_high and one_high - one_low > same_high - same_low
    assert interval(0, 1) == (pytest.approx(-one_high), pytest.approx(-one_low))


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "share", "probes"), [(12, 0.05, 1), (40, 0.02, 3), (40, 0.95, 1), (100, 0.01, 10)])
def test_intervals_cover_the_truth(cases: int, share: float, probes: int) -> None:
    rng, owners = np.random.default_rng(7), np.repeat(np.arange(cases), probes)
    samples = ((rng.random(cases * probes) < share).astype(float) for _ in range(200))
    results = [estimate(values, owners, resamples=400) for values in samples]
    covered = [result.low is not None and result.low <= share <= (result.high or 0) for result in results]
    assert np.mean(covered) > 0.9
