"""Each kind of change, and of what is none, has one verdict by each recipe."""

from datetime import date
from typing import Any

import pytest

from emend.evals.construction.wikidata.entities import EntityDecoder
from emend.evals.construction.wikidata.fact_update import ChangeRule, ObjectChange, SkipReason
from tests.evals.construction.wikidata.entities import entity, line, statement, time_value

SINCE, TODAY = date(2021, 4, 1), date(2024, 6, 1)
OLD, MID, NEW, OTHER = "Q10", "Q20", "Q30", "Q40"
R = SkipReason
UPDATE = (OLD, NEW)


def held(value: str, start: Any = None, end: Any = None, rank: str = "normal", replaced_by: str = "") -> dict[str, Any]:
    return statement("P6", value, start, end, rank, replaced_by)


JOHNSON = held(OLD, "2019-07-24", "2022-09-06")
SUNAK = held(NEW, "2022-10-25")
TABLE: dict[str, tuple[list[dict[str, Any]], Any, Any]] = {
    # name: (statements, verdict of the paper, verdict of best); a pair is an update from one to the other
    "the example of the paper": ([JOHNSON, held(MID, "2022-09-06", "2022-10-25"), SUNAK], UPDATE, UPDATE),
    "statements in another order": ([SUNAK, held(MID, "2022-09-06", "2022-10-25"), JOHNSON], UPDATE, UPDATE),
    "the old one ended before a vacancy": ([held(OLD, "2015", "2018"), SUNAK], UPDATE, UPDATE),
    "nothing since the day": ([JOHNSON], R.UNCHANGED, R.ENDED),
    "the present one began before the day": ([held(OLD, "2019-07-24")], R.UNCHANGED, R.UNCHANGED),
    "the first holder began since the day": ([SUNAK], R.NO_PREDECESSOR, R.NO_PREDECESSOR),
    "the new one has ended too": ([JOHNSON, held(NEW, "2022-10-25", "2023-05-01")], UPDATE, R.ENDED),
    "the new one ends in the future": ([JOHNSON, held(NEW, "2022-10-25", "2025-01-01")], UPDATE, UPDATE),
    "the new one ends some time this year": ([JOHNSON, held(NEW, "2022-10-25", "2024")], UPDATE, R.ENDED),
    "the new one ended on an unknown day": ([JOHNSON, held(NEW, "2022-10-25", "somevalue")], UPDATE, R.ENDED),
    "the new one is stated to have no end": ([JOHNSON, held(NEW, "2022-10-25", "novalue")], UPDATE, UPDATE),
    "the new one begins in the future": ([held(OLD, "2019"), held(NEW, "2025-01-01")], UPDATE, R.UNCHANGED),
    "re-elected": ([held(OLD, "2019", "2022"), held(OLD, "2022-06-01")], R.SAME_OBJECT, R.SAME_OBJECT),
    "back again after another": (
        [held(OLD, "2019", "2021-06-01"), held(NEW, "2021-06-01", "2022-01-01"), held(OLD, "2022-01-01")],
        R.SAME_OBJECT,
        R.SAME_OBJECT,
    ),
    # ranks
    "preferred rank moved to the new one": ([held(OLD, "2019"), held(NEW, "2022", rank="preferred")], UPDATE, UPDATE),
    "preferred rank stayed with the old one": (
        [held(OLD, "2019", rank="preferred"), held(NEW, "2022")],
        UPDATE,
        R.UNCHANGED,
    ),
    "preferred rank of one that has ended": (
        [held(OLD, "2019", "2022", rank="preferred"), held(NEW, "2022-10-25")],
        UPDATE,
        UPDATE,
    ),
    "the new one is deprecated": ([held(OLD, "2019"), held(NEW, "2022", rank="deprecated")], UPDATE, R.UNCHANGED),
    "corrected typo: the wrong object is deprecated": (
        [JOHNSON, held(OTHER, "2022-10-25", rank="deprecated"), SUNAK],
        (OLD, OTHER),
        UPDATE,
    ),
    "corrected typo: only the wrong object is before the day": (
        [held(OTHER, "2019", rank="deprecated"), SUNAK],
        (OTHER, NEW),
        R.NO_PREDECESSOR,
    ),
    "all deprecated": (
        [held(OLD, "2019", rank="deprecated"), held(NEW, "2022", rank="deprecated")],
        UPDATE,
        R.DEPRECATED,
    ),
    # unknown and no value
    "the new one is unknown": ([JOHNSON, held("somevalue", "2022-10-25")], R.UNCHANGED, R.UNKNOWN_VALUE),
    "vacant now": ([JOHNSON, held("novalue", "2022-10-25")], R.UNCHANGED, R.NO_VALUE),
    "the old one is unknown": ([held("somevalue", "2019", "2022"), SUNAK], R.NO_PREDECESSOR, R.UNKNOWN_VALUE),
    "vacant before the day": ([held("novalue", "2019", "2022"), SUNAK], R.NO_PREDECESSOR, R.NO_VALUE),
    # several
    "two current values": ([JOHNSON, SUNAK, held(OTHER, "2023-01-01")], (OLD, OTHER), R.SEVERAL_CURRENT),
    "two current values of one object": ([JOHNSON, SUNAK, held(NEW, "2023-01-01")], UPDATE, UPDATE),
    "the old one never ended": ([held(OLD, "2019"), SUNAK], UPDATE, R.SEVERAL_CURRENT),
    "two at the day": (
        [held(OLD, "2019", "2022-01-01"), held(OTHER, "2018", "2022-01-01"), SUNAK],
        UPDATE,
        R.SEVERAL_PREVIOUS,
    ),
    "two that ended before the day, in one year": (
        [held(OLD, "2019-05-01", "2020"), held(OTHER, "2019", "2020"), SUNAK],
        UPDATE,
        R.SEVERAL_PREVIOUS,
    ),
    # dates
    "no start at all": ([held(OLD), held(NEW)], R.MISSING_START, R.SEVERAL_CURRENT),
    "one value without a start": ([held(NEW)], R.MISSING_START, R.MISSING_START),
    "the new one has no start": ([JOHNSON, held(NEW)], R.UNCHANGED, R.MISSING_START),
    "the new one has an unknown start": ([JOHNSON, held(NEW, "somevalue")], R.UNCHANGED, R.MISSING_START),
    "the old one has no start": ([held(OLD, end="2022"), SUNAK], R.NO_PREDECESSOR, R.MISSING_START),
    "the start is the day itself": ([held(OLD, "2019", "2021-04-01"), held(NEW, "2021-04-01")], UPDATE, UPDATE),
    "the start is the day before": ([held(OLD, "2019", "2021"), held(NEW, "2021-03-31")], R.UNCHANGED, R.UNCHANGED),
    "a year that contains the day": ([held(OLD, "2019", "2021"), held(NEW, "2021")], R.UNCHANGED, R.IMPRECISE_DATE),
    "a month that begins on the day": (
        [held(OLD, "2019", "2021-04"), held(NEW, "2021-04")],
        UPDATE,
        UPDATE,
    ),
    "a year after the day": ([held(OLD, "2019", "2022"), held(NEW, "2022")], UPDATE, UPDATE),
    "a decade that contains the day": (
        [held(OLD, "2019", "2022"), held(NEW, time_value("2020", precision=8))],
        R.UNCHANGED,
        R.IMPRECISE_DATE,
    ),
    "another one in the year that contains the day": (
        [held(OLD, "2019", "2021"), held(MID, "2021", "2022"), SUNAK],
        (MID, NEW),
        R.IMPRECISE_DATE,
    ),
    "end before start": ([JOHNSON, held(NEW, "2022-10-25", "2020")], R.END_BEFORE_START, R.END_BEFORE_START),
    "two starts in one statement": ([held(OLD, "2019", "2022"), held(NEW, ["2010", "2022"])], UPDATE, UPDATE),
    # successors
    "replaced by the new one, but not ended": ([held(OLD, "2019", replaced_by=NEW), SUNAK], UPDATE, UPDATE),
    "replaced by the one between": (
        [
            held(OLD, "2019", "2022-09-06", replaced_by=MID),
            held(MID, "2022-09-06", "2022-10-25", replaced_by=NEW),
            SUNAK,
        ],
        UPDATE,
        UPDATE,
    ),
    "replaced by one without a statement": (
        [held(OLD, "2019", "2022-09-06", replaced_by=OTHER), SUNAK],
        UPDATE,
        R.OTHER_SUCCESSOR,
    ),
    "ended, and only the qualifier names the next one": (
        [held(OLD, "2019", "2022-09-06", replaced_by=NEW)],
        R.UNCHANGED,
        UPDATE,
    ),
    "ended before the day, and only the qualifier names the next one": (
        [held(OLD, "2017", "2019", replaced_by=NEW)],
        R.UNCHANGED,
        R.UNCHANGED,
    ),
    "ended in the year of the day, and only the qualifier names the next one": (
        [held(OLD, "2017", "2021", replaced_by=NEW)],
        R.UNCHANGED,
        R.IMPRECISE_DATE,
    ),
}  # fmt: skip


def verdict(claims: list[dict[str, Any]], recipe: str, by_successor: bool = True) -> Any:
    """The ids of the old and the new object, or the reason, of statements in Wikidata's JSON."""
    item = EntityDecoder(["P6"], "en").decode(line(entity("Q1", "it", claims)))
    assert item
    rule = ChangeRule.model_validate({"recipe": recipe, "since": SINCE, "today": TODAY})
    change = rule.apply(item.statements["P6"], by_successor)
    return (change.old.object, change.new.object) if isinstance(change, ObjectChange) else change


@pytest.mark.parametrize("name", TABLE)
def test_each_kind_of_change_has_its_verdict(name):
    claims, paper, best = TABLE[name]
    assert (verdict(claims, "paper"), verdict(claims, "best")) == (paper, best)


def test_every_reason_that_statements_give_is_in_the_table():
    verdicts = [verdict for _, *verdicts in TABLE.values() for verdict in verdicts]
    given = {verdict for verdict in verdicts if isinstance(verdict, SkipReason)}
    assert set(SkipReason) - given == {SkipReason.NO_LABEL, SkipReason.ABSENT_OBJECT}


def test_a_successor_counts_only_where_it_names_an_object_of_the_same_subject():
    """For a position held by a person, P1366 names the next person, not the next position."""
    claims = [held(OLD, "2019", "2022-09-06", replaced_by=OTHER), SUNAK]
    assert verdict(claims, "best", by_successor=False) == UPDATE
    assert verdict(claims[:1], "best", by_successor=False) == SkipReason.ENDED


@pytest.mark.parametrize("recipe", ["paper", "best"])
def test_the_order_of_statements_does_not_matter_where_starts_differ(recipe):
    for name, (claims, *_) in TABLE.items():
        if recipe == "best" or len({str(claim.get("qualifiers")) for claim in claims}) == len(claims):
            assert verdict(claims[::-1], recipe) == verdict(claims, recipe), name
