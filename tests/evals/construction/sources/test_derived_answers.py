"""Answers of ReCoE's released questions, derived again from the numbers of their facts."""

from collections.abc import Mapping
from typing import Any

import pytest

from scripts.benchmarks.check_recoe_answers import agrees, derive
from scripts.benchmarks.fact_quantities import Quantity, first_quantity, rank, years


def row(question: str, answer: str, facts: Mapping[str, str]) -> dict[str, Any]:
    choices = dict[str, Any]()
    for place, (name, fact) in enumerate(facts.items(), 1):
        choices |= {f"entity{place}": name, f"choice_{place}_facts": [{"atomic_facts": [fact]}]}
    return {"question": question, "answer": answer, "facts_per_choice": choices}


@pytest.mark.parametrize(
    ("sentence", "quantity"),
    [
        ("Brisko is 6,400 km long.", Quantity(6_400_000, 6_400_000, "metres")),
        ("Brisko is 2,000 miles long.", Quantity(3_218_688, 3_218_688, "metres")),
        ("Halden covers 300 square kilometres.", Quantity(3e8, 3e8, "square metres")),
        ("Halden covers 30,000 hectares in 2019.", Quantity(3e8, 3e8, "square metres")),
        ("Its population in 2001 was 1.5 million.", Quantity(1.5e6, 1.5e6)),
        ("It has over 5,000 inhabitants.", Quantity(5000, float("inf"), "people")),
        ("It has less than 3,000 people.", Quantity(0, 3000, "people")),
        ("Episodes have 50-80 minutes.", Quantity(50, 80, "minut")),
        ("At the end of the 2020-21 season she had 173 goals.", Quantity(173, 173, "goal")),
        ("She was born in 1970.", None),
    ],
)
def test_a_sentence_has_a_number_with_its_unit(sentence: str, quantity: Quantity | None):
    assert first_quantity(sentence) == quantity


def test_a_year_before_which_something_was_is_a_bound():
    assert [*years("It was opened before 1951, and closed in 1999.")] == [Quantity(0, 1951), Quantity(1999, 1999)]


def test_intervals_that_meet_and_different_units_have_no_order():
    assert rank([Quantity(1, 2), Quantity(3, 3), Quantity(0, 0)], falling=True) == [1, 0, 2]
    assert rank([Quantity(50, 80), Quantity(60, 60)], falling=True) is None
    assert rank([Quantity(5, 5, "nomin"), Quantity(1, 1, "award")], falling=True) is None


def test_an_answer_follows_from_values_in_different_units():
    facts = {"Brisko Falls": "Brisko Falls is 108 m high.", "Halmen Falls": "Halmen Falls is 165 feet high."}
    asked = row("Is Brisko Falls higher than Halmen Falls?", "Yes.", facts)
    ranked = derive(asked)
    assert ranked == ["Brisko Falls", "Halmen Falls"]
    assert agrees(asked, ranked) and not agrees(asked | {"answer": "No."}, ranked)


def test_an_entity_is_recognised_by_a_part_of_its_name():
    facts = {
        "the border with Halden": "The border is 90 km long.",
        "the border with Brask": "The border is 70 km long.",
    }
    asked = row("Does Vaduria have a longer border with Brask or Halden?", "Halden", facts)
    assert agrees(asked, derive(asked) or []) and not agrees(asked | {"answer": "Brask"}, derive(asked) or [])


def test_a_number_in_a_name_is_no_value():
    facts = {"30 Rivers": "30 Rivers had 7 seasons.", "Tarn": "Tarn had 9 seasons."}
    asked = row("Sort by the number of seasons from most to least 30 Rivers, Tarn.", "Tarn, 30 Rivers", facts)
    assert derive(asked) == ["Tarn", "30 Rivers"]


def test_a_question_with_a_condition_is_left_out():
    facts = {"Mia": "Mia was born in 1950.", "Ida": "Ida was born in 1960."}
    assert derive(row("Was Mia born earlier than Ida?", "Yes", facts)) == ["Mia", "Ida"]
    assert derive(row("Was Mia older than Ida when they moved?", "Yes", facts)) is None
