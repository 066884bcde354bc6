"""Which lines make a complete unit."""

import pytest

from emend.evals.log.lines import complete_units

Line = tuple[str, int, str]


def units_of(*lines: Line | None) -> list[str]:
    """The letters of each complete unit."""
    return ["".join(line[2] for line in unit) for unit in complete_units(lines, lambda line: line[:2])]


def test_a_unit_is_complete_when_its_lines_follow_each_other() -> None:
    assert units_of() == []
    assert units_of(("u", 1, "a")) == ["a"]
    assert units_of(("u", 2, "a"), ("u", 2, "b"), ("v", 1, "c")) == ["ab", "c"]


@pytest.mark.parametrize("between", [("v", 2, "x"), ("v", 1, "x"), None, ("u", 3, "x")])
def test_a_unit_that_was_broken_off_is_not_completed_later(between: Line | None) -> None:
    whole = ["x"] if between and between[1] == 1 else []
    assert units_of(("u", 2, "a"), between, ("u", 2, "b")) == whole
    assert units_of(("u", 2, "a"), between, ("u", 2, "b"), ("u", 2, "c")) == [*whole, "bc"]


def test_a_unit_without_its_last_lines_is_not_complete() -> None:
    assert units_of(("u", 3, "a"), ("u", 3, "b")) == []
    assert units_of(("u", 3, "a"), ("u", 3, "b"), ("v", 2, "c")) == []


def test_a_unit_that_is_there_twice_is_yielded_twice() -> None:
    assert units_of(("u", 1, "a"), ("u", 1, "b")) == ["a", "b"]
