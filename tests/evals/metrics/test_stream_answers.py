"""Scores of answers over a stream."""

import tomllib
from typing import Any

import pytest

from emend.evals.metrics.expected_answers import ExpectedAnswer, WrongText, count_tokens, score_expected
from emend.evals.metrics.protocols import CONTAINS, EXACT, protocol_of
from emend.memory.probe import Answer, Step
from tests.paths import ROOT

STALE, OTHER_USER = WrongText("Calder Lines", "stale"), WrongText("Orsa Bank", "other_user")


def expected(**fields: Any) -> ExpectedAnswer:
    asked = "[2025-01-06] user: What is the employer of Ana Rojo?"
    return ExpectedAnswer(asked, ("Tarn Works",), (STALE, OTHER_USER))._replace(**fields)


UNKNOWN = {"gold": ("unknown",), "abstains": True}
FIRMS = {
    "names_all": True,
    "gold": ("Calder Lines", "Tarn Works"),
    "wrong": (WrongText("Orsa Bank", "stale"),),
}


@pytest.mark.parametrize(
    ("fields", "text", "right", "stale"),
    [
        ({}, "Tarn Works", 1, 0),
        ({}, "Ana Rojo works for Tarn Works.", 1, 0),
        ({}, "Calder Lines", 0, 1),
        ({}, "Tarn Works, and before that Calder Lines.", 1, 0),
        ({}, "Tarn Works or Calder Lines", 0, 0),
        ({}, "unknown", 0, 0),
        ({}, "", 0, 0),
        (UNKNOWN, "unknown", 1, 0),
        (UNKNOWN, "I do not know.", 1, 0),
        (UNKNOWN, "Calder Lines", 0, 1),
        (UNKNOWN, "I don't know, but it was probably Calder Lines.", 0, None),
        (FIRMS, "Calder Lines and Tarn Works", 1, 0),
        (FIRMS, "Calder Lines", 0, 0),
        (FIRMS, "Calder Lines, Tarn Works and Orsa Bank", 0, 1),
    ],
)
def test_an_answer_is_scored_by_the_kind_of_its_question(fields, text: str, right: float, stale: float | None):
    values = score_expected(expected(**fields), Answer(text=text)).values
    assert values["correct"] == right
    assert stale is None or values["gives_stale"] == stale


def test_an_answer_of_another_user_is_counted_as_such():
    values = score_expected(expected(), Answer(text="Orsa Bank")).values
    assert (values["gives_other_user"], values["gives_stale"], values["correct"]) == (1, 0, 0)


def test_the_rules_take_no_planted_wrong_answer():
    assert [expected(**fields).false_acceptance() for fields in ({}, UNKNOWN, FIRMS)] == [0, 0, 0]
    assert expected(wrong=()).false_acceptance() is None


def test_rules_that_took_a_wrong_answer_would_be_seen():
    assert expected(wrong=(WrongText("Tarn Works"),), gold=("Tarn Works", "Tarn")).false_acceptance() == 1


def test_costs_and_evidence_are_read_from_the_steps():
    step = Step(node="retrieve", update={"hits": [{"text": "x" * 9}]}, ms=2.5, place=1)
    answer = Answer(text="x", steps=(step,), retrieved=("t1", "t9"))
    values = score_expected(expected(), answer, ("t1", "t2")).values
    assert (values["context_tokens"], values["recall_ms"], values["evidence"]) == (3, 2.5, 0.5)


def test_without_a_text_the_answer_is_unscored():
    scores = score_expected(expected(), Answer())
    assert "correct" not in scores.values and scores.unscored["correct"]


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("é" * 4, 2)])
def test_four_bytes_are_a_token(text: str, tokens: int):
    assert count_tokens(text) == tokens


def test_figures_over_streams_do_not_carry_the_protocol_of_an_exact_match():
    benchmark = tomllib.loads((ROOT / "evals" / "streams" / "run" / "metrics.toml").read_text("utf-8"))
    values = {metric["value"] for group in benchmark["groups"] for metric in group["metrics"]}
    assert protocol_of("correct") == CONTAINS and {"correct"} <= values
    assert EXACT not in map(protocol_of, values)
