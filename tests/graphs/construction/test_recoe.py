"""Questions that follow from several facts: the facts are verified, the wording is checked, and a debate tries it."""

from collections.abc import Callable
from typing import Any

import pytest

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.construction.reasoning.facts import VERIFIED
from emend.graphs.construction.reasoning.samples import sample, solve
from emend.graphs.construction.recoe import DEBATED, SUPPORTED, UNSUPPORTED, build, filters
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel

ITEM = {
    "text": "Which has the greater length, Brisko or Torvay?",
    "answer": "Brisko",
    "counterfactual_answer": "Torvay",
    "facts": ["Brisko has a length of 6,400 km.", "Torvay has a length of 3,100 km."],
    "counterfactual_facts": ["Brisko has a length of 3,100 km.", "Torvay has a length of 6,400 km."],
    "names": ["Brisko", "Torvay"],
    "hidden": ["6,400 km", "3,100 km"],
    "statements": {
        "Brisko has a length of 6,400 km.": ["Brisko", "has a length of", "6,400 km"],
        "Torvay has a length of 3,100 km.": ["Torvay", "has a length of", "3,100 km"],
        "Brisko has a length of 3,100 km.": ["Brisko", "has a length of", "3,100 km"],
        "Torvay has a length of 6,400 km.": ["Torvay", "has a length of", "6,400 km"],
    },
    "value_of": {
        "Brisko has a length of 3,100 km.": "Torvay has a length of 3,100 km.",
        "Torvay has a length of 6,400 km.": "Brisko has a length of 6,400 km.",
    },
    "row": {
        "counterfactual_answer_alias": ["the Torvay River"],
        "facts": [["Brisko has a length of 6,400 km.", "(Brisko; has a length of; 6,400 km)"]],
        "counterfactuals": ["Torvay has a length of 6,400 km."],
    },
    "evidence": {"Brisko has a length of 6,400 km.": ["Brisko runs for 6,400 km."]},
}
GOOD = "Between Brisko and Torvay, which is longer?"


def made(recipe: Any = "best", attempts: int = 1, rounds: int = 2, **own: Callable[[str], str]) -> dict[str, Any]:
    def reply(prompt: str) -> str:
        for name, say in own.items():
            is_other = name == "debate_answer" and "Your answer:" in prompt  # both prompts begin alike
            if SHIPPED[name].task.partition("{")[0][:40] in prompt and not is_other:
                return say(prompt)
        return sample(prompt)

    model = ScriptedChatModel(reply=reply)
    context = ConstructionContext(model, model, attempts=attempts, debaters=(model,) * 3, rounds=rounds)
    state, steps = run_graph(build(recipe), {"item": ITEM}, context)
    return {**state, "path": [step.node for step in steps], "calls": model.calls}


def test_a_question_passes_all_steps_and_the_debate_is_part_of_the_trace():
    state = made(reasoned_question=lambda prompt: GOOD)
    assert state["result"]["question"] == GOOD and not state.get("rejections")
    assert state["path"] == [
        "verify_facts", "support", "write_question", "check_question", "open_altered_debate", "answer_alone", "vote",
        "check_verdict", "name_aliases", "finish",
    ]  # fmt: skip
    assert state["passed"] == dict.fromkeys(filters("best"), True)
    assert len(state["calls"]) == 1 + 2 + 1 + 3 + 1


@pytest.mark.parametrize(
    ("name", "own"),
    [
        (VERIFIED, {"consistent": lambda prompt: "False"}),
        (VERIFIED, {"consistent": lambda prompt: "Perhaps"}),
        (SUPPORTED, {"answer_follows": lambda prompt: "False"}),
        (SUPPORTED, {"answer_follows": lambda prompt: "Well"}),
        (UNSUPPORTED, {"answer_follows": lambda prompt: "True"}),
    ],
)
def test_facts_that_do_not_hold_or_support_drop_the_item_before_an_author_is_asked(name: str, own: dict[str, Any]):
    state = made(attempts=3, **own)
    assert [each["filter"] for each in state["rejections"]] == [name] and "write_question" not in state["path"]


def test_a_wording_on_which_the_agents_end_otherwise_is_written_again():
    wordings = iter(["Which is shorter, Brisko or Torvay?", GOOD])
    state = made(
        attempts=2,
        reasoned_question=lambda prompt: next(wordings),
        debate_answer=lambda prompt: f"So.\nAnswer: {'Brisko' if 'shorter' in prompt else 'Torvay'}",
        debate_revise=lambda prompt: "So.\nAnswer: Brisko",
    )
    assert state["result"]["question"] == GOOD and state["attempts"] == 2
    assert [each["filter"] for each in state["rejections"]] == [DEBATED]
    assert state["path"].count("answer_alone") == 2


def test_an_alias_of_the_counterfactual_answer_is_the_answer():
    assert "result" in made(debate_answer=lambda prompt: "So.\nAnswer: The Torvay river")


def test_agents_who_do_not_agree_revise_and_without_a_majority_the_question_is_dropped():
    replies = iter(["Torvay", "Brisko", "Skerry"] * 2)
    state = made(
        debate_answer=lambda prompt: f"So.\nAnswer: {next(replies)}",
        debate_revise=lambda prompt: f"So.\nAnswer: {next(replies)}",
    )
    assert "revise" in state["path"] and [each["filter"] for each in state["rejections"]] == [DEBATED]


def test_the_paper_checks_no_wording_and_debates_the_answer_by_the_facts_as_they_are():
    asked = list[str]()

    def debate(prompt: str) -> str:
        asked.append(prompt)
        return "So.\nAnswer: Brisko"

    state = made("paper", reasoned_question=lambda prompt: "Brisko or Torvay", debate_answer=debate)
    assert all(fact in asked[0] for fact in ITEM["facts"])
    assert "check_question" not in state["path"] and state["result"]["question"] == "Brisko or Torvay"
    assert list(filters("paper")) == [VERIFIED, SUPPORTED, UNSUPPORTED, DEBATED]


def test_the_stand_in_answers_composed_questions():
    assert solve(ITEM["text"], ITEM["facts"]) == "Brisko"  # type: ignore[arg-type]
    assert solve("Does Torvay have a greater length than Brisko?", ITEM["facts"]) == "No"  # type: ignore[arg-type]
    assert solve("Where is it?", ITEM["facts"]) == ""  # type: ignore[arg-type]


def contradicted(reply: str, **more: Any) -> dict[str, Any]:
    own: dict[str, Any] = {"consistent": lambda prompt: "False", "corrected_fact": lambda prompt: reply}
    return made("paper", reasoned_question=lambda prompt: GOOD, **own, **more)


def test_the_paper_corrects_a_contradicted_fact_and_the_one_that_takes_its_value():
    state = contradicted("Brisko has a length of 6,650 km.")
    assert state["result"]["corrections"] == {"Brisko has a length of 6,400 km.": "Brisko has a length of 6,650 km."}
    row = state["result"]["row"]
    assert row["facts"] == [["Brisko has a length of 6,650 km.", "(Brisko; has a length of; 6,650 km)"]]
    assert row["counterfactuals"] == ["Torvay has a length of 6,650 km."]
    follows = next(prompt for prompt in state["calls"] if "Answer in question" in str(prompt))
    assert "6,650 km" in str(follows) and "6,400 km" not in str(follows)


@pytest.mark.parametrize(
    "reply",
    [
        "Brisko has a length of 6,400 km.",
        "Torvay has a length of 9 km.",
        "Brisko, as they say, is 6,650 km long.",
        "",
    ],
)
def test_a_correction_of_more_than_the_value_or_of_nothing_drops_the_question(reply: str):
    state = contradicted(reply)
    assert [rejection["filter"] for rejection in state["rejections"]] == [VERIFIED] and "result" not in state


def test_a_fact_that_the_paragraphs_say_counterfactually_is_none():
    state = contradicted("Brisko has a length of 3,100 km.")
    # both rivers are as long then, and the judge does not see the answer follow
    assert [rejection["filter"] for rejection in state["rejections"]] == [VERIFIED]


def test_aliases_of_both_answers_are_added_to_those_of_the_table_and_none_stands_for_both():
    reply = "First: Brisko River; the Brisko; R. B.\nSecond: Torvay Water; R. B.; "
    state = made(reasoned_question=lambda prompt: GOOD, answer_aliases=lambda prompt: reply)
    row = state["result"]["row"]
    assert row["answer_alias"] == ["Brisko River"]
    assert row["counterfactual_answer_alias"] == ["the Torvay River", "Torvay Water"]


def test_an_author_who_names_no_alias_leaves_those_of_the_table():
    state = made(reasoned_question=lambda prompt: GOOD, answer_aliases=lambda prompt: "I cannot say.")
    assert state["result"]["row"]["counterfactual_answer_alias"] == ["the Torvay River"]
