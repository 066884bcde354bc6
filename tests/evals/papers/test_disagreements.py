"""What disagrees within the papers is exactly what is listed."""

import pytest

from emend.evals.papers.tables import Cell, known_disagreements, papers
from tests.evals.papers.printed_figures import (
    CHECKS,
    _compare,
    count_checked,
    drops,
    find_disagreements,
)


def test_the_list_of_disagreements_is_right_in_both_directions() -> None:
    assert find_disagreements() == list(known_disagreements())


def test_every_printed_drop_is_checked_and_agrees() -> None:
    printed = sum(cell.drop is not None for told in papers() for found in told.tables for cell in found.cells)
    assert count_checked("drops") == printed == 132
    assert [found for found in drops() if found] == []


def test_every_figure_that_follows_from_others_is_checked() -> None:
    looked = {check.__name__: count_checked(check.__name__) for check in CHECKS}
    assert looked == {
        "drops": 132,  # AKEW's tables 2, 3, 6 and 7
        "averages": 57,  # ReCoE: 6 + 16 + 6 + 29
        "differences": 56,  # ReCoE's table 6: 42 + 14, averages included
        "sums": 7,
        "f1_scores": 10,
        "weighted": 6,
        "repeats": 59,
    }


def test_what_disagrees_is_where_the_notes_say() -> None:
    told = [(found.paper, found.table, found.check) for found in known_disagreements()]
    assert told.count(("recoe", 3, "average")) == 6
    assert told.count(("elken", 3, "weighted")) == 6
    assert [one for one in told if one[0] == "docter"] == [("docter", 6, "F1")]
    assert [one for one in told if one[2] == "repeat"] == [("elken", 15, "repeat")]
    assert len(told) == 14


def cell(printed: str, drop: int | None = None) -> Cell:
    return Cell(
        table=2, model="m", method="x", data="d", setting="s", metric="a", printed=printed, unit="percent", drop=drop
    )


@pytest.mark.parametrize(("drop", "agrees"), [(89, False), (91, True), (92, True), (93, False)])
def test_a_drop_agrees_if_some_rounding_gives_it(drop: int, agrees: bool) -> None:
    """76.00 to 6.46 is 91.5: the figures before rounding may have given 91 or 92."""
    found = _compare("p", "drop", cell("6.46"), [cell("76.00"), cell("6.46")], lambda a, b: 100 * (a - b) / a, drop)
    assert (found is None) == agrees
    if found:
        assert (found.printed, found.computed, found.off) == (drop, 91.5, drop - 91.5)


def test_a_difference_may_be_off_by_what_rounding_hides() -> None:
    parts = [cell("12.69"), cell("17.52")]
    assert _compare("p", "difference", cell("-4.84"), parts, lambda a, b: a - b) is None
    assert _compare("p", "difference", cell("-4.86"), parts, lambda a, b: a - b) is not None
