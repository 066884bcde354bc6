"""DocTER's counting of tokens, against what its code gave on scripted logits, with the odd situations that follow."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import ArrayLike

from tests.paths import DATA

PARITY = DATA / "parity" / "docter_metrics.json"
CASES = json.loads(PARITY.read_text("utf-8"))["joint_probability_cases"]
HALF, THIRD = math.log(2), math.log(3)
LOGITS: list[list[float]] = [[0, HALF, -math.inf], [0, 0, 0], [0, -math.inf, THIRD], [0, 0, -math.inf]]
"""Probabilities of ids 0, 1, 2 per place: 1/3 2/3 0, thirds, 1/4 0 3/4, 1/2 1/2 0."""


def counted_probability(context: Sequence[int], whole: Sequence[int], logits: ArrayLike, pad_id: int = 0) -> float:
    """The joint probability of a target, found by counting the ids that are not `pad_id`.

    Three things follow from the counting, and are the code's: a pad id that stands inside the text shifts the place
    and the number of tokens; where appending the target changes how the prompt's end is cut, another number of tokens
    is scored than the target has; and where both rows count the same, nothing is scored and the probability is 1.

    Args:
        context: token ids of the prompt, right-padded.
        whole: token ids of prompt, space and target, right-padded.
        logits: of `whole`, shape (len(whole), vocabulary), natural-log units up to a constant per row.
        pad_id: what the code takes for padding, 0 whatever the tokenizer.
    """
    before, length = (sum(token != pad_id for token in row) for row in (context, whole))
    rows = np.asarray(logits, dtype=np.float32)
    rows = np.exp(rows - rows.max(axis=-1, keepdims=True))
    found = rows / rows.sum(axis=-1, keepdims=True)  # a softmax in float32, as the code's
    scored = list(pairwise(range(length)))[max(0, before - 1) :] if length > before else []
    return math.prod(float(found[place, whole[after]]) for place, after in scored)


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
