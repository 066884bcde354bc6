"""Relations are data: the shipped ones are whole, and a user's file is checked."""

import pytest

from emend.evals.data.facts.relation_tables import EXAMPLE, Relations
from emend.memory.errors import BadData


def test_the_shipped_relations_have_templates_with_one_slot_and_are_distinct():
    relations = Relations.read().relations
    assert len(relations) >= 40 and {"P6", "P35", "P286", "P54", "P488", "P169", "P1308", "P108", "P39"} <= {
        relation.id for relation in relations
    }
    for texts in ([relation.cloze for relation in relations], [relation.question for relation in relations]):
        assert len(set(texts)) == len(texts) and all(text.count("{}") == 1 for text in texts)
    assert all(relation.question.endswith("?") and relation.cloze[-1].isalpha() for relation in relations)


def test_a_successor_is_that_of_an_office_not_of_a_person():
    by_id = Relations.read().by_id
    assert all(by_id[name].replaced_by for name in ("P6", "P35", "P286", "P488", "P169", "P1308"))
    assert not any(by_id[name].replaced_by for name in ("P39", "P54", "P108", "P102"))


def test_a_file_of_ones_own_has_the_form_that_errors_show(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(EXAMPLE)
    assert Relations.read(path).by_id["P6"].cloze.format("Italy") == "The head of government of Italy is"


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("[P6", "mine.toml"),
        ("", "relations"),
        ("P6 = 3", "P6"),
        (EXAMPLE.replace("[P6]", "[Q6]"), "Q6"),
        (EXAMPLE.replace('cloze = "The head of government of {} is"', 'cloze = "It is"'), "cloze"),
        (EXAMPLE.replace("question", "query"), "question"),
        (EXAMPLE + "\nlimit = 3", "limit"),
        (EXAMPLE.replace("{} is", "{} of {} is"), "cloze"),
    ],
)
def test_a_wrong_file_is_refused_with_relation_and_field(tmp_path, content, place):
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(BadData, match=place) as error:
        Relations.read(path)
    assert str(path) in str(error.value) and "[P6]" in str(error.value)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(BadData, match="none.toml"):
        Relations.read(tmp_path / "none.toml")
