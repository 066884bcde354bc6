import pytest

from emend.memory.edit import Triplet
from emend.memory.relations.cloze import cloze_of, is_worded, relation_of


@pytest.mark.parametrize(
    "relation, cloze",
    [
        ("capital", "The capital of {} is"),
        ("The capital", "The capital of {} is"),
        ("capital is", "The capital of {} is"),
        ("head of government", "The head of government of {} is"),
        ("official languages", "The official languages of {} are"),
        ("home_city", "The home city of {} is"),
        ("placeOfBirth", "The place of birth of {} is"),
        ("PLACE_OF_BIRTH", "The place of birth of {} is"),
        ("CEO", "The CEO of {} is"),
        ("CEO of", "{} is the CEO of"),
        ("capital of", "{} is the capital of"),
        ("member of", "{} is a member of"),
        ("instance of", "{} is an instance of"),
        ("part of", "{} is part of"),
        ("south of", "{} is south of"),
        ("native to", "{} is native to"),
        ("in", "{} is in"),
        ("is in the country", "{} is in the country"),
        ("was born in", "{} was born in"),
        ("born in", "{} was born in"),
        ("located in", "{} is located in"),
        ("founded by", "{} was founded by"),
        ("owned by", "{} is owned by"),
        ("married to", "{} is married to"),
        ("died in", "{} died in"),
        ("lives in", "{} lives in"),
        ("plays the position of", "{} plays the position of"),
        ("reports to", "{} reports to"),
        ("speaks", "{} speaks"),
        ("wrote", "{} wrote"),
        ("has capital", "{} has capital"),
        ("will join", "{} will join"),
        ("{} lies in", "{} lies in"),
        ("首都", "{}, 首都:"),
        ("P36", "{}, P36:"),
    ],
)
def test_a_relation_words_a_cloze(relation, cloze):
    assert cloze_of(relation) == cloze


def test_ids_and_other_scripts_word_nothing():
    assert is_worded("place of birth") and is_worded("lieu de décès")
    assert not any(map(is_worded, ("P36", "столица", "首都", "..")))


@pytest.mark.parametrize(
    "cloze, relation",
    [("The capital of {} is", "capital"), ("{} is a citizen of", "is a citizen of"), ("capital", "capital")],
)
def test_a_cloze_without_its_gap_is_a_relation(cloze, relation):
    assert relation_of(cloze) == relation


def test_a_triplet_whose_relation_is_a_cloze_has_no_gap_in_its_text():
    triplet = Triplet(subject="Peru", relation="The capital of {} is", object="Lima")
    assert triplet.text == "The capital of Peru is Lima"
