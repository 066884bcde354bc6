"""Intervals of means over few clusters with many values."""

import numpy as np
import pytest

from emend.evals.measure.large_clusters import interval_of_large, with_interval
from emend.evals.metrics.estimate import Estimate


def test_of_equal_clusters_it_is_students_interval_of_their_means():
    means = [0.2, 0.4, 0.9]
    values = [mean for mean in means for _ in range(20)]
    ends = interval_of_large(values, [number // 20 for number in range(60)])
    half = 4.302653 * float(np.std(means, ddof=1)) / 3**0.5
    assert ends == pytest.approx((0.5 - half, 0.5 + half), rel=1e-5)


def test_it_covers_the_truth_about_as_often_as_it_says():
    draw = np.random.default_rng(0)
    owners = [number // 40 for number in range(200)]
    hits = 0
    for _ in range(400):
        shares = np.clip(draw.normal(0.8, 0.03, 5), 0, 1)
        low, high = interval_of_large(
            (draw.random((5, 40)) < shares[:, None]).ravel().astype(float).tolist(), owners
        ) or (1, 0)
        hits += low <= 0.8 <= high
    assert 0.91 <= hits / 400 <= 0.99


def test_small_single_or_equal_clusters_have_none_and_ends_stay_shares():
    assert interval_of_large([1.0] * 8, [0, 1] * 4) is None
    assert interval_of_large([1.0, 0.0] * 20, ["a"] * 40) is None
    assert interval_of_large([1.0] * 40, [0, 1] * 20) is None
    figure = Estimate(mean=0.95, n=40, low=0.1, high=0.2)
    wide = with_interval(figure, [1.0] * 20 + [0.5] * 20, [0] * 20 + [1] * 20)
    assert (wide.low, wide.high) == (0.0, 1.0)
    assert with_interval(figure, [1.0] * 4, [0, 0, 1, 1]) is figure
