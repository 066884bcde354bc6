"""DocTER's counting of tokens, against what its code gave on scripted logits, with the odd situations that follow."""

import json
import math
import os
from pathlib import Path

import pytest

from emend.evals.metrics.docter_counting import counted_probability

SHARED = Path(os.environ.get("EMEND_SHARED") or Path(__file__).resolve().parents[3] / "../shared")
PARITY = SHARED / "parity" / "docter_metrics.json"
CASES = json.loads(PARITY.read_text())["joint_probability_cases"] if PARITY.is_file() else []
HALF, THIRD = math.log(2), math.log(3)
LOGITS: list[list[float]] = [[0, HALF, -math.inf], [0, 0, 0], [0, -math.inf, THIRD], [0, 0, -math.inf]]
"""Probabilities of ids 0, 1, 2 per place: 1/3 2/3 0, thirds, 1/4 0 3/4, 1/2 1/2 0."""


@pytest.mark.skipif(not CASES, reason=f"no parity cases at {PARITY}")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']} {case['tags'][0]}")
@pytest.mark.parametrize("target", ["original", "altered"])
def test_probabilities_equal_those_of_the_benchmarks_own_code(case, target):
    ids, expected = case["token_ids_padded"], case["expected"][f"p_{target}"]
    found = counted_probability(ids["context"], ids[target], case["logits"][target], case["pad_id"])
    assert found == pytest.approx(expected, rel=1e-5)  # its softmax is in float32


def test_the_tokens_after_the_prompt_are_multiplied():
    assert counted_probability([1, 0, 0, 0], [1, 1, 1, 2], LOGITS) == pytest.approx(2 / 3 * 1 / 3 * 3 / 4)


def test_a_pad_id_inside_the_text_shifts_what_is_scored():
    assert counted_probability([1, 0, 0, 0], [1, 0, 1, 2], LOGITS) == pytest.approx(1 / 3 * 1 / 3)


def test_a_target_that_adds_no_token_by_count_is_certain():
    assert counted_probability([1, 2, 0, 0], [1, 1, 0, 0], LOGITS) == 1.0


def test_the_first_token_follows_on_nothing_and_is_left_out():
    assert counted_probability([], [1, 1], LOGITS[:2]) == pytest.approx(2 / 3)
