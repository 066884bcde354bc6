"""Checks of gold and of judges."""

import pytest

from emend.evals.stream.fairness import (
    check_judge,
    check_stream,
    find_judge_errors,
    find_wrong_gold,
    judge_by_model,
    judge_by_rules,
    plant_judge_errors,
    plant_wrong_gold,
)
from tests.evals.judged_runs import verdict
from tests.evals.stream.streams import generated, questions_of
from tests.params import first_quick
from tests.provider.models import asked_model
from tests.provider.server import Provider

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
    errors = find_judge_errors(verdicts)
    assert count > 30
    assert 0.95 * count <= len(errors) <= count


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
