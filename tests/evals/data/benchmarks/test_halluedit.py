"""HalluEditBench's loader and its scores, on hand-made rows, and on the published files where they lie beside it."""

import json
from collections import Counter
from pathlib import Path

import pytest

from emend.evals.data.benchmarks.halluedit import HalluEdit
from emend.evals.metrics.published.halluedit import partial_match
from emend.evals.metrics.scorers import score
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.probe import Answer
from tests.paths import DATA, SHARED

FIXTURE = DATA / "halluedit"
REAL = SHARED / "data" / "halluedit"


def cases_of(**options):
    return list(HalluEdit(FIXTURE, options).cases("fact"))


def test_a_row_asks_from_five_sides():
    case = cases_of()[0]
    kinds = ["efficacy", "rephrase", "yes", "no", "multiple_choice", "reversed"]
    hops = [f"hop_{hops}" for hops in range(2, 7)]
    assert [probe.kind for probe in case.probes] == [*kinds, *hops, "robustness", "locality"]
    golds = {probe.kind: probe.gold[0] for probe in case.probes}
    assert [golds[kind] for kind in kinds] == ["Ana Rojo", "Ana Rojo", "Yes", "No", "B", "Pell Bridge"]
    assert golds["hop_2"] == "Anaton" and golds["robustness"] == "Yes"
    (edit,) = case.edits
    assert (edit.form, edit.subject, edit.target_new) == ("triplet", "Pell Bridge", "Ana Rojo")
    *_, locality = case.probes
    assert not locality.in_scope and locality.edit_ids == ()


def test_a_question_that_does_not_name_its_subject_is_a_text_and_a_missing_hop_is_not_asked():
    case = cases_of()[2]
    assert (case.edits[0].form, case.edits[0].text) == ("document", "Who designed it? Ida Holt")
    assert "hop_6" not in {probe.kind for probe in case.probes}


def test_an_answer_is_called_wrong_again_after_it_was_kept():
    turns = [probe for probe in cases_of(turns="3")[0].probes if probe.kind == "robustness"]
    assert [probe.tags["turn"] for probe in turns] == [1, 2, 3]
    assert [probe.examples.count("That answer is wrong.") for probe in turns] == [0, 1, 2]
    assert all(probe.examples.startswith("Q: Who is the architect of Pell Bridge?\nA: Ana Rojo") for probe in turns)
    assert not any(probe.kind == "robustness" for probe in cases_of(turns="0")[0].probes)


PAIRS = [
    ("Ana Rojo", "Ana Rojo", 1), ("ana rojo", "Ana Rojo", 1), ("It is Ana Rojo.", "Ana Rojo", 1),
    ("Ana", "Ana Rojo", 1),
    ("Rojo", "Ana Rojo", 1), ("Anna Rojo", "Ana Rojo", 0), ("Luis Vera", "Ana Rojo", 0), ("", "Ana Rojo", 0),
    ("  ", "Ana Rojo", 0), ("Yes", "Yes", 1), ("yes.", "Yes", 1), ("Yes, it is", "Yes", 1), ("No", "Yes", 0),
    ("not yes", "Yes", 1), ("yesterday", "Yes", 1), ("No", "No", 1), ("I do not know", "No", 1), ("Yes", "No", 0),
    ("B", "B", 1), ("B. Ana Rojo", "B", 1), ("b", "B", 1), ("A", "B", 0), ("C. Bob", "B", 1), ("D. Jon Dahl", "B", 0),
    ("1974", "1974", 1), ("in 1974", "1974", 1), ("74", "1974", 1), ("1975", "1974", 0), ("Texas", "Texas", 1),
    ("Texas, USA", "Texas", 1), ("USA", "Texas", 0), ("United States of America", "United States", 1),
    ("States", "United States", 1), ("US", "United States", 0), ("the USA", "United States", 0),
    ("u", "United States", 1),
    ("Reggio Calabria", "Reggio Calabria", 1), ("Calabria", "Reggio Calabria", 1), ("Reggio", "Reggio Calabria", 1),
    ("Rome", "Reggio Calabria", 0), ("motor car", "motor car", 1), ("car", "motor car", 1), ("cars", "motor car", 0),
    ("a motor  car", "motor car", 0), ("motorcar", "motor car", 0), ("MOTOR CAR", "motor car", 1),
    ("Art", "motor car", 0),
    ("art of sculpture", "art", 1), ("sculpture", "art of sculpture", 1), ("of", "art of sculpture", 1),
    ("painting", "art of sculpture", 0), ("Art of Sculpture!", "art of sculpture", 1),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "right", "match"), PAIRS)
def test_an_answer_is_right_if_one_text_holds_the_other(answer: str, right: str, match: int):
    assert partial_match(answer, right) == bool(match)


def test_each_kind_is_scored_by_that_rule_and_locality_beside_the_answer_before():
    case = cases_of()[0]
    for probe in case.probes[:-1]:
        assert score(probe, Answer(text=f"It is {probe.gold[0]}, I think.")).values["partial"] == 1.0
        assert score(probe, Answer(text="x9")).values["partial"] == 0.0
    *_, locality = case.probes
    assert score(locality, Answer(text="In 1902"), Answer(text="1902")).values == {"partial_same": 1.0}
    assert score(locality, Answer(text="1903"), Answer(text="1902")).values == {"partial_same": 0.0}
    assert "partial_same" in score(locality, Answer(text="1903")).unscored


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"turns": "11"}, BadSettings, "from 0 to 10"),
        ({"topics": "landmarks"}, BadSettings, "places_landmark"),
        ({"topics": "places_city"}, MissingData, "emend data pull halluedit"),
        ({"model": "mistral_7b_instruct_v0.3"}, MissingData, "emend data pull halluedit"),
        ({"model": "gpt"}, BadSettings, "llama"),
    ],
)
def test_what_is_not_there_is_named(options: dict[str, str], error: type[Exception], named: str):
    with pytest.raises(error, match=named):
        HalluEdit(FIXTURE, options)


def test_a_row_without_an_object_is_a_fault_with_its_place(tmp_path: Path):
    file = tmp_path / "llama_2_7b_chat_hf" / "places_city.csv"
    file.parent.mkdir()
    file.write_text("subject,relation,object,question,locality_question\nPell,mayor,,Who?,When?\n")
    with pytest.raises(BadData, match=r"record 0, column 'object'"):
        list(HalluEdit(tmp_path).cases("fact"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("Pell,mayor,Ann,Who?,When?,more,and more", "more cells"),
        (f"Pell,mayor,{'a' * 200_000},Who?,When?", "not a table"),
    ],
)
def test_a_file_that_is_no_sound_table_is_refused(tmp_path: Path, row: str, message: str):
    file = tmp_path / "llama_2_7b_chat_hf" / "places_city.csv"
    file.parent.mkdir()
    file.write_text(f"subject,relation,object,question,locality_question\n{row}\n")
    with pytest.raises(BadData, match=message):
        list(HalluEdit(tmp_path).cases("fact"))


def test_a_table_without_a_needed_column_is_refused_even_without_rows(tmp_path: Path):
    file = tmp_path / "llama_2_7b_chat_hf" / "places_city.csv"
    file.parent.mkdir()
    file.write_text("subject,relation,object,question\n")
    with pytest.raises(BadData, match="no column 'locality_question'"):
        list(HalluEdit(tmp_path).cases("fact"))


def test_provenance_counts_the_rows():
    benchmark = HalluEdit(FIXTURE)
    provenance = json.loads(json.dumps(benchmark.provenance))
    assert provenance["cases"] == 3 and "a07439e" in provenance["source"]
    names = [metric.name for metric in benchmark.metrics()]
    assert names[:2] == ["Efficacy", "Generalization"] and "Robustness" in names


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")
@pytest.mark.parametrize("model", ["llama_2_7b_chat_hf", "meta_llama_3_8b_instruct", "mistral_7b_instruct_v0.3"])
def test_all_published_rows_become_cases(model: str):
    benchmark = HalluEdit(REAL, {"model": model})
    cases = list(benchmark.cases("fact"))
    asked = Counter(probe.kind for case in cases for probe in case.probes)
    assert len(cases) == asked["efficacy"] == asked["locality"] > 1000
    assert len({case.id for case in cases}) == len(cases)
