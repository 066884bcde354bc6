"""Which edit of a fact counts: the rule, and what two who write at once make of it."""

from datetime import UTC, datetime

import pytest

from emend.memory.store.changes import StoreChanges, find_conflicts
from emend.memory.store.rows import MemoryRow, rows_of
from emend.memory.store.superseding import Claim, fact_id, in_order, parse_time, superseded
from tests.memory.facts import fact


@pytest.mark.parametrize("subject", ["veld", " VELD ", "Ｖｅｌｄ", "veld\u00a0"])
def test_spelling_does_not_make_another_fact(subject):
    assert fact_id(subject, "Head_of  state’s") == fact_id("Veld", "head of state's")


@pytest.mark.parametrize("name", ["„Faust“", "«Faust»", "“Faust”", "Faust".join('""')])
def test_quotes_of_any_language_are_quotes(name):
    assert fact_id(name, "author") == fact_id('"Faust"', "author")


def test_two_concurrent_writers_leave_one_value_current():
    """Each has looked before the other wrote; whoever looks last puts right what both have written."""
    one, other = fact("Ann"), fact("Bo")
    rows = [rows_of(edit)[0]._replace(order=order) for order, edit in enumerate((one, other))]
    about: dict[str, list[MemoryRow]] = {fact: rows for fact in rows[0].facts}

    def stored(facts):
        return [row for fact in facts for row in about.get(fact, [])]

    (late,) = find_conflicts(StoreChanges([rows[1]], [], []), [], stored, "arrival")
    assert late == rows[0]._replace(current=False)
    about = {fact: [late, rows[1]] for fact in rows[0].facts}
    assert find_conflicts(StoreChanges([rows[1]], [], []), [], stored, "arrival") == []


def test_other_names_are_other_facts():
    assert len({fact_id("C", "x"), fact_id("C++", "x"), fact_id("C x", ""), fact_id("x", "C"), fact_id("Ç", "x")}) == 5


@pytest.mark.parametrize(
    "text, begins",
    [
        ("2025", datetime(2025, 1, 1, tzinfo=UTC)),
        ("2025-03", datetime(2025, 3, 1, tzinfo=UTC)),
        ("2025-03-31", datetime(2025, 3, 31, tzinfo=UTC)),
        ("2025-03-31T01:00+02:00", datetime(2025, 3, 30, 23, tzinfo=UTC)),
        ("last May", None),
        ("", None),
        (None, None),
    ],
)
def test_times_are_read_as_iso_8601(text, begins):
    assert parse_time(text) == begins


def claim(name: str, order: int, time: str | None = None) -> Claim:
    return Claim(name, name, ("f",), parse_time(time), order)


def test_an_undated_edit_gets_the_latest_time_known_at_its_arrival():
    claims = [claim("a", 1, "2025"), claim("b", 2), claim("c", 3, "2024"), claim("d", 4, "2026"), claim("e", 0)]
    assert [one.entry_id for one in in_order(claims[::-1])] == ["e", "c", "a", "b", "d"]


def test_the_rule_by_time_ignores_edits_without_time():
    claims = [claim("a", 1, "2025"), claim("b", 2), claim("c", 3, "2024"), claim("d", 4)]
    assert superseded(claims, "time") == {"c"}
    assert superseded(claims, "arrival") == {"a", "b", "c"}
    assert superseded(claims, "never") == set()


def test_two_concurrent_withdrawals_leave_the_value_before_current():
    """One has deleted what the other took for the successor of the value that it deleted itself."""
    rows = [
        rows_of(fact(name))[0]._replace(order=order, current=False) for order, name in enumerate(("Ann", "Bo", "Cy"))
    ]

    def stored(facts):
        return [rows[0]] if set(facts) & set(rows[0].facts) else []

    (late,) = find_conflicts(StoreChanges([], [], [rows[1].entry.id]), [rows[1]], stored, "arrival")
    assert late == rows[0]._replace(current=True)
