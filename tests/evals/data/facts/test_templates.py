"""Questions composed of relations' templates, and where the templates come from."""

from pathlib import Path

import pytest

from emend.evals.data.facts.templates import GivenTemplates, TemplateBook, read_templates
from emend.memory.errors import BadData


def test_a_question_nests_the_phrases_of_the_relations_before_the_last():
    book = TemplateBook()
    assert (
        book.question("Ana", ["mother", "village", "shape"]) == "What is the shape of the village of the mother of Ana?"
    )


def test_templates_of_the_user_come_before_those_of_the_table_and_of_wikidata():
    table = {"mayor": GivenTemplates(cloze="{} is governed by", question="Who governs {}?")}
    book = TemplateBook({"mayor": GivenTemplates(cloze="The town of {} obeys")}, table)
    assert book.templates("mayor").cloze == "The town of {} obeys"
    assert book.templates("mayor").question == "Who governs {}?"
    assert book.templates("mayor").phrase == "the mayor of {}"
    assert TemplateBook().templates("P35").phrase == "the head of state of {}"
    assert TemplateBook().templates("head of state").question == "Who is the head of state of {}?"


def test_a_cloze_in_place_of_a_relations_name_gives_the_phrase():
    assert (
        TemplateBook().question("Peru", ["The capital of {} is", "size"]) == "What is the size of the capital of Peru?"
    )


def test_a_cloze_without_a_noun_asks_for_templates():
    with pytest.raises(BadData, match="--relations"):
        TemplateBook().question("Peru", ["{} lies in", "size"])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[mayor]\ncloze = 'no slot'\n", "mayor"),
        ("[mayor]\ncloze = '{} and {}'\n", "cloze"),
        ("[mayor]\nwording = '{} is'\n", "wording"),
        ("[mayor", "templates.toml"),
    ],
)
def test_a_wrong_file_of_templates_is_refused_by_relation_and_field(tmp_path: Path, text: str, named: str):
    file = tmp_path / "templates.toml"
    file.write_text(text)
    with pytest.raises(BadData, match=named):
        read_templates(file)
