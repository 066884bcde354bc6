"""Tokens as values: numbers, ordinals, signs, units, initials, glued words, and hostile input."""

import pytest

from emend.memory.values.day_spans import read_dates
from emend.memory.values.quantities import read_numbers
from emend.memory.values.search import find_answers
from emend.memory.values.text import value_text


def forms(text: str) -> list[str]:
    return [token.form for token in value_text(text).tokens]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,204", "1204"),
        ("1 204", "1204"),
        ("1.204.500", "1204500"),
        ("12.500", "12500"),
        ("0.50", "0.5"),
        ("007", "7"),
        ("٣٤", "34"),
        ("１２", "12"),
        ("२३", "23"),
        ("\u22125", "-5"),
        ("minus five", "-5"),
        ("one hundred and one", "101"),
        ("two hundred thousand", "200000"),
        ("nineteen eighty-four", "1984"),
        ("twenty twenty", "2020"),
        ("1.5 million", "1500000"),
        ("twenty-first", "21."),
        ("3rd", "3."),
        ("the 1990's", "the 1990s"),
        ("fifteen, twenty", "15 20"),
        ("one of the men", "one of the men"),
        ("4½", "4 1 2"),
        ("10²", "10 2"),
        ("5 kilometres", "5 km"),
        ("50%", "50 percent"),
        ("J. R. R. Tolkien's", "jrr tolkien"),
        ("U.S.A.", "usa"),
        ("C++ and C#", "c++ and c#"),
        ("2.45\u00c2\u00a0billion", "2450000000"),
    ],
)
def test_a_value_has_one_form_in_each_writing(text, expected):
    assert " ".join(forms(text)) == expected


def test_numbers_have_values_in_digits_and_in_words():
    text = "twenty-five of 1,204, two hundred and five, 2.5 million, -3, twice and 1990s"
    values = [span.value for span in read_numbers(text)]
    assert values == [25, 1204, 205, 2_500_000, -3, 2, 1990]


@pytest.mark.parametrize("unit", ["a", "1", ".,-", " ", "\n", "(", "Ã", "é\u0301", "5 may ", "1990 ", "one ", "John "])
@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_hostile_text_is_read_without_error(unit, count):
    text = unit * count
    value = value_text(text)
    answers = [text, "Paris", "15 June 1990", "John Smith", "5 miles"]
    assert all(0 <= token.start < token.end <= len(value.plain) for token in value.tokens)
    assert all(hit.answer for hit in find_answers(value, answers, text))
    assert all(span.start < span.end for span in read_dates(text, 1990))
