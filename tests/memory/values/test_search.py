"""Search for an answer in each writing in which it is the same value."""

import pytest

from emend.memory.values.forms import written_forms
from emend.memory.values.letters import fold_accents_in_place, fold_letters, without_accents
from emend.memory.values.nations import nation_words
from emend.memory.values.search import find_answers
from emend.memory.values.text import value_text


def gives(text: str, answer: str, question: str = "") -> bool:
    return any(True for _ in find_answers(value_text(text), [answer], question))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It was the Danish crown.", "Denmark"),
        ("He is in I.B.M.", "International Business Machines"),
        ("It was George W. Bush.", "George Walker Bush"),
        ("JRR Tolkien wrote it.", "J. R. R. Tolkien"),
        ("in thethylakoid membranesof plants", "thylakoid membranes"),
        ("It is hip hop.", "hip-hop"),
        ("It began in 196912.", "1969"),
        ("There are five.", "5"),
        ("It is in Lodz.", "Łódź"),
        ("On June 15, 1990.", "15 June 1990"),
    ],
)
def test_an_answer_stands_in_another_writing(text, answer):
    assert gives(text, answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It was George H. W. Bush.", "George Walker Bush"),
        ("He worked for MI5.", "MI"),
        ("On June 16, 1990.", "15 June 1990"),
        ("It took 741 weeks.", "a week"),
        ("Denmark", "Danish"),
        ("Berlin", "Berlin, Germany"),
        ("-5 degrees", "5 degrees"),
    ],
)
def test_another_value_is_none(text, answer):
    assert not gives(text, answer)


def test_the_words_of_the_question_may_be_left_out():
    glued = [form.glued for form in written_forms("the Nile River", "Which river is longest?")]
    assert glued == ["nileriver", "nile"]


def test_letters_lose_marks_and_indian_vowels_stay():
    assert fold_letters("Straße") == "strasse" and without_accents("Łódź, प्रेम") == "Lodz, प्रेम"
    assert fold_accents_in_place("é æ") == "e æ"


def test_a_country_has_words_for_its_people_and_an_adjective_has_no_country():
    assert "Danish" in nation_words("Denmark") and nation_words("Danish") == ()
