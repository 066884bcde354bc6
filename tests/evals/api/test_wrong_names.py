"""The entry points of the Python API answer a wrong option with the right one, never with an error of pydantic's."""

from contextlib import ExitStack
from math import nan
from typing import Any

import pytest

import emend
from emend.memory.errors import BadSettings

RUN: dict[str, str] = {
    "modle": "did you mean 'mode'",
    "max_costs": "did you mean 'max_cost'",
    "reevaluate": "did you mean 'reevaluate_at'",
    "perplexity": "did you mean 'perplexity_text'",
    "setting": "did you mean 'settings'",
    "protocol": "did you mean 'protocols'",
    "fail_on_errors": "did you mean 'fail_on_error'",
    "worker": "did you mean 'workers'",
    "cache_folder": "did you mean 'cache'",
    "set": "did you mean 'overrides'",
    "editor": "did you mean 'editors'",
}
VALUES: dict[str, Any] = {"limit": "x", "max_cost": nan, "rpm": "fast", "seed": -1, "overrides": "x"}


@pytest.mark.parametrize(("name", "message"), RUN.items())
def test_a_wrong_name_in_a_run_is_answered_with_the_right_one(name: str, message: str) -> None:
    wrong: dict[str, Any] = {name: "x"}
    with pytest.raises(BadSettings, match=message):
        emend.run("tinyworld", editors=["rag"], **wrong)


@pytest.mark.parametrize(("name", "value"), VALUES.items())
def test_a_wrong_value_in_a_run_is_named(name: str, value: Any) -> None:
    with pytest.raises(BadSettings, match=name.replace("_", "[-_]")) as refused:
        emend.run("tinyworld", editors=["rag"], **{name: value})
    assert "pydantic" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("modell", "x", "did you mean 'model'"),
        ("recipe", "bset", "recipe"),
        ("set", {}, "did you mean 'overrides'"),
        ("language", "../x", "--language is '../x'"),
    ],
)
def test_a_wrong_option_of_a_construction_is_named(name: str, value: Any, message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        emend.build("questions", "docs", out="never", **{name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("modle", "tiny", "did you mean 'model'"), ("embeding", "x", "did you mean 'embedding'"), ("memory", 3, "memory")],
)
def test_a_wrong_option_of_a_question_is_named(name: str, value: Any, message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        emend.ask("Where?", **{name: value})


@pytest.mark.parametrize(
    ("name", "message"), [("retrievr", "'retriever'"), ("set", "'overrides'"), ("device", "device")]
)
def test_a_wrong_option_of_edits_is_named(name: str, message: str) -> None:
    with pytest.raises(BadSettings, match=message), ExitStack() as stack:
        stack.enter_context(emend.edit("tiny", [], **{name: "x"}))
