"""Figures carry protocol and form; gaps between protocols, silence and filters are shown beside them."""

from typing import Any

import pytest

from emend.evals.case import Metric
from emend.evals.metrics.protocols import metrics_under
from emend.evals.results.aggregate.rows import report
from emend.evals.results.aggregate.tables import LabelledReport, TableChoice, metric_tables
from emend.evals.show.report.export import export
from emend.evals.show.report.metric_notes import notes
from tests.evals.made import record, write_run

METRICS = metrics_under([Metric(name="EM", value="em", kinds=("efficacy",), scale=100)], ())
BOTH = metrics_under(METRICS[:1], ("exact", "likelihood"))


def said(case: str, em: float, contains: float, editor: str = "rag", **more: Any):
    return record(case, editor, values={"em": em, "contains": contains}, form="chat", **more)


def silent(case: str, **more: Any):
    reasons = {"em": "the reply is empty", "contains": "the reply is empty"}
    return record(case, unscored=reasons, no_answer=True, form="chat", **more)


def rows_of(folder):
    return {(row.editor, row.metric): row for row in report(folder).rows}


def test_a_figure_carries_its_protocol_and_the_form_in_which_the_model_was_asked(tmp_path):
    run = write_run(tmp_path / "run", [said("1", 0, 1), said("2", 1, 1)], metrics=METRICS)
    rows = rows_of(run)
    assert (rows["rag", "EM"].protocol, rows["rag", "EM"].form) == ("exact", "chat")
    assert rows["rag", "EM contains"].protocol == "contains"
    (table,) = metric_tables([LabelledReport(report(run), {})])
    assert "chat messages" in table.title and table.protocol(METRICS[1]) == "contains"
    assert "EM (contains, n=2)" in export([LabelledReport(report(run), {})], "markdown")
    assert "protocol,form" in export([LabelledReport(report(run), {})], "csv")


def test_forms_that_differ_within_a_table_are_named_by_column(tmp_path):
    records = [said("1", 1, 1), record("2", values={"em": 1.0, "contains": 0.0}, form="plain")]
    run = write_run(tmp_path / "run", records, metrics=METRICS)
    assert rows_of(run)["rag", "EM"].form == "chat and plain"


def test_the_gap_of_two_protocols_is_paired_by_probe(tmp_path):
    run = write_run(tmp_path / "run", [said(str(n), n < 1, n < 3) for n in range(4)], metrics=METRICS)
    (gap,) = report(run).gaps
    assert (gap.first, gap.second, gap.mean, gap.n) == ("EM", "EM contains", 50.0, 4)
    assert gap.low is not None and gap.high is not None and gap.low < 50 < gap.high < 100  # of four cases
    assert any("contains minus exact, rag: EM +50.0" in note for note in notes(report(run)))


def test_a_gap_of_cases_that_count_by_their_best_wording_is_that_of_the_best(tmp_path):
    (best,) = METRICS[:1]
    metrics = metrics_under([best.model_copy(update={"per": "any", "protocol": ""})], ())
    wordings = [[(0, 0), (0, 1)], [(0, 1), (1, 0)], [(0, 0), (0, 0)]]
    records = [
        said(str(case), em, contains, probe=f"p{number}")
        for case, said_so in enumerate(wordings)
        for number, (em, contains) in enumerate(said_so)
    ]
    (gap,) = report(write_run(tmp_path / "run", records, metrics=metrics)).gaps
    assert (gap.mean, gap.n) == (pytest.approx(100 / 3), 3)


def test_what_was_not_answered_is_shown_as_wrong_too_and_cannot_win(tmp_path):
    records = [said("1", 1, 1), silent("2"), said("1", 1, 1, "cot"), said("2", 0, 1, "cot")]
    run = write_run(tmp_path / "run", records, metrics=METRICS)
    row = rows_of(run)["rag", "EM"]
    assert (row.mean, row.unscored, row.as_wrong) == (100.0, 1, 50.0)
    assert rows_of(run)["cot", "EM"].as_wrong is None
    assert "1 unscored, 50.0 as wrong" in export([LabelledReport(report(run), {})], "markdown")


def test_what_is_unscored_for_another_reason_is_no_wrong_answer(tmp_path):
    waiting = record("2", unscored={"em": "awaits a judge"}, form="chat")
    run = write_run(tmp_path / "run", [said("1", 1, 1), waiting], metrics=METRICS)
    assert rows_of(run)["rag", "EM"].as_wrong is None


def test_records_left_out_by_a_filter_are_in_no_figure_and_are_counted(tmp_path):
    run = write_run(tmp_path / "run", [said("1", 0, 0), said("2", 1, 1, excluded="right before")], metrics=METRICS)
    assert (rows_of(run)["rag", "EM"].mean, rows_of(run)["rag", "EM"].n) == (0.0, 1)
    assert report(run).excluded == {"right before": 1}
    assert any("left out in 1 record: right before" in note for note in notes(report(run)))


def test_replies_that_were_cut_off_are_counted(tmp_path):
    run = write_run(tmp_path / "run", [said("1", 0, 1), said("2", 0, 0, is_cut_off=True)], metrics=METRICS)
    assert rows_of(run)["rag", "EM"].cut_off == 1
    assert "1 cut off" in export([LabelledReport(report(run), {})], "markdown")


@pytest.mark.parametrize("contains", [1.0, 0.0])
def test_the_papers_exact_stands_beside_the_headline_where_it_says_something_else(tmp_path, contains):
    run = write_run(tmp_path / "run", [said("1", 0, contains)], metrics=METRICS)
    reports = [LabelledReport(report(run), {})]
    (table,) = metric_tables(reports)
    assert [metric.name for metric in table.metrics] == ["EM contains", "EM"][: 1 + int(contains)]
    assert [(each.metric.name, each.reason) for each in table.left_out] == (
        [] if contains else [("EM", "by exact, the same figures")]
    )
    (whole,) = metric_tables(reports, TableChoice(everything=True))
    assert len(whole.metrics) == 2
