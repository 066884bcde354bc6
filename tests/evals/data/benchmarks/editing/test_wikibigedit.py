"""WikiBigEdit's loader on rows of the published form; its scores are checked in `metrics/test_tokens.py`."""

import json

import pytest

from emend.evals.data.benchmarks.editing.wikibigedit import WikiBigEdit
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.paths import DATA

FIXTURE = DATA / "wikibigedit"
ROW = {"update": "Who keeps Pell?", "ans": "Ana", "loc": "Who keeps Aske?", "loc_ans": "Ida"}


def test_a_row_is_asked_in_all_wordings_over_a_further_fact_and_beside_it():
    first, second, third = WikiBigEdit(FIXTURE).cases("fact")
    kinds = ["update", "rephrase", "personas", "personas", "mhop", "locality"]
    assert [probe.kind for probe in first.probes] == kinds
    assert first.probes[0].prompt == "Q: Who is the keeper of Pell Lock? A:"
    assert first.probes[0].query == "Who is the keeper of Pell Lock?", "a memory is searched for the question alone"
    assert [probe.tags for probe in first.probes[2:4]] == [{"persona": "personas"}, {"persona": "personas_detective"}]
    assert first.probes[4].gold == ("Veld",) and first.tags == {"record": 0, "tag": "new"}
    *_, beside = first.probes
    assert not beside.in_scope and beside.scorers == ("same_tokens", "teacher_forced", "token_f1")
    assert (first.edits[0].form, third.edits[0].form) == ("triplet", "document")
    assert [probe.kind for probe in third.probes] == ["update", "rephrase", "personas", "locality"]
    assert len(second.probes) == 5


def test_a_number_is_an_answer(tmp_path):
    (tmp_path / "p.json").write_text(json.dumps([ROW | {"ans": 1914}]), "utf-8")
    (case,) = WikiBigEdit(tmp_path).cases("fact")
    assert case.probes[0].gold == ("1914",)


def test_a_period_is_a_file(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(json.dumps([ROW | {"ans": name}]), "utf-8")
    firsts = [WikiBigEdit(tmp_path, options) for options in ({}, {"period": "b"}, {"period": "b.json"})]
    assert [next(first.cases("fact")).edits[0].target_new for first in firsts] == ["a", "b", "b"]
    with pytest.raises(BadSettings, match="one of a, b"):
        WikiBigEdit(tmp_path, {"period": "c"})


def test_a_link_to_nowhere_is_named(tmp_path):
    (tmp_path / "a.json").symlink_to(tmp_path / "gone.json")
    with pytest.raises(MissingData, match="a.json"):
        WikiBigEdit(tmp_path)


def test_an_empty_folder_and_a_row_without_an_answer_are_named(tmp_path):
    with pytest.raises(MissingData, match="lukasthede/WikiBigEdit"):
        WikiBigEdit(tmp_path)
    (tmp_path / "p.json").write_text(json.dumps([ROW | {"loc_ans": None}]), "utf-8")
    with pytest.raises(BadData, match="loc_ans"):
        list(WikiBigEdit(tmp_path).cases("fact"))


def test_provenance_names_the_repository_and_counts_the_rows():
    benchmark = WikiBigEdit(FIXTURE)
    assert benchmark.provenance["cases"] == 3 and "66b4285" in benchmark.provenance["source"]
    assert benchmark.mode == "sequential"
