import math
import os

import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.conformance import entries
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.tokens import words

TEXTS = ["the cat sat on the mat", "the dog sat", "a cat and a dog and a cow met", "rain"]


def corpus(texts=TEXTS):
    return ExactCorpus.of(entries(texts), LexicalEmbedding(64))


def by_hand(query: str, texts: list[str], k1: float = 1.5, b: float = 0.75) -> list[float]:
    """Lucene's BM25, written out."""
    split = [text.split() for text in texts]
    mean = sum(map(len, split)) / len(split)
    scores = []
    for text in split:
        score = 0.0
        for word in query.split():
            having = sum(word in other for other in split)
            rarity = math.log(1 + (len(split) - having + 0.5) / (having + 0.5))
            count = text.count(word)
            score += rarity * count / (count + k1 * (1 - b + b * len(text) / mean))
        scores.append(score)
    return scores


@pytest.mark.parametrize("query", ["cat", "the cat", "dog sat sat", "cow rain unknown"])
def test_scores_are_bm25_as_written_out(query, capfd):
    expected = {i: score for i, score in enumerate(by_hand(query, TEXTS)) if score > 0}
    found = {int(hit.entry.id): hit.score for hit in BM25(corpus()).search(query, 10)}
    assert found == pytest.approx(expected, rel=1e-5)
    assert capfd.readouterr() == ("", "")


def test_an_entry_that_shares_no_word_but_stop_words_is_not_found_and_equal_ones_keep_their_order():
    assert [hit.entry.text for hit in BM25(corpus()).search("rain", 10)] == ["rain"]
    assert BM25(corpus()).search("snow", 10) == []
    assert BM25(corpus(), stop_words=["the"]).search("the", 10) == []
    assert len(BM25(corpus()).search("the", 10)) == 2
    texts = [f"filler {i}" for i in range(60)]
    for place in (3, 31, 59):
        texts[place] = "the twin city of Lyon"
    assert [hit.entry.id for hit in BM25(corpus(texts)).search("twin city", 5)] == ["003", "031", "059"]


def test_words_are_lower_cased_freed_of_punctuation_and_chinese_taken_by_character():
    assert words("Danielle Darrieux's «Été» (1931), B2B!") == ["danielle", "darrieux", "s", "été", "1931", "b2b"]
    assert words("The cat", ["the"]) == ["cat"]
    assert words("平壤的姐妹城市是BBC吗") == [*"平壤的姐妹城市是", "bbc", "吗"]
    found = BM25(corpus(["平壤的姐妹城市是莫斯科", "里昂生产丝绸"])).search("平壤是的姐妹城市是", 1)
    assert [hit.entry.id for hit in found] == ["000"]


@pytest.mark.parametrize("weights", [{"k1": 0.0}, {"b": 0.0}, {"b": 1.0}])
def test_weights_at_their_bounds_are_accepted(weights):
    assert BM25(corpus(), **weights).search("rain", 1)


def test_jax_which_bm25s_imports_takes_no_memory_before_it_needs_it():
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
