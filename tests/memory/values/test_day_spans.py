"""Dates in English as spans of days, and when one gives another."""

from datetime import date

import pytest

from emend.memory.values.day_spans import read_dates


def span(text: str, year: int | None = None) -> tuple[date, date]:
    (only,) = read_dates(text, year)
    return only.first, only.last


@pytest.mark.parametrize(
    "text",
    ["7 May 2023", "May 7, 2023", "the 7th of May, 2023", "2023-05-07", "On **7 May** 2023.", "MAY 7 2023"],
)
def test_a_day_is_read_in_every_form(text):
    day = date(2023, 5, 7)
    assert span(text.replace("*", "")) == (day, day)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("June 2023", (2023, 6, 1), (2023, 6, 30)),
        ("in 1998", (1998, 1, 1), (1998, 12, 31)),
        ("the summer of 2023", (2023, 6, 1), (2023, 8, 31)),
        ("early July 2023", (2023, 7, 1), (2023, 7, 10)),
        ("mid-July 2023", (2023, 7, 11), (2023, 7, 20)),
        ("at the end of July 2023", (2023, 7, 21), (2023, 7, 31)),
        ("the last week of March 2023", (2023, 3, 25), (2023, 3, 31)),
        ("14-15 October 2023", (2023, 10, 14), (2023, 10, 15)),
        ("October 14 to 15, 2023", (2023, 10, 14), (2023, 10, 15)),
        ("the Friday before 15 July 2023", (2023, 7, 14), (2023, 7, 15)),
        ("the week before 9 June 2023", (2023, 5, 29), (2023, 6, 9)),
        ("two weeks before 11 August 2023", (2023, 7, 24), (2023, 7, 31)),
        ("the day after 3 March 2024", (2024, 3, 3), (2024, 3, 4)),
    ],
)
def test_a_longer_or_relative_span_is_read(text, first, last):
    assert span(text) == (date(*first), date(*last))


def test_a_date_without_a_year_needs_one_and_months_need_a_word_before_them():
    assert read_dates("on 7 May") == []
    assert span("on 7 May", 2023) == (date(2023, 5, 7), date(2023, 5, 7))
    assert span("back in May", 2023)[0] == date(2023, 5, 1)
    assert read_dates("It may rain, and we march on.", 2023) == []


@pytest.mark.parametrize("text", ["2023-13-01", "2023-02-31", "version 2023.5", "2023%", "no. 12045", "31 February"])
def test_what_is_no_date_is_none(text):
    assert read_dates(text, 2023) == []


@pytest.mark.parametrize(
    ("reply", "gold", "gives"),
    [
        ("7 May 2023", "7 May 2023", True),
        ("May 2023", "7 May 2023", False),
        ("in early May 2023", "7 May 2023", False),
        ("the first week of May 2023", "7 May 2023", True),
        ("7 May 2023", "May 2023", True),
        ("the spring of 2023", "May 2023", False),
        ("8 May 2023", "7 May 2023", False),
        ("3 June 2023", "the week before 9 June 2023", True),
        ("early June 2023", "the week before 9 June 2023", True),
        ("June 2023", "the week before 9 June 2023", False),
    ],
)
def test_a_date_gives_another_that_it_meets_if_it_is_as_narrow(reply, gold, gives):
    (first,), (second,) = read_dates(reply), read_dates(gold)
    assert first.gives(second) == gives


@pytest.mark.parametrize("text", ["7 mai 2023", "7 de mayo de 2023", "7. Mai 2023", "7 мая 2023"])
def test_months_of_other_languages_are_read(text):
    assert span(text) == (date(2023, 5, 7), date(2023, 5, 7))
