"""DocTER's rows: what becomes of a record, its document and its triplets."""

import pytest

from emend.evals.benchmarks.docter.cases import EnglishTests, cross_case, english_case
from emend.evals.benchmarks.docter.rows import (
    DocumentRow,
    EditRow,
    GoldFactRow,
    QueriesRow,
    ReasoningRow,
    last_sentence,
)
from emend.evals.case import Case

SUCCESS = EditRow(
    id=5, query="Ann hails from", paraphrase_query=("Fog. Ann is from",), original_target="Peru", altered_target="Chad"
)
LOCALITY = QueriesRow(id=5, query=("Bob hails from", "Bob hails from"), original_target="Peru", altered_target="Chad")
REASONING = ReasoningRow(id=5, src="Does Ann hail from Africa?", label="False")
EDIT = DocumentRow(id=5, src="Ann, the juggler, hails from Chad.").edit()


def by_kind(case: Case, kind: str):
    return [probe for probe in case.probes if probe.kind == kind]


def test_rows_become_one_case_with_every_kind_of_probe():
    case = english_case(EDIT, 5, EnglishTests(SUCCESS, LOCALITY, REASONING))
    assert case.edits == (EDIT,)
    assert [p.kind for p in case.probes] == ["efficacy", "paraphrase", "neighborhood", "neighborhood", "reasoning"]
    assert case.tags["docter_id"] == 5
    assert len({p.id for p in case.probes}) == len(case.probes)


def test_a_query_pits_the_new_target_against_the_old():
    (probe,) = by_kind(english_case(EDIT, 5, EnglishTests(SUCCESS)), "efficacy")
    assert (probe.prompt, probe.gold, probe.rival) == ("Ann hails from", ("Chad",), "Peru")
    assert (probe.in_scope, probe.edit_ids, probe.scorers) == (
        True,
        (EDIT.id,),
        ("likelihood", "likelihood_code", "generation"),
    )


def test_a_neighbour_must_keep_the_old_target_and_no_edit_bears_on_it():
    first, second = by_kind(english_case(EDIT, 5, EnglishTests(locality=LOCALITY)), "neighborhood")
    assert (first.gold, first.rival, first.in_scope, first.edit_ids) == (("Peru",), "Chad", False, ())
    assert first.prompt == second.prompt
    assert first.id != second.id


@pytest.mark.parametrize(("label", "gold", "rival"), [("True", "true", "false"), ("False", "false", "true")])
def test_a_reasoning_question_pits_the_label_against_the_other(label, gold, rival):
    row = ReasoningRow(id=5, src=REASONING.src, label=label)
    (probe,) = by_kind(english_case(EDIT, 5, EnglishTests(reasoning=row)), "reasoning")
    assert probe.prompt == "Query: Does Ann hail from Africa? answer: The answer to the query above is"
    assert probe.retrieval_query == "Does Ann hail from Africa?"
    assert (probe.gold, probe.rival, probe.scorers) == ((gold,), rival, ("reasoning",))


def test_a_document_gives_nothing_away_but_its_text():
    assert EDIT.text == "Ann, the juggler, hails from Chad."
    assert (EDIT.form, EDIT.subject, EDIT.prompt, EDIT.target_new) == ("document", "", "", "")


def test_a_gold_fact_is_a_triplet_in_one_sentence():
    fields = {"subject": "Ann", "original_target": "Peru", "altered_target": "Chad"}
    edit = GoldFactRow(id=5, prompt_template="{} hails from", **fields).edit()
    assert (edit.form, edit.text, edit.cloze) == ("triplet", "Ann hails from Chad.", "Ann hails from")
    assert (edit.target_new, edit.target_true, edit.triplets[0].object) == ("Chad", "Peru", "Chad")


@pytest.mark.parametrize("template", ["Ann hails from", "{} and {} hail from"])
def test_a_template_without_exactly_one_subject_is_refused(template):
    fields = {"subject": "Ann", "original_target": "Peru", "altered_target": "Chad"}
    with pytest.raises(ValueError, match=r"prompt_template\n.*exactly one \{\}"):
        GoldFactRow(id=5, prompt_template=template, **fields)


def test_white_space_around_cross_lingual_queries_is_taken_off():
    row = QueriesRow(id=5, query=(" 安是哪里人？ ",), original_target="秘鲁", altered_target="乍得")
    (probe,) = cross_case(EDIT, row, "en->zh").probes
    assert (probe.kind, probe.prompt, probe.gold, probe.edit_ids) == (
        "cross_lingual",
        "安是哪里人？",
        ("乍得",),
        (EDIT.id,),
    )


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("Fog lay thick. Ann is from", "Ann is from"),
        ("First line\nAnn is from", "Ann is from"),
        ("Fog. What is the twin city of Oslo? It is", "What is the twin city of Oslo? It is"),
        ("It was dull. M. S. Rao plays", "M. S. Rao plays"),
        ("It was dull. St. Moritz lies in", "St. Moritz lies in"),
        ("Ann is from", "Ann is from"),
        ("", ""),
    ],
)
def test_the_last_sentence_is_what_follows_the_unrelated_text(text, last):
    assert last_sentence(text) == last


def test_stripping_the_distractor_changes_what_is_searched_and_not_what_is_asked():
    kept, stripped = (
        by_kind(english_case(EDIT, 5, EnglishTests(SUCCESS), strip_distractor=strip), "paraphrase")[0]
        for strip in (False, True)
    )
    assert kept.prompt == stripped.prompt == kept.retrieval_query == "Fog. Ann is from"
    assert stripped.retrieval_query == "Ann is from"
