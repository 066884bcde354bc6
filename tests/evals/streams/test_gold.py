"""The reference state, on hand-worked streams."""

import pytest

from emend.evals.streams.gold import FactKey, GoldState, StateFact
from emend.evals.streams.sentences.wordings import QuestionTarget, read_question
from emend.evals.streams.turn import Turn


def told(*texts: str, user: str = "user") -> list[Turn]:
    return [Turn(date=f"2025-01-{number:02d}", user=user, text=text) for number, text in enumerate(texts, 1)]


def state_after(*turns: Turn) -> GoldState:
    state = GoldState(read_texts=True)
    for turn in turns:
        state.apply(turn)
    return state


def answer(state: GoldState, question: str, user: str = "user") -> tuple[str, ...]:
    target = read_question(question)
    assert target is not None
    return state.answer(user, target)


EMPLOYER = "What is the employer of Ana?"
HEADQUARTERS = "What is the headquarters of the employer of Ana?"
FIRST, SECOND = "The employer of Ana is Calder.", "Update: The employer of Ana is Tarn."


@pytest.mark.parametrize(
    ("texts", "question", "gold"),
    [
        ((), EMPLOYER, ()),
        ((FIRST,), EMPLOYER, ("Calder",)),
        ((FIRST, SECOND), EMPLOYER, ("Tarn",)),
        ((FIRST, SECOND), "What was the employer of Ana on 2025-01-01?", ("Calder",)),
        ((FIRST, SECOND), "What was the employer of Ana on 2024-12-31?", ()),
        ((FIRST, "Since 2020-05-01: Ana works for Orsa."), EMPLOYER, ("Calder",)),
        ((FIRST, "Since 2020-05-01: Ana works for Orsa."), "What was the employer of Ana on 2024-01-01?", ("Orsa",)),
        ((FIRST, "Correction: The employer of Ana is Vesk."), "What was the employer of Ana on 2025-01-01?", ("Vesk",)),
        ((FIRST, SECOND, "Please forget Ana's employer."), EMPLOYER, ()),
        ((FIRST, SECOND, "Please forget Ana's employer."), "What was the employer of Ana on 2025-01-01?", ()),
        ((FIRST, "Please forget Ana's employer.", SECOND), EMPLOYER, ("Tarn",)),
        (
            (FIRST, "Tarn is headquartered in Brask.", SECOND),
            "What is the headquarters of the employer of Ana?",
            ("Brask",),
        ),
        ((FIRST, "The employer of Bo is Calder.", SECOND), "Name everything whose employer is Calder.", ("Bo",)),
        ((FIRST, "What if the employer of Ana were Tarn?"), EMPLOYER, ("Calder",)),
    ],
)
def test_an_answer_is_what_the_turns_say(texts: tuple[str, ...], question: str, gold: tuple[str, ...]):
    assert answer(state_after(*told(*texts)), question) == gold


DESK = "Rule: the travel desk of Ana is always the headquarters of the employer of Ana."
OFFICE = "Rule: the tax office of Ana is always the country of the travel desk of Ana."
PLACES = (
    "The headquarters of Calder is Brask.",
    "The headquarters of Tarn is Halden.",
    "The country of Brask is Karst.",
    "The country of Halden is Norland.",
)


def test_a_change_goes_through_two_rules():
    before = state_after(*told(FIRST, *PLACES, DESK, OFFICE))
    after = state_after(*told(FIRST, *PLACES, DESK, OFFICE, SECOND))
    assert (answer(before, "What is the travel desk of Ana?"), answer(before, "What is the tax office of Ana?")) == (
        ("Brask",),
        ("Karst",),
    )
    assert (answer(after, "What is the travel desk of Ana?"), answer(after, "What is the tax office of Ana?")) == (
        ("Halden",),
        ("Norland",),
    )


@pytest.mark.parametrize("change", [SECOND, "Please forget the employer of Ana."])
def test_a_derived_value_is_unknown_once_its_condition_has_ended(change: str):
    rule = "Rule: as long as the employer of Ana is Calder, the access badge of Ana is Blue 7."
    badge = "What is the access badge of Ana?"
    assert answer(state_after(*told(FIRST, rule)), badge) == ("Blue 7",)
    assert answer(state_after(*told(FIRST, rule, change)), badge) == ()


def test_rules_in_a_circle_give_nothing():
    circle = (
        "Rule: the sponsor of Ana is always the sponsor of the sponsor of Ana.",
        "Rule: the travel desk of Ana is always the sponsor of the travel desk of Ana.",
    )
    state = state_after(*told(*circle))
    assert answer(state, "What is the sponsor of Ana?") == answer(state, "What is the travel desk of Ana?") == ()


def test_a_user_and_a_document_say_nothing_for_another_user():
    document = Turn(date="2025-01-03", role="document", text="The employer of Ana is Marrow.")
    state = state_after(*told(FIRST), *told("The employer of Ana is Orsa.", user="eva"), document)
    assert (answer(state, EMPLOYER), answer(state, EMPLOYER, "eva")) == (("Calder",), ("Orsa",))
    assert state.current() == {
        StateFact("user", "Ana", "employer", "Calder"),
        StateFact("eva", "Ana", "employer", "Orsa"),
    }


def test_evidence_has_the_rule_its_facts_and_both_sides_of_a_correction():
    turns = told(FIRST, *PLACES, DESK, "Correction: The employer of Ana is Tarn.")
    state = state_after(*turns)
    evidence = state.evidence("user", QuestionTarget("Ana", ("travel desk",)))
    assert evidence == tuple(turns[place].id for place in (5, 0, 6, 2))
    assert max(state.histories[FactKey("user", "Ana", "employer")]).since == "2025-01-01"
