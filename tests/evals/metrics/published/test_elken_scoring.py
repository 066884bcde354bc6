"""ELKEN's scoring rules, against what its own code gave on synthetic outputs and on replies of our own."""

import json
import random

import pytest

from emend.evals.data.benchmarks.elken.cases import event_case
from emend.evals.data.benchmarks.elken.rows import EventRow
from emend.evals.metrics.agreement import agreement
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.published.elken import (
    SCALES,
    fact_right,
    full_mark_rate,
    judged_edit_level,
    normalise_answer,
    normalise_locality,
    parse_option,
    parse_option_leniently,
)
from emend.evals.metrics.scorers import score
from emend.memory.probe import Answer
from tests.paths import DATA

PARITY = DATA / "parity" / "elken_metrics.json"
CASES = json.loads(PARITY.read_text("utf-8"))
BACKGROUND = "background_knowledge_needed(type=1, gold not unknown)"
RATES = {
    "overall": ("fact_direct", "fact_background", "fact_unknown", "fact_unknown_background"),
    "unknown": ("fact_unknown", "fact_unknown_background"),
    "known": ("fact_direct", "fact_background"),
    BACKGROUND: ("fact_background",),
    "no_background_knowledge(type=0)": ("fact_direct", "fact_unknown"),
}


def probe_of(item, block):
    """The probe that the loader makes of one item of the parity file, as part of its event."""
    question = {"subject": {"name": "x"}, "type": item.get("question_type", 0)} | item
    part = "fact" if block == "fact" else "tendency"
    empty: dict[str, list] = {"qas": [], "local_qas": []}
    asked = empty | {"local_qas" if item["local"] else "qas": [question]}
    row = {"event": item["event"], "event_type": "x", "fact": empty, "tendency": empty} | {part: asked}
    return event_case(EventRow.model_validate(row), (block,)).probes[0]


def said_of(item, block):
    probe = probe_of(item, block)
    before = Answer(text=item["before"]) if "before" in item else None
    return probe.kind, score(probe, Answer(text=item["after"]), before)


def rate(chosen):
    return sum(chosen) / len(chosen)


@pytest.mark.parametrize("case", CASES.get("normalise_answer", []), ids=repr)
def test_answers_are_normalised_as_by_the_code(case):
    assert normalise_answer(case["text"]) == case["expected"]


@pytest.mark.parametrize("case", CASES.get("parse_option", []), ids=repr)
def test_options_are_parsed_as_by_the_code(case):
    assert parse_option(case["text"]) == case["expected"]


@pytest.mark.parametrize("case", CASES.get("normalise_locality", []), ids=repr)
def test_locality_is_normalised_as_by_the_code(case):
    assert normalise_locality(case["text"], case["alias"] or ()) == case["expected"]


@pytest.mark.parametrize("case", CASES.get("factual", []), ids=lambda case: case["name"])
def test_fact_questions_score_as_by_the_code(case):
    items, expected = case["items"], case["expected"]
    scored = [said_of(item, "fact") for item in items]
    for (_, scores), told in zip(scored, expected["per_item"], strict=True):
        value = told.get("correct", told.get("same"))
        assert scores.values["right" if "correct" in told else "same"] == float(value)
    same = [scores.values["same"] for kind, scores in scored if kind == "fact_local"]
    assert rate(same) == pytest.approx(expected["locality"]["rate"], rel=1e-9)
    for name, kinds in RATES.items():
        chosen = [scores.values["right"] for kind, scores in scored if kind in kinds]
        assert len(chosen) == expected["question_level"][name]["total"]
        assert rate(chosen) == pytest.approx(expected["question_level"][name]["rate"], rel=1e-9)


@pytest.mark.parametrize(
    ("case", "block", "value"),
    [*((c, "fact", "right") for c in CASES.get("factual", [])), (*CASES.get("tendency_m", []), "tendency_m", "option")]
    if CASES
    else [],
)
def test_the_edit_level_is_as_by_the_paper(case, block, value):
    items = [item for item in case["items"] if not item["local"]]
    right = [bool(said_of(item, block)[1].values[value]) for item in items]
    events = [item["event"] for item in items]
    grouped = case["expected"]["edit_level_grouped_by_event"]["rate"]
    assert estimate([float(r) for r in right], events, per="all").mean == pytest.approx(grouped, rel=1e-9)


@pytest.mark.parametrize("case", CASES.get("tendency_m", []), ids=lambda case: case["name"])
def test_multiple_choice_scores_as_by_the_code(case):
    scored = [said_of(item, "tendency_m")[1] for item in case["items"]]
    for item, scores, told in zip(case["items"], scored, case["expected"]["per_item"], strict=True):
        if "parsed_after" in told:
            assert parse_option(item["after"]) == told["parsed_after"]
        value = told.get("correct", told.get("same"))
        assert scores.values["option" if "correct" in told else "same"] == float(value)
    for output, name in (("option", "question_level"), ("same", "locality")):
        values = [scores.values[output] for scores in scored if output in scores.values]
        assert rate(values) == pytest.approx(case["expected"][name]["rate"], rel=1e-9)


def test_the_label_united_states_does_not_count_at_the_edit_level_over_all():
    items = CASES["overall_edit_level"]["fact_items"]
    golds = [(i["after"], (i["answer"]["name"], *i["answer"]["alias"])) for i in items if not i["local"]]
    scored = [said_of(i, "fact")[1].values.get("right") for i in items if not i["local"]]
    assert scored == [float(fact_right(reply, answers)) for reply, answers in golds] and {0.0, 1.0} <= set(scored)
    answer = {"id": "Q30", "name": "United States of America", "alias": ["USA"]}
    fact = {"question": "Where?", "subject": {"name": "x"}, "answer": answer, "type": 0}
    tendency = {"question": "How?", "candidate": "(A) Up (B) Down (C) Same", "answer": "A"}
    row = {"event": "e", "event_type": "x", "fact": {"qas": [fact]}, "tendency": {"qas": [tendency]}}
    probe = event_case(EventRow.model_validate(row)).probes[0]
    assert score(probe, Answer(text="United States")).values == {"right": 1.0, "overall": 0.0}
    assert score(probe, Answer(text="USA")).values == {"right": 1.0, "overall": 1.0}


@pytest.mark.parametrize(
    ("reply", "golds", "right"),
    [
        ("ANN LEE.", ("Ann Lee",), True),
        ("Lee", ("Ann Lee", "Lee"), True),
        ("the Lee", ("Ann Lee", "Lee"), False),
        ("It is unknown to me", ("unknown", "unknown"), True),
        ("unknown", ("Ann Lee",), False),
        ("", ("Ann Lee",), False),
    ],
)
def test_a_fact_is_right_when_it_equals_a_label_or_admits_what_is_unknown(reply, golds, right):
    assert fact_right(reply, golds) is right


@pytest.mark.parametrize(
    ("reply", "option"),
    [
        ("A", "A"),
        ("b", "B"),
        ("(c)", "C"),
        ("A) Rise", "A"),
        ("B: Fall", "B"),
        ("Option C", "C"),
        ("Answer: A", "A"),
        ("The answer is (B).", "B"),
        ("\nA", "A"),
        ("Rise", "A"),
        ("It will fall", "B"),
        ("A doctor may tell", None),
        ("(A) or (B)", None),
        ("rise or fall", None),
        ("D", None),
        ("**A**", "A"),
        ("Answer: **B**", "B"),
        ("Answer: A or B", None),
        ("The answer is A and B", None),
        ("A/C", None),
        ("", None),
    ],
)
def test_options_are_read_leniently_by_letter_in_any_dress_or_by_text(reply, option):
    assert parse_option_leniently(reply, ("Rise", "Fall", "No change")) == option


def test_whatever_the_code_reads_as_an_option_the_lenient_rule_reads_too():
    for reply in ("A", "B.", "(C)", "A. Rise", "(A) Rise", "The answer is (B).", "C ", "B\nbecause", "A. It is not B."):
        assert parse_option_leniently(reply, ("Rise", "Fall", "No change")) == parse_option(reply)


def test_the_same_option_in_another_dress_is_another_text_and_the_same_option():
    tendency = {"question": "How?", "candidate": "(A) Up (B) Down (C) Same", "answer": "C", "local": True, "event": "e"}
    kind, scores = said_of(tendency | {"before": "C", "after": "(C)"}, "tendency_m")
    assert kind == "tendency_m_local"
    assert (scores.values["same"], scores.values["same_option"]) == (0.0, 1.0)
    _, scores = said_of(tendency | {"before": "C", "after": "who knows"}, "tendency_m")
    assert "same_option" not in scores.values
    assert "edited model's reply" in scores.unscored["same_option"]
    _, scores = said_of(tendency | {"before": "no idea", "after": "C"}, "tendency_m")
    assert "unedited model's reply" in scores.unscored["same_option"]


UNREAD = -1
"""The code's mark for a reply that it cannot parse."""


def test_rates_of_marks_are_as_by_the_code():
    case = CASES["tendency_g_reliability"]
    events, expected = [item["event"] for item in case["items"]], case["expected"]
    marks = [None if found["overall"] == UNREAD else found for found in expected["parsed_scores_per_item"]]
    for scale in SCALES:
        wanted = expected["question_level_full_mark_rate"][scale]
        assert full_mark_rate(marks, scale) == pytest.approx(wanted, rel=1e-9)
    assert judged_edit_level(marks, events) == pytest.approx(expected["edit_level_paper_definition"]["rate"], rel=1e-9)
    by_code = judged_edit_level(marks, events, original=True)
    assert by_code == pytest.approx(expected["edit_level_as_original_code"]["rate"], rel=1e-9)
    assert (full_mark_rate([], "overall"), judged_edit_level([], [])) == (None, None)


def test_agreement_with_a_person_is_as_measured():
    case = CASES["judge_agreement"]
    people, judge, expected = case["human_overall"], case["judge_overall"], case["expected"]
    found = agreement(people, judge, range(len(people)), resamples=5)
    assert found.n == len(judge)
    coefficients = {"spearman": found.spearman, "kendall_tau_b": found.kendall}
    means = {"mean_judge": found.mean_second, "mean_human": found.mean_first}
    told = {name: one.value for name, one in coefficients.items() if one}
    told |= {name: one.mean for name, one in means.items() if one}
    assert told == {name: pytest.approx(expected[name], rel=1e-9) for name in (*coefficients, *means)}


def released_edit_level(marks, events):
    """The loop of `compute_event_score` after its description: flags and totals are kept while events go by."""
    current, flag, right, total, read = None, 1, 0, 0.0, 0
    for mark, event in zip(marks, events, strict=True):
        if event != current:
            if current is not None:
                total += read / read if read else 0
                right += flag
            current, flag, read = event, 1, 0
        overall = UNREAD if mark is None else mark["overall"]
        if overall != 5:
            flag = 0
        if overall == UNREAD:
            continue
        read += 1
    total += read
    return right / total if total else None


def random_marks(rng):
    events = [rng.choice("abcd") for _ in range(rng.randint(0, 9))]
    if rng.random() < 0.7:
        events.sort()
    return [rng.choice((None, None, {"overall": 5}, {"overall": 5}, {"overall": 3})) for _ in events], events


def test_the_edit_level_as_by_the_code_is_that_of_its_loop():
    """Before, unread answers were left out first: an event of [unread, 5] passed."""
    rng = random.Random(18)
    for marks, events in (random_marks(rng) for _ in range(10_000)):
        assert judged_edit_level(marks, events, original=True) == released_edit_level(marks, events), (marks, events)


def test_the_code_loses_the_last_event_and_fails_one_with_an_unread_answer():
    full, low = dict.fromkeys(SCALES, 5), dict.fromkeys(SCALES, 3)
    assert judged_edit_level([full, low, full, full], ["a", "b", "c", "c"], original=True) == 1 / 4
    assert judged_edit_level([full, None, full], ["a", "b", "c"], original=True) == 1 / 2
    assert judged_edit_level([None, None, full, low], ["a", "a", "a", "b"], original=True) == 0
    assert judged_edit_level([None], ["a"], original=True) is None
