"""Marks of the best values: one needs an interval, or a paired difference, that excludes the next one."""

from pathlib import Path

import pytest

from emend.evals.case import Metric
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.marks import MarkedRow, Rival, marks_of
from emend.evals.results.aggregate.rows import report
from emend.evals.results.aggregate.tables import LabelledReport, metric_tables
from emend.evals.show.report.export import export
from tests.evals.made import EM, record, write_run

LOSS = EM.model_copy(update={"higher_is_better": False})
AGREEMENT = Metric(name="agreement", value="agreement", kinds=("locality",), scale=100)


def value(editor: str, mean: float, low: float | None, high: float | None, n: int = 20, unscored: int = 0) -> MarkedRow:
    row = MetricRow(
        editor=editor, setting="s", mode="all", metric="EM", mean=mean, low=low, high=high, n=n, unscored=unscored
    )
    return MarkedRow(row)


def test_the_best_excludes_every_other_and_the_highest_does_not() -> None:
    apart = [value("rag", 90, 85, 95), value("ike", 50, 40, 60), MarkedRow(None)]
    assert marks_of(apart, EM) == ["best", "", ""]
    assert marks_of(apart, LOSS) == ["", "best", ""]
    overlapping = [value("rag", 90, 80, 95), value("ike", 85, 75, 92), value("cot", 10, 5, 20)]
    assert marks_of(overlapping, EM) == ["highest", "", ""]
    paired = [Rival("s", "all", "EM", "rag", "ike")]
    assert marks_of(overlapping, EM, paired) == ["best", "", ""]
    assert marks_of([value("rag", 90, None, None), value("ike", 50, 40, 60)], EM) == ["highest", ""]
    assert marks_of([value("rag", 90, 85, 95), value("ike", 90, 80, 95)], EM) == ["", ""]
    assert marks_of([value("rag", 90, 85, 95)], EM) == [""]


def test_a_row_of_fewer_probes_has_no_mark() -> None:
    rows = [
        value("mello", 100, 34, 100, n=2),
        value("rag", 82, 70, 92, n=23),
        value("ike", 50, 30, 70, n=20, unscored=3),
    ]
    assert marks_of(rows, EM) == ["", "highest", ""]


def test_the_unedited_model_has_no_mark_where_it_is_right_by_definition() -> None:
    rows = [value("unedited", 100, 98, 100), value("rag", 60, 50, 70), value("ike", 10, 2, 20)]
    assert marks_of(rows, AGREEMENT) == ["", "best", ""]
    assert marks_of(rows, EM) == ["best", "", ""]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Run in which ike is right wherever rag is, and in a quarter of the cases more: the intervals overlap."""
    right = {"rag": 20, "ike": 30}
    records = [
        record(f"c{case:02}", editor=editor, values={"em": float(case < right[editor])})
        for editor in right
        for case in range(40)
    ]
    return write_run(tmp_path / "run", records, metrics=(EM,))


def test_a_paired_difference_decides_where_intervals_overlap(run: Path) -> None:
    found = report(run)
    assert [rival[2:] for rival in found.rivals] == [("EM", "ike", "rag")]
    rows = {row.editor: row for row in found.rows}
    assert (rows["ike"].low or 0) < (rows["rag"].high or 0)
    (table,) = metric_tables([LabelledReport(found, {})])
    assert table.marks(EM) == ["", "best"]


def test_every_export_has_the_marks_and_says_what_they_mean(run: Path) -> None:
    reports = [LabelledReport(report(run), {})]
    markdown, latex, html = (export(reports, form) for form in ("markdown", "latex", "html"))
    assert "| **75.0** [" in markdown and "bold: best" in markdown and "**50.0**" not in markdown
    assert r"\textbf{75.0} [" in latex and "<strong>75.0</strong> [" in html
    lines = export(reports, "csv").splitlines()
    assert lines[0].endswith(",mark") and [line.rpartition(",")[2] for line in lines[1:]] == ["", "best"]
