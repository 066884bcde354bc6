"""`contains` on replies that other people labelled, on written sentences and on inputs of public bug reports."""

import json
from functools import cache

import pytest

from emend.agents.parsing.passages import read_passage
from emend.evals.metrics.text.choices import parse_choice
from emend.evals.metrics.text.contains import read_contains
from emend.evals.metrics.text.exact import exact_match, value_match
from scripts.benchmarks import check_answers
from tests.paths import DATA, SHARED

BATTERY = [json.loads(line) for line in (DATA / "answers/battery.jsonl").read_text("utf-8").splitlines()]
BUGS = SHARED / "data/bug_inputs"
needs_labels = pytest.mark.skipif(
    not (SHARED / "data/answers").is_dir(), reason=f"no labelled replies in {SHARED}/data/answers"
)
needs_bugs = pytest.mark.skipif(not BUGS.is_dir(), reason=f"no inputs of bug reports in {BUGS}")


def is_right(reply, golds, rival=None, question=""):
    rivals = [rival] if rival else []
    passage = read_passage(reply)
    return bool(exact_match(reply, golds)) or read_contains(passage, golds, rivals, question).right


@pytest.mark.parametrize("sort", sorted({row["class"] for row in BATTERY}))
def test_written_sentences_are_read_as_a_person_reads_them(sort):
    rows = [row for row in BATTERY if row["class"] == sort]
    wrong = [row for row in rows if is_right(row["reply"], row["gold"], row["rival"], row["question"]) != row["right"]]
    assert not wrong


@needs_bugs
@pytest.mark.parametrize("file", ["C02_numbers.jsonl", "C03_negation.jsonl", "C09_marks.jsonl"])
def test_inputs_of_public_bug_reports_are_right(file):
    for line in (BUGS / file).read_text("utf-8").splitlines():
        row = json.loads(line)
        assert is_right(row["reply"], [row["gold"]]) == bool(row["right"]), row


@needs_bugs
def test_marks_of_other_scripts_at_the_ends_do_not_matter_to_exact_match():
    for line in (BUGS / "C09_marks.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        assert exact_match(row["reply"], [row["gold"]]) == 1.0, row


@needs_bugs
def test_an_abstention_is_no_verdict():
    for line in (BUGS / "C01_abstain_no.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        assert parse_choice(row["reply"], row["choices"])[0] is None, row


@pytest.mark.parametrize(
    ("reply", "gold", "same"),
    [
        ("1000", "1,000", True),
        ("June 15th, 1990", "15 June 1990", True),
        ("P. V. Sindhu", "P.V. Sindhu", True),
        ("twelve", "12", True),
        ("It is 1,000", "1,000", False),
        ("-5", "5", False),
        ("June 1990", "15 June 1990", False),
        ("15 June 1990 or later", "15 June 1990", False),
    ],
)
def test_value_match_compares_whole_answers_as_values(reply, gold, same):
    assert value_match(reply, [gold]) == float(same)


@cache
def evouna_rows():
    return [*check_answers.evouna()]


@pytest.mark.slow
@needs_labels
def test_contains_is_right_in_nine_of_ten_replies_of_large_models():
    """The figures reached are in docs/reference/reading.md; substring matching reaches 86.9 and 2.8."""
    figures = check_answers.mean(check_answers.by_set(evouna_rows(), check_answers.verdicts))
    assert figures.accuracy >= 90
    assert figures.accepted <= 2.5


@pytest.mark.slow
@needs_labels
def test_contains_on_twelve_systems():
    rows = [*check_answers.nq301()]
    figures = check_answers.figures(rows, check_answers.verdicts(rows))
    assert figures.accuracy >= 78
    assert figures.accepted <= 6


@pytest.mark.slow
@needs_labels
@pytest.mark.parametrize("rule", ["as a date", "as a name", "by its words", "without words of the question"])
def test_a_rule_for_another_writing_wins_more_replies_than_it_loses(rule):
    wins, losses = check_answers.effects(evouna_rows()[::3], rule)
    assert wins > 3 * losses
