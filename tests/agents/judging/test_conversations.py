"""Judges of answers about conversations: what they pick, and what their replies come to."""

from typing import Any

import pytest

from emend.agents.judging.base import Item, JudgeInput
from emend.agents.judging.conversations import CRITERIA
from emend.graphs.registry import JUDGES
from tests.graphs.judge_items import said


def picked(judge: str, **fields: Any) -> Item | str | None:
    record = {"kind": "knowledge_update", "question": "How many?", "answer": "52", "gold": ("52",)}
    result: Item | str | None = JUDGES.load(judge).role.pick(JudgeInput.model_validate(record | fields))
    return result


def test_a_rubric_is_judged_statement_by_statement():
    item = picked("nuggets", rubric=("States 52", "Names the library"))
    assert isinstance(item, Item) and item.text_of("rubric") == "1. States 52\n2. Names the library"
    assert picked("nuggets") is None and picked("nuggets", rubric=("x",), answer=None) is None


@pytest.mark.parametrize(
    ("scores", "mean", "code"),
    [((1, 0.5), 0.75, 0.5), ((0, 0), 0.0, 0.0), (("1", "0.5"), 0.75, 0.5)],
)
def test_statements_count_by_their_mean_and_in_the_code_without_halves(scores, mean: float, code: float):
    rows = [{"number": number, "reason": "r", "score": score} for number, score in enumerate(scores, 1)]
    assert said("nuggets", {"statements": rows})[0].values == {"nuggets": mean, "nuggets_code": code}


@pytest.mark.parametrize(
    "rows",
    [
        [{"number": 1, "reason": "r", "score": 1}],
        [{"number": n, "reason": "r", "score": 1} for n in (1, 2, 2)],
        [{"number": n, "reason": "r", "score": 0.7} for n in (1, 2)],
    ],
)
def test_a_statement_that_is_left_out_judged_twice_or_between_leaves_no_number(rows: list[dict[str, Any]]):
    verdict = said("nuggets", {"statements": rows})[0]
    assert not verdict.values and verdict.problem


def test_scores_are_read_in_words():
    assert said("nuggets", "It names 52 alone.\n1: 1\n2: 0")[0].values["nuggets"] == 0.5


def test_the_order_is_that_of_the_matched_events():
    item = picked("order", kind="event_ordering", rubric=("Charts", "Login"), answer="1. Login\n2. Charts")
    assert isinstance(item, Item) and item.text_of("events") == "1. Login\n2. Charts"
    assert picked("order", rubric=("Charts",)) is None
    assert picked("order", kind="event_ordering", rubric=("Charts",), answer=" ") == "the reply lists no event"
    rows = [{"number": 1, "event": 1}, {"number": 2, "event": 1}]
    values = said("order", {"events": rows})[0].values
    assert values["order_f1"] == 0.5, "the second event that is the same right one counts as none"
    assert said("order", "1: 2\n2: 1")[0].values["order"] == 0.0
    strange = [{"number": 1, "event": 3}, {"number": 2, "event": 1}]
    assert "no right event 3" in said("order", {"events": strange})[0].problem


@pytest.mark.parametrize("criterion", sorted(CRITERIA))
def test_an_answer_is_judged_by_the_criterion_of_its_question(criterion: str):
    item = picked("remembered", criterion=criterion)
    assert isinstance(item, Item) and item.text_of("criterion") == CRITERIA[criterion]
    assert picked("nuggets", criterion=criterion, rubric=("x",)) is None


def test_what_cannot_be_answered_is_judged_by_the_reason_why():
    item = picked("remembered", criterion="abstention", gold=("unknown",), rubric=("You never said it.",))
    assert isinstance(item, Item) and item.text_of("reference") == "You never said it."
    assert picked("remembered") is None
