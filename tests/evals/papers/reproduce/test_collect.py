"""The figures of a table that are means of other figures."""

import pytest

from emend.evals.metrics.estimate import estimate
from emend.evals.papers.reproduce.collect import Figure, mean_fields
from emend.evals.papers.reproduce.needs import plan_cells
from emend.evals.papers.tables import table


def test_a_mean_of_figures_has_the_interval_of_the_report_and_counts_what_is_unscored() -> None:
    recoe = table("recoe:3")
    plan = next(each for each in plan_cells(recoe, {cell.model: "tiny" for cell in recoe.cells}) if each.parts)
    value = estimate([0.0] * 20, range(20)).scaled(100)
    part = {"model": "tiny", "status": "now", "mean": 0.0, "low": 0.0, "high": value.high, "n": 20, "unscored": 3}
    figures = {cell.key(): Figure.model_validate(part | {"cell": cell}) for cell in plan.parts}
    fields = mean_fields(plan, figures)
    assert fields["low"] == 0.0 and fields["high"] == pytest.approx(6.58, abs=0.01)
    assert (fields["n"], fields["unscored"]) == (20 * len(plan.parts), 3 * len(plan.parts))
