"""Reports of events: each filter drops what it is meant for, and the judge has the last word."""

from typing import Any

import pytest

from emend.graphs.construction.akew import CONVEYS
from emend.graphs.construction.elken import NAMED, build, filters, sample
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel

ITEM = {"text": "Ida Holt transferred to Tarn United.", "names": ["Ida Holt", "Tarn United"]}
GOOD = "After weeks of rumours it is done: Ida Holt has signed with Tarn United and will train there from Monday."


def made(*replies: str, recipe: Any = "best", verdict: str = "True", attempts: int = 3) -> dict[str, Any]:
    script = iter(replies)
    author = ScriptedChatModel(reply=lambda prompt: next(script))
    judge = ScriptedChatModel(reply=lambda prompt: verdict)
    state, steps = run_graph(build(recipe), {"item": ITEM}, ConstructionContext(author, judge, attempts=attempts))
    return {**state, "path": [step.node for step in steps]}


def test_a_report_takes_the_place_of_the_template():
    state = made(GOOD)
    assert state["result"] == {"event": GOOD} and state["path"] == ["write", "check_text", "verify", "finish"]
    assert state["passed"] == dict.fromkeys(filters("best"), True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty", ""),
        ("refusal", "I'm sorry, but I cannot write about Ida Holt and Tarn United."),
        ("talk", f"Sure! {GOOD}"),
        ("instruction", f"{GOOD} Read more at https://example.org."),
        ("markup", f"**Transfer news** {GOOD}"),
        ("language", "艾达·霍尔特转会到塔恩联队，下周一开始训练。"),
        ("length", f"{GOOD} " * 9),
        ("cut_off", GOOD.rstrip(".")),
        ("denial", f"In this hypothetical scenario, {GOOD}"),
        (NAMED, GOOD.replace("Tarn United", "her old club")),
        (NAMED, GOOD.replace("Ida Holt", "the goalkeeper")),
    ],
)
def test_a_bad_report_is_dropped_by_the_filter_meant_for_it(name: str, text: str):
    state = made(text, attempts=1)
    assert "result" not in state and [each["filter"] for each in state["rejections"]] == [name]


def test_a_rejected_report_is_written_again():
    assert made("I cannot do that.", GOOD)["result"] == {"event": GOOD}
    state = made(GOOD, GOOD, GOOD, verdict="False")
    assert [each["filter"] for each in state["rejections"]] == [CONVEYS] * 3


def test_the_recipe_of_the_paper_takes_what_is_written():
    state = made("Something else.", recipe="paper")
    assert state["result"] == {"event": "Something else."} and state["path"] == ["write", "finish"]
    assert filters("paper") == {}


def test_the_replies_of_an_estimate_pass_all_filters():
    model = ScriptedChatModel(reply=sample)
    state, _ = run_graph(build(), {"item": ITEM}, ConstructionContext(model, model))
    assert "result" in state
