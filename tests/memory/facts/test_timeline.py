"""The rule of what holds when, against a plain search through all statements, over random ones."""

from hypothesis import given
from hypothesis import strategies as st

from emend.memory.facts.timeline import Statement, Timeline

DAYS = [f"2024-01-0{day}" for day in range(1, 8)]


def statement(number: int, start: str, object_: str, end: str = "", retracted_at: str = "") -> Statement:
    return Statement(
        number=number, id=str(number), subject="s", relation="r", object=object_, user="", source="", start=start,
        end=end, recorded_at=f"2024-02-{number:02d}", retracted_at=retracted_at, corrects=0, replaces=(),
        operation=number, erased=0,
    )  # fmt: skip


FIELDS = st.tuples(
    st.sampled_from(["", *DAYS]),
    st.sampled_from(["a", "b", "c", ""]),
    st.sampled_from(["", *DAYS]),
    st.sampled_from(["", "2024-02-03", "2024-02-20"]),
)
STATEMENTS = st.lists(FIELDS, max_size=8).map(
    lambda rows: [statement(number, *fields) for number, fields in enumerate(rows, 1)]
)
KNOWN = st.sampled_from(["", "2024-02-02", "2024-02-05", "2024-02-28"])


def is_live(each: Statement, known_at: str) -> bool:
    known = known_at or "9999"
    return each.recorded_at <= known and not (each.retracted_at and each.retracted_at <= known)


@given(STATEMENTS, st.sampled_from(DAYS), KNOWN)
def test_a_functional_relation_has_the_object_that_began_last(statements, at, known_at):
    latest = None
    for each in statements:  # in the order in which they were said
        if is_live(each, known_at) and each.start <= at and (latest is None or each.start >= latest.start):
            latest = each
    expected = [latest] if latest and latest.object and not (latest.end and latest.end <= at) else []
    assert Timeline(statements, "functional", known_at).holding(at) == expected


@given(STATEMENTS, st.sampled_from(DAYS), KNOWN)
def test_a_set_has_every_object_that_has_begun_and_not_ended(statements, at, known_at):
    expected = {
        each.object
        for each in statements
        if is_live(each, known_at) and each.object and each.start <= at and not (each.end and each.end <= at)
    }
    holding = Timeline(statements, "set", known_at).holding(at)
    assert {each.object for each in holding} == expected and len(holding) == len(expected)


@given(STATEMENTS, st.sampled_from(DAYS))
def test_a_functional_fact_holds_from_its_start_to_its_end(statements, at):
    timeline = Timeline(statements, "functional")
    for each in timeline.holding(at):
        end = timeline.end_of(each)
        assert each.start <= at and (not end or at < end)
        assert timeline.holding(end) != [each] if end else True


@given(STATEMENTS, st.randoms())
def test_the_order_in_which_statements_are_read_does_not_matter(statements, random):
    shuffled = list(statements)
    random.shuffle(shuffled)
    for kind in ("functional", "set"):
        one, other = Timeline(statements, kind), Timeline(shuffled, kind)
        assert [one.holding(day) for day in DAYS] == [other.holding(day) for day in DAYS]
