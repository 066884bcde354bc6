"""Questions of ReCoE's schemes over a small table: their answers before and after the alterations."""

import random
import re

import pytest

from emend.evals.construction.sources.recoe import SCHEMES
from emend.evals.construction.sources.recoe_records import (
    GREATER,
    LATER,
    Measure,
    ReasoningRecord,
    RecordComposer,
    degree_words,
    parse_measure,
)
from emend.evals.data.facts.fact_graph import FactGraph, FactHop

RIVERS = [FactHop(f"River {n}", "length", f"{100 + 10 * n} km") for n in range(40)]
TOWNS = [FactHop(f"Town {n}", "country", f"Land {n % 3}") for n in range(40)]
GRAPH = FactGraph([*RIVERS, *TOWNS])


def records(
    scheme: str, count: int = 5, seed: int = 0, graph: FactGraph = GRAPH, **fields: bool
) -> list[ReasoningRecord]:
    return list(RecordComposer(graph, random.Random(seed), **fields).records(scheme, count))


def objects(record: ReasoningRecord, altered: bool) -> dict[str, str]:
    """The objects that the question is about, by subject, with or without the alterations."""
    facts = [(each.subject, each.relation) for each in record.altered] + list(record.unaltered)
    values = {subject: str(GRAPH.object_of(subject, relation)) for subject, relation in facts}
    return values | ({each.subject: each.new for each in record.altered} if altered else {})


def length(text: str) -> float:
    measure = parse_measure(text)
    assert measure is not None
    return measure.number


@pytest.mark.parametrize("altered", [False, True])
def test_a_superlative_is_the_entity_with_the_greatest_value(altered: bool):
    for record in records("superlative"):
        values = objects(record, altered)
        assert record.question.startswith("Which of River ") and record.question.endswith(" has the greatest length?")
        assert max(values, key=lambda each: length(values[each])) == (
            record.counterfactual_answer if altered else record.answer
        )


@pytest.mark.parametrize("altered", [False, True])
def test_sorted_entities_swap_two_places(altered: bool):
    for record in records("sorting"):
        values = objects(record, altered)
        ranked = sorted(values, key=lambda each: -length(values[each]))
        assert ", ".join(ranked) == (record.counterfactual_answer if altered else record.answer)
        before, after = record.answer.split(", "), record.counterfactual_answer.split(", ")
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 2


def test_two_entities_are_compared_by_name_and_by_yes_and_no():
    compared = records("comparative", 12)
    assert {record.question.split()[0] for record in compared} == {"Which", "Does"}
    for record in compared:
        first, second = sorted(objects(record, False), key=lambda each: -length(objects(record, False)[each]))
        if record.question.startswith("Which"):
            assert (record.answer, record.counterfactual_answer) == (first, second)
        else:
            is_first = record.question.startswith(f"Does {first} have a greater length than {second}")
            assert (record.answer, record.counterfactual_answer) == (("Yes", "No") if is_first else ("No", "Yes"))


def counted(record: ReasoningRecord, part: str, values: dict[str, str]) -> int:
    """The number of entities named in a part of the question that have the object at its end."""
    listed, _, target = part.replace(" is the country ", " the country is ").partition(" the country is ")
    names = listed.replace(" and ", ", ").split(", ")
    return sum(values[name] == target for name in names)


@pytest.mark.parametrize("altered", [False, True])
@pytest.mark.parametrize("scheme", ["counting", "aggregation", "subtraction"])
def test_numbers_follow_from_the_facts_that_are_counted(scheme: str, altered: bool):
    made = records(scheme)
    assert made
    for record in made:
        values = objects(record, altered)
        asked = record.question.partition("or how many of ")[2]
        if scheme == "counting":
            number = counted(record, asked.rstrip("?"), values)
        else:
            first, _, rest = asked.partition(", and for how many of ")
            second = rest.partition(". ")[0]
            sign = 1 if scheme == "aggregation" else -1
            number = counted(record, first, values) + sign * counted(record, second, values)
        assert str(number) == (record.counterfactual_answer if altered else record.answer)
        assert record.answer != record.counterfactual_answer and number >= 0


def answer_type(answer: str) -> tuple[str, ...]:
    """Yes or no, a number, or the names that it has in any order."""
    if answer in ("Yes", "No"):
        return ("yes or no",)
    return ("number",) if answer.isdigit() else tuple(sorted(answer.split(", ")))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_counterfactual_answer_has_the_type_of_the_answer_and_another_value(scheme: str):
    for record in records(scheme):
        before, after = answer_type(record.answer), answer_type(record.counterfactual_answer)
        assert record.answer != record.counterfactual_answer
        if scheme == "superlative" or before[0].startswith("River") and len(before) == 1:
            assert {*before, *after} <= objects(record, altered=False).keys()  # one of those asked about
        else:
            assert before == after


def test_with_all_alterations_applied_each_record_keeps_its_facts():
    composer = RecordComposer(GRAPH, random.Random(0))
    made = [record for scheme in SCHEMES for record in composer.records(scheme, 3)]
    altered = [(each.subject, each.relation) for record in made for each in record.altered]
    assert len(altered) == len(set(altered)) and not {*altered} & {fact for each in made for fact in each.unaltered}
    assert len(records("superlative", 100)) < 25 < len(records("superlative", 100, allow_conflicts=True))


def test_the_same_seed_gives_the_same_records():
    assert records("sorting") == records("sorting") and records("sorting") != records("sorting", seed=1)


def test_none_of_two_hundred_sums_or_two_hundred_differences_mixes_two_relations_or_counts_an_entity_twice():
    lights = [FactHop(f"Light {n}", "island", f"Isle {n % 3}") for n in range(12)]
    people = [FactHop(f"Person {n}", "employer", f"Bank {n % 3}") for n in range(12)]
    graph = FactGraph([*lights, *people])
    composer = RecordComposer(graph, random.Random(3), allow_conflicts=True)
    sums = [record for scheme in ("aggregation", "subtraction") for record in composer.records(scheme, 200)]
    assert len(sums) == 400
    for record in sums:
        assert {record.altered[0].relation} == {relation for _, relation in record.unaltered}
        first, second = record.question.partition(". ")[0].split(", and for how many of ")
        assert not {*re.findall(r"(?:Light|Person) \d+", first)} & {*re.findall(r"(?:Light|Person) \d+", second)}
    assert {record.altered[0].relation for record in sums} == {"island", "employer"}


def test_values_of_different_units_are_not_compared():
    graph = FactGraph([FactHop(f"Thing {n}", "size", f"{n} {'km' if n % 2 else 'kg'}") for n in range(4)])
    for record in records("comparative", 4, graph=graph, allow_conflicts=True):
        assert {each.old.split()[1] for each in record.altered} in ({"km"}, {"kg"})


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("6,400 kilometres", Measure(6400, "kilometres")),
        ("about 40.5 m", Measure(40.5, "m")),
        ("1912", Measure(1912, "")),
        ("-12 °C", Measure(-12, "°c")),
        ("\u2212 12", None),
        ("Lake 7", None),
        ("", None),
    ],
)
def test_a_measure_is_a_number_with_its_unit(text: str, measure: Measure | None):
    assert parse_measure(text) == measure


def test_years_are_later_and_other_numbers_greater():
    assert degree_words([Measure(1912, ""), Measure(2001, "")]) == LATER
    assert degree_words([Measure(1912, ""), Measure(20, "")]) == degree_words([Measure(1912, "m")]) == GREATER
