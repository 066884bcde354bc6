"""Trajectories against gold, counts of calls, and pass^k."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_to_dict

from emend.evals.metrics.agents import (
    MatchMode,
    ToolCall,
    TrajectoryCounts,
    compare_states,
    count_calls,
    matches,
    pass_hat_k,
    read_turns,
    score_calls,
)
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Step

MODES: tuple[MatchMode, ...] = ("strict", "unordered", "subset", "superset")
AGENTEVALS = Path(__file__).parents[2] / "data" / "trajectories" / "agentevals.json"
"""Verdicts of agentevals 0.0.9 over 40 of our trajectories; scripts/benchmarks/compare_agentevals.py writes it."""


def turns(text: str) -> list[list[ToolCall]]:
    """Turns such as `look(a) look(b) | ask(q)`; `!look(a)` could not be run, `look(a,x=1)` has two arguments."""
    return [[_call(part) for part in turn.split()] for turn in text.split("|") if turn.strip()]


def _call(text: str) -> ToolCall:
    name, _, rest = text.removeprefix("!").removesuffix(")").partition("(")
    first, *others = rest.split(",")
    arguments = {"q": first} if first else {}
    arguments |= dict(each.split("=") for each in others)
    return ToolCall(name=name, arguments=arguments, problem="no" if text.startswith("!") else "")


# trajectory, gold, the modes that match, and calls needless, repeated, missing, invalid, recovered
HAND_SCORED = [
    ("", "", "SUBP", "00000"),
    ("", "look(a)", "B", "00100"),
    ("look(a)", "", "P", "10000"),
    ("look(a)", "look(a)", "SUBP", "00000"),
    ("look(a)", "look(b)", "", "10100"),
    ("look(a)", "ask(a)", "", "10100"),
    ("look(a) | look(b)", "look(a) | look(b)", "SUBP", "00000"),
    ("look(b) | look(a)", "look(a) | look(b)", "UBP", "00000"),
    ("look(a) look(b)", "look(a) | look(b)", "UBP", "00000"),
    ("look(b) look(a)", "look(a) look(b)", "SUBP", "00000"),
    ("look(a)", "look(a) | look(b)", "B", "00100"),
    ("look(b)", "look(a) | look(b)", "B", "00100"),
    ("look(a) | look(b) | look(c)", "look(a) | look(b)", "P", "10000"),
    ("look(c) | look(a) | look(b)", "look(a) | look(b)", "P", "10000"),
    ("look(a) | look(a)", "look(a)", "P", "11000"),
    ("look(a) | look(a) | look(b)", "look(a) | look(b)", "P", "11000"),
    ("look(a) | look(a)", "look(a) | look(a)", "SUBP", "01000"),
    ("look(a)", "look(a) | look(a)", "B", "00100"),
    ("look(a) | look(a) | look(a)", "look(a)", "P", "22000"),
    ("look(a) | ask(b)", "look(a) | look(b)", "", "10100"),
    ("ask(a) | ask(b)", "look(a) | look(b)", "", "20200"),
    ("!look(a) | look(a)", "look(a)", "P", "00011"),
    ("!look(a)", "look(a)", "SUBP", "00110"),
    ("!find(a) | look(a)", "look(a)", "P", "00011"),
    ("!find(a)", "look(a)", "", "00110"),
    ("look(a) | !look(b)", "look(a) | look(b)", "SUBP", "00110"),
    ("look(a) | !look(b) | look(b)", "look(a) | look(b)", "P", "00011"),
    ("!look(a) | !look(a) | look(a)", "look(a)", "P", "00022"),
    ("look(a) | !ask(a)", "look(a)", "P", "00010"),
    ("!ask(a) | look(a) | ask(b)", "look(a) | ask(b)", "P", "00011"),
    ("look(a) | !look(a)", "look(a)", "P", "00010"),
    ("look(b) | !look(a) | look(c)", "look(a)", "P", "20111"),
    ("look(a,n=1)", "look(a)", "", "10100"),
    ("look(a)", "look(a,n=1)", "", "10100"),
    ("look(a,n=1)", "look(a,n=1)", "SUBP", "00000"),
    ("look(a,n=1)", "look(a,n=2)", "", "10100"),
    ("look()", "look()", "SUBP", "00000"),
    ("look()", "look(a)", "", "10100"),
    ("look(a) | look(b) | look(c) | look(d)", "look(a) | look(b) | look(c) | look(d)", "SUBP", "00000"),
    ("look(d) | look(c) | look(b) | look(a)", "look(a) | look(b) | look(c) | look(d)", "UBP", "00000"),
    ("look(a) | look(c)", "look(a) | look(b) | look(c) | look(d)", "B", "00200"),
    ("look(x) | look(a) | look(y) | look(b)", "look(a) | look(b)", "P", "20000"),
    ("look(a) look(b) | look(c)", "look(a) | look(b) look(c)", "UBP", "00000"),
    ("look(a) look(b) | look(c)", "look(b) look(a) | look(c)", "SUBP", "00000"),
    ("look(a) look(a)", "look(a) | look(a)", "UBP", "01000"),
    ("look(a) | look(b) | look(a)", "look(a) | look(b)", "P", "11000"),
    ("ask(a) | look(a)", "look(a) | ask(a)", "UBP", "00000"),
    ("ask(a) look(a)", "look(a) ask(a)", "SUBP", "00000"),
    ("ask(a)", "look(a) | ask(a)", "B", "00100"),
    ("look(A)", "look(a)", "", "10100"),
    ("look(a) | look(A)", "look(a)", "P", "10000"),
    ("look(ä)", "look(ä)", "SUBP", "00000"),
    ("!look(a) | ask(a)", "look(a)", "P", "10111"),
    ("!look(a) | !find(a) | ask(a)", "ask(a)", "P", "00022"),
    ("!look(a) !look(b) | look(a) look(b)", "look(a) look(b)", "P", "00022"),
    ("look(a) | look(b)", "look(c) | look(d)", "", "20200"),
    ("look(a) | look(b) | look(c)", "look(c)", "P", "20000"),
    ("look(a) | ask(a) | look(a)", "look(a) | ask(a) | look(a)", "SUBP", "01000"),
    ("look(a) | look(a) | ask(a)", "look(a) | ask(a) | look(a)", "UBP", "01000"),
    ("look(a) | look(b) | look(b) | look(c)", "look(a) | look(b) | look(c)", "P", "11000"),
]


@pytest.mark.parametrize(("made", "gold", "expected", "counts"), HAND_SCORED)
def test_sixty_trajectories_are_scored_as_by_hand(made: str, gold: str, expected: str, counts: str):
    letters = zip("SUBP", MODES, strict=True)
    assert "".join(letter for letter, mode in letters if matches(turns(made), turns(gold), mode)) == expected
    needless, repeated, missing, invalid, recovered = map(int, counts)
    calls = sum(map(len, turns(made)))
    assert count_calls(turns(made), turns(gold)) == TrajectoryCounts(
        calls=calls, needless=needless, repeated=repeated, missing=missing, invalid=invalid, recovered=recovered
    )


def test_sixty_are_sixty():
    assert len(HAND_SCORED) == 60


@pytest.mark.parametrize(
    ("made", "gold", "rule", "expected"),
    [
        ("look(a)", "look(b)", "ignore", True),
        ("look(a)", "ask(a)", "ignore", False),
        ("look(a)", "look(a,n=1)", "subset", True),
        ("look(a,n=1)", "look(a)", "subset", False),
        ("look(a,n=1)", "look(a)", "superset", True),
        ("look(a)", "look(a,n=1)", "superset", False),
    ],
)
def test_arguments_are_compared_by_a_rule(made: str, gold: str, rule: Any, expected: bool):
    assert matches(turns(made), turns(gold), "unordered", rule) is expected
    assert matches(turns(made), turns(gold), "unordered", "exact", {"look": rule}) is expected


def test_a_call_takes_the_gold_call_that_leaves_the_others_theirs():
    assert matches(turns("look(a) | look(a,n=1)"), turns("look(a,n=1) | look(a,n=1,m=2)"), "superset", "subset")


@pytest.mark.parametrize(("mode", "rule"), [("loose", "exact"), ("strict", "loose")])
def test_unknown_modes_and_rules_are_refused(mode: Any, rule: Any):
    with pytest.raises(BadSettings, match="loose"):
        matches(turns("look(a)"), turns("look(a)"), mode, rule)


def test_verdicts_equal_those_of_agentevals():
    """Left out: it compares arguments with the roles swapped in `subset`, and both ways in `unordered`."""
    cases = json.loads(AGENTEVALS.read_bytes())
    assert len([case for case in cases if case["arguments"] in ("exact", "ignore")]) >= 40
    for case, mode in itertools.product(cases, MODES):
        if case["arguments"] in ("subset", "superset") and mode in ("subset", "unordered"):
            continue
        verdict = matches(turns(case["made"]), turns(case["gold"]), mode, case["arguments"])
        assert verdict is case["verdicts"][mode], (case, mode)


@pytest.mark.parametrize("attempts", [1, 2, 5, 8])
def test_pass_hat_k_is_the_share_of_all_choices_of_k_attempts_that_succeed(attempts: int):
    for successes, k in itertools.product(range(attempts + 1), range(1, attempts + 1)):
        outcomes = [True] * successes + [False] * (attempts - successes)
        chosen = [all(part) for part in itertools.combinations(outcomes, k)]
        assert pass_hat_k(successes, attempts, k) == pytest.approx(sum(chosen) / len(chosen))


@pytest.mark.parametrize("k", [0, 4])
def test_pass_hat_k_needs_k_attempts(k: int):
    with pytest.raises(BadSettings, match="--repeats"):
        pass_hat_k(2, 3, k)


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
    (refused,), (good,), (bad,) = read_turns(messages)
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
