"""Scores of tool calls and of states of a memory."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_to_dict

from emend.evals.metrics.agents import (
    ToolCall,
    compare_states,
    count_recovered,
    count_repeated,
    read_calls,
    score_calls,
)
from emend.memory.probe import Answer, Step


def _call(text: str) -> ToolCall:
    """Read a call such as `look(a)`; `!look(a)` could not be run."""
    name, _, query = text.removeprefix("!").removesuffix(")").partition("(")
    return ToolCall(name=name, arguments={"q": query}, problem="no" if text.startswith("!") else "")


@pytest.mark.parametrize(
    ("calls", "repeated", "recovered"),
    [
        ("", 0, 0),
        ("look(a) look(b)", 0, 0),
        ("look(a) look(a)", 1, 0),
        ("look(a) look(a) look(a)", 2, 0),
        ("look(a) look(b) look(a)", 1, 0),
        ("look(a) look(A)", 0, 0),
        ("look(a) ask(a)", 0, 0),
        ("!look(a)", 0, 0),
        ("!look(a) look(a)", 0, 1),
        ("!look(a) !look(a) look(a)", 0, 2),
        ("look(a) !look(a)", 0, 0),
        ("look(a) !ask(a)", 0, 0),
        ("!ask(a) look(a) ask(b)", 0, 1),
        ("look(b) !look(a) look(c)", 0, 1),
        ("!find(a) look(a)", 0, 1),
        ("!find(a)", 0, 0),
        ("!look(a) ask(a)", 0, 1),
        ("!look(a) !find(a) ask(a)", 0, 2),
        ("!look(a) !look(b) look(a) look(b)", 0, 2),
    ],
)
def test_repeated_and_recovered_calls_are_counted_as_by_hand(calls: str, repeated: int, recovered: int):
    made = [_call(each) for each in calls.split()]
    assert count_repeated([call for call in made if not call.problem]) == repeated
    assert count_recovered(made) == recovered


def conversation(*parts: Any) -> list[Any]:
    """Messages after a question: calls as (id, name, arguments, result, status)."""
    messages: list[Any] = [HumanMessage("Who?")]
    for id, name, arguments, result, status in parts:
        messages.append(AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": id}]))
        messages.append(ToolMessage(result, tool_call_id=id, name=name, status=status))
    return [*messages, AIMessage("Paul")]


def test_a_conversation_is_read_with_broken_and_refused_calls():
    messages = conversation(
        ("1", "look", {"q": "a"}, "There is no tool 'look'", "error"), ("2", "ask", {}, "x", "success")
    )
    broken = {"name": "ask", "args": "{", "id": "3", "error": None, "type": "invalid_tool_call"}
    messages.append(AIMessage("", invalid_tool_calls=[broken]))
    refused, good, bad = read_calls(messages)
    assert refused.problem.startswith("There is no tool") and not good.problem and "JSON" in bad.problem


def scored(*parts: Any, edit_ids: tuple[str, ...] = ("e1", "e2")) -> dict[str, float]:
    hits = [{"edit_id": "e1", "text": "Ana was born in Kesselby."}, {"edit_id": "e2", "text": "Paul governs Kesselby."}]
    update = {"messages": messages_to_dict(conversation(*parts)), "hits": hits}
    return score_calls(edit_ids, Answer(text="Paul", steps=(Step(node="plan", update=update, ms=1.0),)))


BORN = ("1", "look", {"q": "Ana"}, "<change>Ana was born in Kesselby.</change>", "success")
GOVERNS = ("2", "look", {"q": "Kesselby"}, "<change>Paul governs Kesselby.</change>", "success")


def test_calls_are_scored_by_the_edits_that_they_return():
    values = scored(BORN, GOVERNS)
    assert values["edits_found"] == values["all_edits_found"] == 1.0 and values["needless_calls"] == 0.0
    values = scored(BORN, ("3", "look", {"q": "Ana"}, BORN[3], "success"), ("4", "look", {"q": "x"}, "none", "success"))
    assert values["edits_found"] == 0.5 and values["all_edits_found"] == 0.0
    assert (values["calls"], values["needless_calls"], values["repeated_calls"]) == (3.0, 2.0, 1.0)


def test_a_refused_call_returns_nothing_and_may_be_mended():
    values = scored(("0", "find", {"q": "Ana"}, "There is no tool; Ana was born in Kesselby.", "error"), GOVERNS)
    assert values["edits_found"] == 0.5 and values["invalid_calls"] == 1.0 and values["recovered"] == 1.0


def test_the_final_state_is_compared_whatever_calls_led_to_it():
    gold = {("Ana", "city", "Lund"), ("Ana", "job", "judge")}
    whole = compare_states([*gold, *gold], gold)
    assert (whole.right, whole.wrong, whole.missing, whole.precision, whole.recall) == (
        2,
        0,
        0,
        1,
        1,
    ) and whole.is_equal
    stale = compare_states({("Ana", "city", "Oslo"), ("Ana", "job", "judge"), ("Ben", "job", "cook")}, gold)
    assert (stale.right, stale.wrong, stale.missing) == (1, 2, 1) and not stale.is_equal
    assert (stale.precision, stale.recall) == (1 / 3, 1 / 2)
    assert compare_states((), gold).precision is None and compare_states(gold, ()).recall is None
    assert compare_states((), ()).is_equal


def test_answers_without_calls_or_relevant_edits_have_no_such_scores():
    assert scored() == {} and scored(BORN, edit_ids=()) == {}
    for state in ({}, {"messages": "x"}, {"messages": [3], "hits": 4}):
        assert score_calls(("e1",), Answer(steps=(Step(node="plan", update=state, ms=1.0),))) == {}


def test_an_edit_that_holds_the_tags_of_a_result_is_found_by_what_is_left_of_it():
    text = "Ana was born</change> in Kesselby."
    hits = [{"edit_id": "e1", "text": text}]
    update = {"messages": messages_to_dict(conversation(BORN)), "hits": hits}
    values = score_calls(("e1",), Answer(text="Paul", steps=(Step(node="plan", update=update, ms=1.0),)))
    assert values["edits_found"] == 1.0 and values["needless_calls"] == 0.0
