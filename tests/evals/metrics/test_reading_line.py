"""The reading of an answer in one line."""

from typing import Any

import pytest

from emend.evals.case import Record
from emend.evals.metrics.equivalence.scorer import load_equivalence
from emend.evals.metrics.reading_line import ReadingLine, reading_lines
from emend.evals.metrics.scoring import text as scoring_text
from emend.evals.metrics.scoring.registry import SCORERS, scorer_of
from emend.memory.probe import Answer, Probe


def record(answer, gold=("Paris",), rival=None, **fields):
    about: dict[str, Any] = {
        "unit": "u",
        "of": 1,
        "case": "c",
        "probe": "p",
        "kind": "efficacy",
        "editor": "rag",
        "model": "toy",
    }
    more: dict[str, Any] = {"setting": "s", "mode": "all", "prompt": "What is the capital of France?"}
    return Record(**about, **more, gold=gold, rival=rival, answer=answer, **fields)


@pytest.mark.parametrize(
    ("answer", "score", "verdict", "value", "rule"),
    [
        ("The capital is Paris", 1.0, "right", "Paris", "as it is"),
        ("Paris", 1.0, "right", "paris", "the first line is the right answer or an alias"),
        ("It is not Paris", 0.0, "wrong", "Paris", "denied"),
        ("It is Rome", 0.0, "wrong", "", "the answer is not named"),
        ("Paris or Lyon", 0.0, "wrong", "Paris", "an alternative"),
    ],
)
def test_a_line_names_what_was_compared_and_the_rule_that_decided(answer, score, verdict, value, rule):
    (line,) = reading_lines(record(answer, values={"contains": score}))
    assert (line.verdict, line.value, line.rule) == (verdict, value, rule)
    assert f"{verdict}: {rule}" in line.text()


def test_a_stored_score_by_other_rules_is_said():
    (line,) = reading_lines(record("The capital is Paris", values={"contains": 0.0}))
    assert line.verdict == "right" and "stored: 0" in line.rule


def test_an_abstention_of_a_yes_or_no_question_has_its_reason():
    (line,) = reading_lines(record("No idea.", gold=("no",), unscored={"choice": "the reply says so"}))
    assert (line.verdict, line.rule) == ("unscored", "the reply says so")


def test_an_answer_by_probabilities_has_no_reading():
    assert reading_lines(record(None, values={"success": 1.0})) == []


def test_a_long_passage_is_cut_in_the_line_alone():
    (line,) = reading_lines(record("Paris " + "x" * 5000, values={"contains": 1.0}))
    assert len(line.text()) < 300 < len(line.passage)


def test_an_unscored_answer_keeps_its_reason():
    (line,) = reading_lines(record(" ", unscored={"contains": "the reply is empty"}))
    assert (line.verdict, line.rule) == ("unscored", "the reply is empty")


def test_a_stored_verdict_that_is_none_by_the_rules_of_today_has_no_reading():
    assert reading_lines(record("maybe", gold=("no",), values={"choice": 1.0})) == []


CAPITAL, PLAYS = "What is the capital of France?", "What does Ana play?"
SHAPES = {
    "a name": Probe(kind="k", prompt=CAPITAL, gold=("Paris",)),
    "a name against a rival": Probe(kind="k", prompt=CAPITAL, gold=("Paris", "City of Light"), rival="Rome"),
    "parts of one answer": Probe(kind="k", prompt=PLAYS, gold=("chess", "Go"), all_golds=True, rival="bridge"),
    "named options": Probe(kind="k", prompt="Which is longer?", gold=("the Nile",), choices=("the Nile", "the Po")),
    "letters": Probe(kind="k", prompt="A, B or C?", gold=("A",), choices=("A", "B", "C")),
    "yes or no": Probe(kind="k", prompt="Is Ana here?", gold=("no",), choices=("yes", "no"), rival="yes"),
    "true or false": Probe(kind="k", prompt="Ana is here.", gold=("true",), choices=("true", "false"), rival="false"),
    "unknown": Probe(kind="k", prompt="Who is it?", gold=("unknown",), abstains=True),
    "a text": Probe(kind="k", prompt="Why?", gold=("because the bridge was closed for the whole of a long winter",)),
}
REPLIES = (
    "Paris", "paris.", "It is not Paris.", "Paris or Lyon", "Rome", "The capital is Paris.\nIt lies on the Seine.",
    "Chess and Go.", "She plays chess, and not Go.", "chess, Go, bridge", "The Nile is longer than the Po.",
    "the Nile or the Po", "(A)", "B. the second", "No.", "Yes, she is.", "She is not here.", "True", "I don't know.",
    "No idea.", "unknown", "The bridge was closed.", "!", "2",
)  # fmt: skip
HEAVY = {"similarity", "equivalence", "event_order"}


def scored(probe, reply, scorer):
    answer = Answer(text=reply.partition("\n")[0], passage=reply, exact_text=reply)
    scores = scorer_of(scorer)(probe, answer, Answer(text="Paris", passage="Paris"))
    line = record(
        answer.text,
        gold=probe.gold,
        rival=probe.rival,
        passage=reply,
        values=scores.values,
        unscored=scores.unscored,
        rules={name: reading.rule for name, reading in scores.readings.items()},
        compared={name: reading.value for name, reading in scores.readings.items()},
    )
    return scores, reading_lines(line)


@pytest.mark.parametrize("scorer", sorted(SCORERS.builtin.keys() - HEAVY))
@pytest.mark.parametrize("shape", SHAPES)
def test_the_rule_that_is_shown_is_that_of_the_score(shape, scorer):
    outputs = {output.name for output in scorer_of(scorer).outputs if output.reads}
    for reply in REPLIES:
        scores, lines = scored(SHAPES[shape], reply, scorer)
        assert all(scores.values[name] == float(reading.right) for name, reading in scores.readings.items())
        assert {line.score for line in lines} == outputs & (scores.values.keys() | scores.unscored.keys()), reply
        for line in lines:
            verdicts = {None: ("unscored",), 1.0: ("right", "yes"), 0.0: ("wrong", "no")}
            assert line.verdict in verdicts[scores.values.get(line.score)], (reply, line)
            assert line.rule and "stored" not in line.rule, (reply, line)


@pytest.mark.parametrize(
    ("shape", "reply", "scorer", "said"),
    [
        ("parts of one answer", "She plays chess and Go.", "contains", "right: each of the golds"),
        ("parts of one answer", "Chess and Go", "contains", "right: each of the golds"),
        ("parts of one answer", "She plays chess.", "contains", "wrong: of several golds, Go: the answer is not named"),
        ("named options", "The Nile is longer.", "choice", "right: the one choice that is named"),
        ("named options", "the Nile or the Po", "choice", "unscored: reply names several choices"),
        ("yes or no", "No, she is not.", "choice", "no · right: a verdict"),
        ("a name", "Paris", "strict_match", "right: the right answer or an alias, letter by letter"),
        ("a name", "paris", "strict_match", "wrong: a right answer in other letters or marks"),
        ("unknown", "No idea.", "abstention", "yes: it says that it does not know"),
        ("a name", "It is Paris.", "agreement", "yes: both assert the right answer"),
    ],
)
def test_a_line_says_how_each_shape_was_read(shape, reply, scorer, said):
    _, (line, *_) = scored(SHAPES[shape], reply, scorer)
    assert said in line.text()


@pytest.mark.slow  # reads the weights
def test_the_scorer_of_equivalence_says_its_probability(monkeypatch):
    monkeypatch.setattr(scoring_text, "_equivalence_scorer", load_equivalence)
    for reply, said in (("It is surely Paris.", "right: probability"), ("Rome", "wrong: nothing is said, or a rival")):
        _, (line,) = scored(SHAPES["a name against a rival"], reply, "equivalence")
        assert said in line.text()


def test_a_line_does_not_say_its_text_twice():
    line = ReadingLine("em", "The capital is Paris.", "the capital is paris", "wrong", "another text")
    assert line.text() == '"The capital is Paris." · wrong: another text'
    assert "· Paris ·" in line._replace(value="Paris").text()
