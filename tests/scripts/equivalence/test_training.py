"""The examples on which the scorer of answer equivalence is trained, and its rates."""

import json

import numpy as np
import pytest

from emend.memory.values.search import find_answers
from emend.memory.values.text import value_text
from scripts.equivalence.examples import evouna, fold_of, made
from scripts.equivalence.rates import calibration_error, rates_by_set


@pytest.fixture
def folder(tmp_path):
    items = [
        {
            "id": f"Q{number}",
            "question": f"Who built lock {number}?",
            "golds": [f"Ana {name}"],
            "replies": {
                "long": {"text": f"Lock {number} was built by Ana {name}. It is old.", "right": True},
                "short": {"text": f"Ana {name}", "right": True},
                "other": {"text": "Lock keeper Ben Ode", "right": False},
            },
        }
        for number, name in enumerate(["Rojo", "Alba", "Sol", "Mar", "Luna", "Rey", "Paz", "Cruz"] * 3)
    ]
    for name in ("nq", "tq"):
        (tmp_path / f"evouna_{name}.json").write_text(json.dumps(items))
    return tmp_path


def test_a_question_is_in_one_fold_wherever_its_text_occurs():
    assert fold_of("Who built it?") == fold_of("who built it")


def test_made_examples_that_are_wrong_do_not_give_the_gold(folder):
    _, questions = evouna(folder)
    examples = made(questions)
    wrong = [e for e in examples if e.source in ("swapped short", "vague short", "vague")]
    assert wrong
    for example in wrong:
        golds = next(q.golds for q in questions if q.question == example.row.question)
        assert not example.right
        assert not any(find_answers(value_text(example.row.reply), golds, example.row.question))


def test_made_examples_stay_in_the_fold_of_their_question(folder):
    labelled, questions = evouna(folder)
    folds = {example.row.question: example.fold for example in labelled}
    single = [e for e in made(questions) if e.row.question in folds]
    assert single
    assert all(example.fold == folds[example.row.question] for example in single)


def test_rates_are_means_over_sets():
    right = np.asarray([True, False, True, False])
    rates = rates_by_set(np.asarray([0.9, 0.9, 0.9, 0.1]), right, ["a", "a", "b", "b"], 0.5)
    assert rates["mean accuracy"] == 0.75
    assert rates["mean wrong accepted"] == 0.5
    assert rates["right lost"] == 0


def test_the_calibration_error_is_the_gap_between_probability_and_share():
    assert calibration_error(np.asarray([0.95] * 4), np.asarray([True] * 4)) == pytest.approx(0.05)
    assert calibration_error(np.asarray([0.25] * 4), np.asarray([True] * 3 + [False])) == pytest.approx(0.5)
