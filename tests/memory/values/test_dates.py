"""Dates in the orders and languages in which they are usually written."""

import pytest

from emend.memory.values.dates import Date
from emend.memory.values.text import value_text


def dates(text: str) -> list[tuple[int, int, int]]:
    return [date[:3] for date in value_text(text).dates]


@pytest.mark.parametrize(
    "text",
    [
        "June 15, 1990",
        "15th of June, 1990",
        "1990 June 15",
        "Jun. 15, 1990",
        "15-Jun-1990",
        "15 juin 1990",
        "15 de junio de 1990",
        "15 giugno 1990",
        "15 de junho de 1990",
        "15. Juni 1990",
        "15 juni 1990",
        "15 июня 1990 года",
        "1990-06-15",
        "1990/06/15",
        "15.06.1990",
        "1990年6月15日",
        "１５ June １９９０",
    ],
)
def test_one_day_is_read_in_every_order_and_language(text):
    assert dates(text) == [(1990, 6, 15)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1er janvier 1990", [(1990, 1, 1)]),
        ("1º de maio de 1990", [(1990, 5, 1)]),
        ("03/04/2011", [(2011, 4, 3), (2011, 3, 4)]),
        ("3月15日", [(0, 3, 15)]),
        ("July 4", [(0, 7, 4)]),
        ("May 1990", [(1990, 5, 0)]),
        ("It may rain, and we march on.", []),
        ("", []),
    ],
)
def test_missing_fields_are_zero_and_words_that_are_months_too_need_a_number(text, expected):
    assert dates(text) == expected


def test_a_date_gives_a_coarser_one_and_contradicts_another():
    day, month, other = (Date(*fields, 0, 0) for fields in ((1990, 6, 15), (1990, 6, 0), (1990, 7, 15)))
    assert day.gives(month) and not month.gives(day) and month.is_coarser(day)
    assert day.contradicts(other) and not day.contradicts(month)
