"""Questions that follow from several facts: the facts are verified, the wording is checked, and a debate tries it."""

from collections.abc import Callable
from typing import Any

import pytest

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.construction.recoe import DEBATED, SUPPORTED, UNSUPPORTED, VERIFIED, build, filters
from emend.graphs.construction.recoe_samples import sample, solve
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
    "row": {"counterfactual_answer_alias": ["the Torvay River"]},
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
    assert state["result"] == {"question": GOOD} and not state.get("rejections")
    assert state["path"] == [
        "verify_facts", "support", "write_question", "check_question", "open_debate", "answer_alone", "vote",
        "check_verdict", "finish",
    ]  # fmt: skip
    assert state["passed"] == dict.fromkeys(filters("best"), True)
    assert len(state["calls"]) == 1 + 2 + 1 + 3


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
    assert state["result"] == {"question": GOOD} and state["attempts"] == 2
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


def test_the_paper_checks_no_wording():
    state = made("paper", reasoned_question=lambda prompt: "Brisko or Torvay")
    assert "check_question" not in state["path"] and state["result"] == {"question": "Brisko or Torvay"}
    assert list(filters("paper")) == [VERIFIED, SUPPORTED, UNSUPPORTED, DEBATED]


def test_the_stand_in_answers_composed_questions():
    assert solve(ITEM["text"], ITEM["facts"]) == "Brisko"  # type: ignore[arg-type]
    assert solve("Does Torvay have a greater length than Brisko?", ITEM["facts"]) == "No"  # type: ignore[arg-type]
    assert solve("Where is it?", ITEM["facts"]) == ""  # type: ignore[arg-type]
