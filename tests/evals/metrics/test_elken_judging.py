"""Reading and counting what ELKEN's judge says, against what its own code gave on scripted replies."""

import json

import pytest

from emend.evals.metrics.agreement import agreement
from emend.evals.metrics.elken import SCALES, fact_right, full_mark_rate, judged_edit_level
from tests.evals.metrics.elken_code import (
    UNREAD,
    consistency_rate,
    mean_mark,
    overall_edit_level,
    parse_consistency,
    parse_marks,
)
from tests.paths import DATA

PARITY = DATA / "parity" / "elken_metrics.json"
CASES = json.loads(PARITY.read_text("utf-8"))
LINE = "Accuracy: 5; Coherence: 4; Comprehensive: 5; Overall: 4"
MARKS = {"accuracy": 5, "coherence": 4, "comprehensive": 5, "overall": 4}


def judged():
    case = CASES["tendency_g_reliability"]
    items, marks = case["items"], []
    for number, reply in enumerate(case["judge_replies_one_per_batch_of_5"]):
        marks += parse_marks(reply, len(items[5 * number : 5 * number + 5]))
    return [item["event"] for item in items], marks, case["expected"]


def test_marks_rates_and_means_are_as_by_the_code():
    events, marks, expected = judged()
    unread = dict.fromkeys(SCALES, UNREAD)
    assert [unread if found is None else found for found in marks] == expected["parsed_scores_per_item"]
    for scale in SCALES:
        rate, mean = full_mark_rate(marks, scale), mean_mark(marks, scale, original=True)
        assert rate == pytest.approx(expected["question_level_full_mark_rate"][scale], rel=1e-9)
        assert mean == pytest.approx(expected["mean_scores_as_original(-1 included)"][scale], rel=1e-9)
    assert judged_edit_level(marks, events) == pytest.approx(expected["edit_level_paper_definition"]["rate"], rel=1e-9)
    by_code = judged_edit_level(marks, events, original=True)
    assert by_code == pytest.approx(expected["edit_level_as_original_code"]["rate"], rel=1e-9)


def test_the_edit_level_over_facts_and_judged_answers_is_as_by_the_code():
    events, marks, _ = judged()
    case = CASES["overall_edit_level"]
    items = [item for item in case["fact_items"] if not item["local"]]
    facts = [(i["event"], fact_right(i["after"], (i["answer"]["name"], *i["answer"]["alias"]))) for i in items]
    assert overall_edit_level(facts, marks, events) == pytest.approx(case["expected"]["rate"], rel=1e-9)


def test_consistency_is_as_by_the_code():
    case = CASES["tendency_g_locality"]
    marks = [parse_consistency(reply) for reply in case["judge_replies"]]
    assert marks == case["expected"]["parsed"]
    assert consistency_rate(marks) == pytest.approx(case["expected"]["rate"], rel=1e-9)


def test_agreement_with_a_person_is_as_measured():
    case = CASES["judge_agreement"]
    found, expected = agreement(case["human_overall"], case["judge_overall"], range(12), resamples=5), case["expected"]
    assert found.n == len(case["judge_overall"]) == 12
    coefficients = {"spearman": found.spearman, "kendall_tau_b": found.kendall}
    means = {"mean_judge": found.mean_second, "mean_human": found.mean_first}
    told = {name: one.value for name, one in coefficients.items() if one}
    told |= {name: one.mean for name, one in means.items() if one}
    assert told == {name: pytest.approx(expected[name], rel=1e-9) for name in (*coefficients, *means)}


def test_the_code_loses_the_last_event_and_passes_over_what_it_cannot_read():
    full, low = dict.fromkeys(SCALES, 5), dict.fromkeys(SCALES, 3)
    assert judged_edit_level([full, low, full, full], ["a", "b", "c", "c"], original=True) == 1 / 4
    assert judged_edit_level([full, None, full], ["a", "b", "c"], original=True) == 1 / 2
    assert judged_edit_level([None], ["a"], original=True) is None


@pytest.mark.parametrize(
    ("reply", "marks"),
    [
        (f"I. {LINE}\nII. {LINE.upper()}", [MARKS, MARKS]),
        (f"I. {LINE}", [MARKS, None]),
        (f"I. {LINE}\nThank you.", [MARKS, None]),
        (f"I. {LINE}\nII. {LINE}\nIII. {LINE}", [MARKS, MARKS]),
        (f"I. {LINE}.\nII. Accuracy: 5; Coherence: 4; Overall: 4", [None, None]),
        ("", [None, None]),
        (f"Here are the marks.\nI. {LINE}", [None, MARKS]),  # a preface shifts what is read, as in the code
        (LINE.replace("Comprehensive", "Comprehensiveness"), [None, None]),
    ],
)
def test_what_cannot_be_read_has_no_marks(reply, marks):
    assert parse_marks(reply, 2) == marks


def test_an_unread_reply_is_no_full_mark_and_leaves_the_mean_alone():
    assert full_mark_rate([MARKS, None], "accuracy") == 0.5
    assert mean_mark([MARKS, None], "accuracy") == 5.0
    assert mean_mark([MARKS, None], "accuracy", original=True) == 2.0


def test_nothing_judged_is_no_number():
    empty = (full_mark_rate([], "overall"), mean_mark([None], "overall"), consistency_rate([None]))
    assert empty == (None, None, None)
    assert judged_edit_level([], []) is None


def test_an_event_with_facts_alone_is_not_counted():
    full = {scale: 5 for scale in SCALES}
    assert overall_edit_level([("e", True), ("f", False)], [full], ["e"]) == 1.0
    assert overall_edit_level([("e", False)], [full], ["e"]) == 0.0
