"""Dates are ordered only as far as they are known."""

from datetime import date

import pytest

from emend.evals.construction.wikidata.entities import WikiDate

DAY = date(2021, 4, 15)


def parse(time: str, precision: int) -> WikiDate:
    day = WikiDate.parse(time, precision)
    assert day
    return day


@pytest.mark.parametrize(
    ("time", "precision", "iso"),
    [
        ("+2022-10-25T00:00:00Z", 11, "2022-10-25"),
        ("+2022-10-25T12:30:00Z", 14, "2022-10-25"),
        ("+2022-10-00T00:00:00Z", 10, "2022-10"),
        ("+2022-10-25T00:00:00Z", 10, "2022-10"),  # the day is not known, though it is written
        ("+2022-00-00T00:00:00Z", 9, "2022"),
        ("+2022-00-00T00:00:00Z", 11, "2022"),  # a day that is no day
        ("+2022-05-00T00:00:00Z", 11, "2022-05"),
        ("+2020-00-00T00:00:00Z", 8, None),
        ("-0044-03-15T00:00:00Z", 11, None),
        ("+13798000000-00-00T00:00:00Z", 3, None),
    ],
)
def test_a_date_is_written_as_far_as_it_is_known(time, precision, iso):
    assert parse(time, precision).iso == iso


@pytest.mark.parametrize(
    ("time", "precision", "order"),
    [
        ("+2021-04-14T00:00:00Z", 11, "before"),
        ("+2021-04-15T00:00:00Z", 11, "after"),
        ("+2021-04-00T00:00:00Z", 10, ""),
        ("+2021-03-00T00:00:00Z", 10, "before"),
        ("+2021-05-00T00:00:00Z", 10, "after"),
        ("+2021-00-00T00:00:00Z", 9, ""),
        ("+2020-00-00T00:00:00Z", 9, "before"),
        ("+2020-00-00T00:00:00Z", 8, ""),
        ("+2010-00-00T00:00:00Z", 8, "before"),
        ("+2000-00-00T00:00:00Z", 7, ""),  # the 21st century is written as 2000 too
        ("-0044-03-15T00:00:00Z", 11, "before"),
    ],
)
def test_a_date_is_before_a_day_after_it_or_undecided(time, precision, order):
    day = parse(time, precision)
    assert (day.precedes(DAY), day.follows(DAY)) == (order == "before", order == "after")


@pytest.mark.parametrize("time", ["", "2021-04-15", "+2021-04-15", "+x-04-15T00:00:00Z", "+" + "9" * 40 + "-01-01T"])
def test_what_is_no_time_has_no_date(time):
    assert WikiDate.parse(time, 11) is None
