"""The scores of DocTER: its own numbers where its code is followed, sound ones where it is not."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emend.evals.metrics.scores import magnitude, original_magnitude, original_success, success
from tests.evals.metrics.docter_scores import (
    accuracy,
    docter_scores,
    edit_magnitude,
    edit_success,
    neighborhood_magnitude,
)
from tests.paths import DATA

PARITY = DATA / "parity" / "docter_metrics.json"
PERCENT = {"ES", "PS", "NS", "CES"}
log_probs = st.floats(min_value=-700, max_value=0)


def parity_cases():
    return [pytest.param(case, id=case["id"]) for case in json.loads(PARITY.read_text())["cases"]]


def flat(pairs):
    return [tuple(p) for p in pairs] if not pairs or isinstance(pairs[0][0], float | int) else sum(map(flat, pairs), [])


@pytest.mark.parametrize("original", [True, False], ids=["code", "log space"])
@pytest.mark.parametrize("case", parity_cases())
def test_scores_equal_those_of_the_benchmarks_own_code(case, original):
    inputs, expected = case["inputs"], case["expected_original" if original else "expected_logspace"]
    found = docter_scores({block: flat(pairs) for block, pairs in inputs.items() if block != "reasoning"}, original)
    found["Acc"] = accuracy([(r["logit_true"], r["logit_false"], r["label"] == "True") for r in inputs["reasoning"]])
    scores = [name for name in expected if not name.startswith("n_")]
    assert sorted(scores) == sorted(found)
    for name in scores:
        value = found[name]
        assert value is not None, name
        assert value * (100 if name in PERCENT else 1) == pytest.approx(expected[name], rel=1e-9, abs=1e-12), name


@given(log_probs, log_probs)
def test_magnitude_is_bounded_antisymmetric_and_signed_like_success(gold, rival):
    value = magnitude(gold, rival)
    assert -1 <= value <= 1
    assert value == -magnitude(rival, gold)
    assert (value > 0) == bool(success(gold, rival))


def test_magnitude_is_the_lead_as_share_of_the_larger_surprise():
    assert magnitude(-1.0, -4.0) == 0.75
    assert magnitude(0.0, -4.0) == 1.0
    assert magnitude(-4.0, 0.0) == -1.0
    assert magnitude(-2.0, -math.inf) == 1.0
    assert magnitude(-math.inf, -2.0) == -1.0
    assert (original_success(-800.0, -900.0), success(-800.0, -900.0)) == (0.0, 1.0)
    assert (original_magnitude(-800.0, -900.0), magnitude(-800.0, -900.0)) == (0.0, pytest.approx(1 / 9))


@pytest.mark.parametrize("tied", [0.0, -3.5, -math.inf])
def test_a_tie_fails_and_has_no_magnitude(tied):
    assert success(tied, tied) == 0.0
    assert magnitude(tied, tied) == 0.0


def test_an_exception_of_the_code_counts_no_pairs_give_no_score_and_undecided_answers_are_wrong():
    assert edit_magnitude([(-4.0, -1.0), (-1.0, -800.0)], original=True) == pytest.approx(0.75 / 2)
    assert edit_success([]) is None
    assert accuracy([]) is None
    assert set(docter_scores({}).values()) == {None}
    assert accuracy([(2.0, 1.0, True), (1.0, 1.0, True), (1.0, 1.0, False), (1.0, 2.0, False)]) == 0.5


def test_the_codes_eps_makes_certain_pairs_unbounded_and_ours_does_not():
    nearly_one = [(-2e-13, -3e-13)]
    unbounded = neighborhood_magnitude(nearly_one, original=True)
    assert unbounded is not None
    assert abs(unbounded) > 1000
    assert neighborhood_magnitude(nearly_one) == pytest.approx(1 / 3)


def test_neighbours_are_scored_for_keeping_the_old_answer():
    kept = [(-1.0, -4.0)]
    scores = docter_scores({"locality": kept, "edit_success": kept})
    assert (scores["NS"], scores["ES"]) == (1.0, 0.0)
    assert (scores["NNM"], scores["NEM"]) == (0.75, -0.75)
