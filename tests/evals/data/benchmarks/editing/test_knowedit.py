"""KnowEdit's loader on rows of the published form, and its means of means as the published script takes them.

`portability_cases.json` has 50 lists of rows with the scores of their groups, and the portability that the expressions
of `run_knowedit_llama2.py` give for them (mean of a group's scores, of a row's groups, of the rows that have any).
"""

import json
from collections import Counter

import pytest

from emend.evals.case import Metric
from emend.evals.data.benchmarks.editing.knowedit import PORTABILITY, KnowEdit, first_text
from emend.evals.metrics.paired import Pair, compare_pairs
from emend.evals.results.aggregate.columns import Column, estimate_of
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.paths import DATA

FIXTURE = DATA / "knowedit"
TABLES = json.loads((DATA / "editing" / "portability_cases.json").read_text("utf-8"))
KINDS = tuple(name.lower() for name in PORTABILITY)
METRIC = Metric(name="Portability", value="token_accuracy", kinds=KINDS, per="case_kinds", scale=100.0)


def cases_of(**options):
    return list(KnowEdit(FIXTURE, options).cases("fact"))


def test_a_row_asks_for_the_edit_what_follows_and_what_stays():
    first, second, third = cases_of()
    kinds = ["edit", "reasoning", "reasoning", "subject_aliasing", "relation_specificity", "forgetfulness"]
    assert [probe.kind for probe in first.probes] == kinds, "a group whose answer is blank is not asked"
    assert (first.edits[0].form, first.edits[0].subject, first.edits[0].target_new) == (
        "triplet",
        "Pell Lock",
        "Ana Rojo",
    )
    assert first.probes[1].gold == ("Veld",), "the first of the answers, as in the code"
    assert all(probe.in_scope == (probe.scorers == ("teacher_forced",)) for probe in first.probes)
    assert [probe.prompt for probe in second.probes if probe.kind == "rephrase"] == ["Aske Weir is kept by"]
    assert "logical_generalization" in {probe.kind for probe in second.probes}
    assert not [probe for probe in third.probes if not probe.in_scope]


def test_a_biography_is_a_document_with_its_sentence():
    case = cases_of(dataset="wikibio")[0]
    assert case.edits[0].target_new == "Rojo was born in Veld."
    assert Counter(probe.kind for probe in case.probes) == {"edit": 1, "relation_specificity": 1}


def test_an_erased_answer_stands_beside_one_that_stays():
    cases = cases_of(dataset="sanitation")
    assert [case.edits[0].target_new for case in cases] == ["I don't know."] * 3
    retained = [probe.prompt for case in cases for probe in case.probes if probe.kind == "retained"]
    assert retained == ["Who keeps Pell Lock?", "Who keeps Aske Weir?", "Who keeps Pell Lock?"]


def test_texts_for_fluency_are_as_long_as_asked_for():
    texts = [probe for probe in cases_of(generation="100")[0].probes if probe.kind == "generation"]
    assert [(text.new_tokens, text.scorers) for text in texts] == [(100, ("fluency",))]


@pytest.mark.parametrize("number", range(len(TABLES)))
def test_portability_is_the_published_mean_of_means(number):
    table = TABLES[number]
    columns = {}
    for kind in KINDS:
        scores = [(value, case) for case, row in enumerate(table["rows"]) for value in row.get(kind, ())]
        columns["token_accuracy", kind] = Column.of([value for value, _ in scores], [case for _, case in scores])
    found = estimate_of(columns, METRIC)
    assert found.mean == pytest.approx(table["portability"])
    assert found.n == sum(len(scores) for row in table["rows"] for scores in row.values())
    pairs = [
        Pair(case, kind, value, 0.0)
        for case, row in enumerate(table["rows"])
        for kind, scores in row.items()
        for value in scores
    ]
    assert compare_pairs(pairs, per="case_kinds").mean_a == pytest.approx(table["portability"] / 100)


@pytest.mark.parametrize(
    ("value", "text"), [("Veld", "Veld"), ([["Veld", "Veldt"]], "Veld"), ([], ""), ([[]], ""), ([" "], ""), (3, "3")]
)
def test_the_first_of_nested_answers_is_the_right_one(value, text):
    assert first_text(value) == text


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"dataset": "wiki"}, BadSettings, "unknown dataset"),
        ({"dataset": "ConvSent"}, BadSettings, "ConvSent is not read.*dataset=counterfact"),
        ({"generation": "many"}, BadSettings, "number of tokens"),
        ({"dataset": "zsre"}, MissingData, "zjunlp/KnowEdit"),
    ],
)
def test_what_is_not_there_is_named(options, error, named):
    with pytest.raises(error, match=named):
        KnowEdit(FIXTURE, options)


@pytest.mark.parametrize(
    ("name", "content", "field"),
    [
        ("test_cf.json", [{"subject": "Pell", "prompt": "Pell is"}], "target_new"),
        ("trivia_qa_test.json", {"K_F": []}, "K_F"),
        ("trivia_qa_test.json", [], "object"),
    ],
)
def test_a_row_without_a_field_is_a_fault_with_its_name(tmp_path, name, content, field):
    (tmp_path / name).write_text(json.dumps(content), "utf-8")
    dataset = "counterfact" if name == "test_cf.json" else "sanitation"
    with pytest.raises(BadData, match=field):
        list(KnowEdit(tmp_path, {"dataset": dataset}).cases("fact"))


def test_provenance_names_the_repository_and_counts_the_rows():
    provenance = KnowEdit(FIXTURE).provenance
    assert provenance["cases"] == 3 and "14cea82" in provenance["source"]
