"""The analysis of tool calls, over records whose scores are written by hand."""

from pathlib import Path

import pytest

from emend.evals.results.analyses.base import Lacking
from tests.evals.made import record, write_run
from tests.evals.results.analyses.computed import analysed, numbers

CALLS = {"calls": 3.0, "edits_found": 0.5, "all_edits_found": 0.0, "needless_calls": 2.0, "repeated_calls": 1.0}
ALL = {"calls": 2.0, "edits_found": 1.0, "all_edits_found": 1.0, "needless_calls": 0.0, "repeated_calls": 0.0}


def test_calls_are_summed_up_by_what_they_returned_and_by_the_answer(tmp_path: Path):
    records = [
        record("0", values={**CALLS, "invalid_calls": 1.0, "recovered": 1.0, "em": 1.0}),
        record("1", values={**ALL, "invalid_calls": 0.0, "em": 0.0}),
        record("2", values={"em": 1.0}),
    ]
    values = {
        label: value
        for (label, _), value in numbers(analysed("trajectory", write_run(tmp_path / "a", records))).items()
    }
    assert values["calls"] == (2.5, 2) and values["edits found"] == (75.0, 2) and values["all edits found"] == (50.0, 2)
    assert values["recovered"] == (100.0, 1) and values["invalid calls"] == (0.5, 2)
    assert values["right, not all edits found"] == (50.0, 2) and values["wrong, all edits found"] == (50.0, 2)
    assert not any(label.startswith("pass") for label in values)


def test_shares_that_are_all_alike_have_wilson_s_interval_and_counts_none(tmp_path: Path):
    records = [record(str(n), values={**ALL, "invalid_calls": 0.0, "em": 1.0}) for n in range(10)]
    rows = {row.label: row for row in analysed("trajectory", write_run(tmp_path / "a", records)).rows}
    assert rows["edits found"].low == pytest.approx(72.2, abs=0.1) and rows["edits found"].high == 100.0
    assert rows["right, not all edits found"].high == pytest.approx(27.8, abs=0.1)
    assert rows["calls"].low is None and rows["needless calls"].high is None


def test_repeats_give_the_chance_that_all_of_k_are_right(tmp_path: Path):
    outcomes = {"0": (1, 1, 1), "1": (1, 0, 1)}
    records = [
        record(case, unit=f"{case}-{n}", repeat=n, values={**ALL, "invalid_calls": 0.0, "em": float(right)})
        for case, rights in outcomes.items()
        for n, right in enumerate(rights)
    ]
    values = {
        label: value
        for (label, _), value in numbers(analysed("trajectory", write_run(tmp_path / "a", records))).items()
    }
    assert values["pass^1"] == (pytest.approx(100 * (1 + 2 / 3) / 2), 2)
    assert values["pass^2"] == (pytest.approx(100 * (1 + 1 / 3) / 2), 2) and values["pass^3"] == (50.0, 2)


def test_a_run_without_calls_says_which_editor_makes_some(tmp_path: Path):
    with pytest.raises(Lacking, match="agent"):
        analysed("trajectory", write_run(tmp_path / "a", [record("0", values={"em": 1.0})]))
