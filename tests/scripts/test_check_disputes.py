"""Disputes find most of the vague answers that a judge accepted, and few of the right ones, on public replies."""

import pytest

from scripts.benchmarks.check_disputes import (
    HALVES,
    RIGHT_DISPUTED,
    SHARED,
    VAGUE_LEFT,
    disputed_by_words,
    measure,
    of_half,
    read_replies,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SHARED / "replies.json").is_file(), reason=f"no LoCoMo replies in {SHARED}"),
]


def test_vague_answers_are_disputed_and_right_ones_are_not_in_either_half() -> None:
    replies = read_replies()
    for name in HALVES:
        figures = measure(of_half(replies, name), disputed_by_words)
        assert figures.vague[0] > 300 and figures.vague[1] / figures.vague[0] > 0.5, "the judge accepted most of them"
        assert figures.vague_left <= VAGUE_LEFT, name
        assert figures.right_disputed <= RIGHT_DISPUTED, name
