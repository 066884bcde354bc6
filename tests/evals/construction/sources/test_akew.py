"""Facts as items of AKEW: each is a sentence, whatever else its row says."""

from pathlib import Path

import pytest

from emend.evals.construction.sources.akew import read_source
from emend.evals.data.facts.templates import default_templates

TABLE = """subject,relation,object,question
Vaduria,capital,Kesselby,What is the capital of Vaduria?
Vaduria,The seat of {} is,Orm,Where does the court of Vaduria sit?
Ana Rojo,place of birth,Brask,Where was Ana Rojo born?
Ana Rojo,place of work,Brask,Where does Ana Rojo work?
"""


def facts_of(tmp_path: Path, *rows: str) -> list[str]:
    file = tmp_path / "facts.csv"
    file.write_text("\n".join(("subject,relation,object,question", *rows)) + "\n")
    return [item.fields["fact"] for item in read_source(str(file))[0]]


def test_a_fact_with_a_question_is_a_sentence(tmp_path: Path):
    row = "Vaduria,capital,Kesselby,What is the capital of Vaduria?"
    assert facts_of(tmp_path, row) == ["The capital of Vaduria is Kesselby."]


def test_a_cloze_as_relation_has_its_subject_filled_in_beside_a_question(tmp_path: Path):
    row = "Vaduria,{} is governed from,Kesselby,Whence is Vaduria governed?"
    assert facts_of(tmp_path, row) == ["Vaduria is governed from Kesselby."]


def test_facts_with_the_same_subject_and_object_and_other_relations_are_two_items(tmp_path: Path):
    rows = (
        "Ana Rojo,place of birth,Brask,Where was Ana Rojo born?",
        "Ana Rojo,place of work,Brask,Where does she work?",
    )
    assert facts_of(tmp_path, *rows, rows[0]) == [
        "The place of birth of Ana Rojo is Brask.",
        "The place of work of Ana Rojo is Brask.",
    ]


@pytest.mark.parametrize(
    ("relation", "cloze", "question"),
    [
        ("capital", "The capital of {} is", "What is the capital of {}?"),
        ("educated at", "{} was educated at", "What is it that {} was educated at?"),
        ("works for", "{} works for", "What is it that {} works for?"),
        ("was married to", "{} was married to", "What is it that {} was married to?"),
        ("The capital of {} is", "The capital of {} is", "What is the capital of {}?"),
        ("{} lies in", "{} lies in", ""),
    ],
)
def test_a_relation_that_is_no_noun_becomes_no_phrase_with_the(relation: str, cloze: str, question: str):
    templates = default_templates(relation)
    assert (templates["cloze"], templates["question"]) == (cloze, question)


def test_facts_with_a_question_are_sentences_and_none_is_lost(tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text(TABLE)
    items, notes = read_source(str(tmp_path / "facts.csv"))
    assert [item.text for item in items] == [
        "The capital of Vaduria is Kesselby.",
        "The seat of Vaduria is Orm.",
        "The place of birth of Ana Rojo is Brask.",
        "The place of work of Ana Rojo is Brask.",
    ]
    assert not notes.left_out


def test_no_field_of_an_item_but_the_prompt_has_a_gap(tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text(TABLE)
    items, _ = read_source(str(tmp_path / "facts.csv"))
    for item in items:
        others = {name: value for name, value in item.fields.items() if name != "prompt"}
        assert "{}" in item.fields["prompt"] and "{}" not in str(others)
