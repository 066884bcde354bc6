"""Checks of gold and of judges."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from emend.evals.streams.fairness import (
    check_judge,
    check_stream,
    find_wrong_gold,
    judge_by_model,
    judge_by_rules,
    right_answer,
    wrong_answers,
)
from emend.evals.streams.turn import StreamItem, StreamQuestion, WrongAnswer
from tests.evals.judged_runs import verdict
from tests.evals.streams.streams import generated, questions_of
from tests.params import first_quick
from tests.provider.models import asked_model
from tests.provider.server import Provider


class JudgeVerdict(NamedTuple):
    """A judge's word on an answer."""

    question: StreamQuestion
    answer: str
    accepted: bool


def plant_wrong_gold(items: Sequence[StreamItem], count: int, seed: int = 0) -> tuple[list[StreamItem], set[str]]:
    """The stream with wrong gold in so many questions, and their ids.

    A planted gold is a wrong answer of the question, or that nothing is known.
    """
    rng = random.Random(seed)
    able = [item.id for item in items if isinstance(item, StreamQuestion) and (item.wrong or item.gold)]
    planted = {*rng.sample(able, min(count, len(able)))}
    return [_with_wrong_gold(item, rng) if item.id in planted else item for item in items], planted


def _with_wrong_gold(item: StreamItem, rng: random.Random) -> StreamItem:
    assert isinstance(item, StreamQuestion)
    if not item.wrong:
        return item.model_copy(update={"gold": ()})
    value = rng.choice(item.wrong).value
    others = tuple(wrong for wrong in item.wrong if wrong.value != value)
    return item.model_copy(
        update={"gold": (value,), "wrong": (*others, *(WrongAnswer(value=each) for each in item.gold))}
    )


def plant_judge_errors(
    questions: Sequence[StreamQuestion], share: float, seed: int = 0
) -> tuple[list[JudgeVerdict], int]:
    """Verdicts on right and wrong answers, of which a share is wrong, and the number of those."""
    rng = random.Random(seed)
    sound = [JudgeVerdict(each, right_answer(each), True) for each in questions]
    sound += [JudgeVerdict(each, text, False) for each in questions for text in wrong_answers(each)[:1]]
    flipped = {*rng.sample(range(len(sound)), round(share * len(sound)))}
    return [
        each._replace(accepted=not each.accepted) if number in flipped else each for number, each in enumerate(sound)
    ], len(flipped)


STREAMS = [
    generated(turns=400, users=users, difficulty=kind, seed=users) for users, kind in ((1, "normal"), (2, "hard"))
]


@pytest.mark.slow
@pytest.mark.parametrize("items", STREAMS)
def test_a_generated_stream_fails_no_check(items):
    checks = check_stream(items)
    assert [check.failed for check in checks] == [0] * len(checks)
    assert all(check.n > 50 for check in checks)


@pytest.mark.parametrize("items", STREAMS)
def test_planted_wrong_gold_is_found_and_nothing_else(items):
    changed, planted = plant_wrong_gold(items, 60)
    found = {fault.question.id for fault in find_wrong_gold(changed)}
    assert len(planted) == 60
    assert len(found & planted) >= 57
    assert not found - planted


@pytest.mark.slow
@pytest.mark.parametrize("items", first_quick(STREAMS))
def test_planted_errors_of_a_judge_are_found_and_no_sound_verdict(items):
    verdicts, count = plant_judge_errors(questions_of(items), 0.15)
    errors = [each for each in verdicts if judge_by_rules(each.question, each.answer) != each.accepted]
    assert count > 30
    assert 0.95 * count <= len(errors) <= count


@pytest.mark.slow
def test_a_judge_that_takes_topical_answers_is_measured_beside_the_rules():
    questions = questions_of(STREAMS[0])
    strict = check_judge(judge_by_rules, questions)
    topical = check_judge(lambda question, answer: answer != "unknown", questions)
    assert (strict.false_acceptance.mean, strict.false_rejection.mean) == (0, 0)
    assert topical.false_acceptance.mean == 1
    assert 0.2 < (topical.false_rejection.mean or 0) < 0.6
    assert strict.false_acceptance.high is not None and strict.false_acceptance.high < 0.05


@pytest.mark.slow
def test_a_chat_model_is_measured_as_a_judge():
    questions = [each for each in questions_of(STREAMS[0]) if each.kind == "current"][:10]
    with Provider(lambda asked: verdict(asked.prompt, yes="yes")) as provider:
        check = check_judge(judge_by_model(asked_model(provider)), questions, planted=3)
        assert provider.count == 10 + sum(min(3, 3 * len(each.wrong)) for each in questions)
    assert (check.false_acceptance.mean, check.false_rejection.mean) == (1, 0)
    assert [(row.failed, row.n) for row in check.rows] == [(30, 30), (0, 10)]
