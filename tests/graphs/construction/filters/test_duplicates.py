"""Near duplicates among short texts, by ROUGE-1."""

from collections import Counter

import pytest

from emend.graphs.construction.filters.duplicates import find_duplicates, rouge_1
from emend.memory.retrieval.tokens import words


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("China overtakes the world.", "china overtakes the world", 1.0),
        ("a b c d", "a b e f", 0.5),
        ("a a a b", "a c", 2 / 6),
        ("a b", "c d", 0.0),
        ("", "", 0.0),
    ],
)
def test_rouge_1_is_the_f_measure_of_shared_words(first: str, second: str, expected: float):
    assert rouge_1(Counter(words(first)), Counter(words(second))) == pytest.approx(expected)


def test_the_first_of_near_duplicates_stays_and_one_that_is_dropped_drops_no_other():
    texts = ["a b c d e", "a b c x y", "x y z v w", "a b c d e"]  # neighbours share three words of five
    assert find_duplicates(texts, 0.5) == {1: 0, 3: 0}
    assert find_duplicates(texts, 0.6) == {3: 0} and find_duplicates([]) == {}
