"""The mean over groups that count alike."""

import numpy as np
import pytest

from emend.evals.case import Metric, Record
from emend.evals.metrics.estimate import Estimate, estimate, macro
from emend.evals.results.aggregate.record_table import gather
from emend.evals.results.aggregate.rows import rows_of


def test_groups_count_alike_and_one_of_a_single_case_leaves_no_interval():
    small, large = estimate([1.0, 0.0], [0, 1]), estimate([0.0] * 98 + [1.0] * 2, list(range(100)))
    told = macro([small, large])
    assert (told.mean, told.n) == (pytest.approx((0.5 + 0.02) / 2), 102)
    told = macro([Estimate(mean=1.0, n=1), Estimate(mean=0.0, n=9, low=0.0, high=0.3)])
    assert (told.mean, told.low, told.high) == (0.5, None, None)


@pytest.mark.slow
def test_the_interval_is_that_of_drawing_each_group_anew():
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, 2, size) * 1.0 for size in (40, 90, 60)]
    told = macro([estimate(list(values), list(range(len(values)))) for values in drawn])
    anew = [np.mean([rng.choice(values, len(values)).mean() for values in drawn]) for _ in range(4000)]
    assert told.low == pytest.approx(np.quantile(anew, 0.025), abs=0.02)
    assert told.high == pytest.approx(np.quantile(anew, 0.975), abs=0.02)


def test_a_group_without_a_score_is_left_out_and_its_records_counted():
    told = macro([Estimate(mean=0.5, n=4, low=0.2, high=0.8), Estimate(mean=None, n=0, unscored=7)])
    assert (told.mean, told.n, told.unscored, told.low) == (0.5, 4, 7, pytest.approx(0.2))
    assert macro([Estimate(mean=None, n=0, unscored=7)]) == Estimate(mean=None, n=0, unscored=7)


def test_a_report_takes_the_mean_over_the_kinds_that_a_metric_names():
    def record(kind: str, value: float, case: int) -> Record:
        name = f"{kind}{case}"
        return Record(
            unit=name, of=1, case=name, probe="p", kind=kind, editor="e", model="m", setting="s", mode="all",
            prompt="?", gold=("g",), values={"em": value},
        )  # fmt: skip

    records = [record("a", 1.0, n) for n in range(2)] + [record("b", 0.0, n) for n in range(8)]
    mean = Metric(name="mean", value="em", kinds=("a", "b", "c"), per="kind", scale=100.0)
    (row,) = rows_of(gather(records), [mean], ["e"])
    assert (row.mean, row.n) == (50.0, 10)
    assert row.low is not None and row.high is not None and 0 < row.low < 50 < row.high < 100
