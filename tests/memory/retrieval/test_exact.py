import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.conformance import entries
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors, best


class Counting(LexicalEmbedding):
    """Remembers what it was asked to embed."""

    def __init__(self):
        super().__init__(256)
        self.asked: list[str] = []

    def queries(self, texts):
        self.asked += texts
        return super().queries(texts)


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(-1, 35))
def test_best_is_a_stable_sort_cut_at_k(scores, k):
    expected = sorted(range(len(scores)), key=lambda place: -scores[place])[: max(0, k)]
    assert best(np.array(scores, dtype=np.float32), k) == expected


class Dense:
    """Dense random unit vectors, as a neural model would give."""

    identity = "random"

    def documents(self, texts):
        seeds = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=96) for text in texts]
        return np.array([v / np.linalg.norm(v) for v in seeds], dtype=np.float32).reshape(len(texts), 96)

    queries = documents


@pytest.mark.parametrize("embedding", [LexicalEmbedding(512), Dense()], ids=["sparse query", "dense query"])
def test_nearest_is_brute_force_cosine(embedding):
    texts = [f"river {i % 37} flows to town {i} and lake {i * 7 % 11}" for i in range(300)]
    corpus = ExactCorpus.of(entries(texts), embedding)
    for query in ("town 17", "lake 3", "river 36 flows", "nothing of it"):
        cosines = embedding.documents(texts).astype(np.float64) @ embedding.queries([query])[0].astype(np.float64)
        hits = corpus.nearest(query, 10)
        assert [hit.score for hit in hits] == pytest.approx(sorted(cosines, reverse=True)[:10], abs=2e-6)
        assert [hit.score for hit in hits] == pytest.approx([cosines[int(hit.entry.id)] for hit in hits], abs=2e-6)


def test_equal_entries_come_in_the_order_of_the_corpus_wherever_they_stand():
    texts = [f"filler {i}" for i in range(101)]
    places = [0, 50, 77, 99, 100]
    for place in places:
        texts[place] = "The twin city of Lyon is Ostrim."
    hits = ExactCorpus.of(entries(texts), LexicalEmbedding()).nearest("twin city of Lyon", 5)
    assert [int(hit.entry.id) for hit in hits] == places


def test_rounding_noise_of_a_vector_does_not_decide_the_order():
    embedding = LexicalEmbedding(64)
    (vector,) = embedding.documents(["Lyon"])
    vectors = np.stack([vector * (1 - noise) for noise in (2e-7, 0, 1e-7)]).astype(np.float32)
    corpus = ExactCorpus(entries(["Lyon"] * 3), vectors, QueryVectors(embedding))
    assert len(set(vectors @ vector)) > 1
    assert [hit.entry.id for hit in corpus.nearest("Lyon", 3)] == ["000", "001", "002"]


def test_an_empty_corpus_gives_nothing_and_a_batch_wider_than_the_cache_is_complete():
    assert ExactCorpus.of([], LexicalEmbedding()).nearest("x", 3) == []
    assert ExactCorpus.of(entries(["x"]), LexicalEmbedding()).nearest("x", 0) == []
    texts = [str(i) for i in range(10)]
    assert QueryVectors(Counting(), size=3)(texts).shape == (10, 256)
    assert QueryVectors(Counting())([]).shape == (0, 0)


def test_a_query_is_embedded_once_and_only_the_latest_are_cached():
    embedding = Counting()
    vectors = QueryVectors(embedding, size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        vectors([text])
    assert embedding.asked == ["a", "b", "c", "b"]


def test_queries_are_embedded_in_one_batch_in_the_order_asked():
    embedding = Counting()
    vectors = QueryVectors(embedding)
    vectors(["b"])
    found = vectors(["a", "b", "a", "c"])
    assert embedding.asked == ["b", "a", "c"]
    assert np.array_equal(found, LexicalEmbedding(256).queries(["a", "b", "a", "c"]))
    assert vectors([]).shape[0] == 0


def test_threads_may_share_a_corpus():
    texts = [f"town {i} on river {i % 5}" for i in range(200)]
    corpus = ExactCorpus(entries(texts), LexicalEmbedding().documents(texts), QueryVectors(LexicalEmbedding(), size=8))
    asked = [f"town {i % 40}" for i in range(400)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: corpus.nearest(query, 3), asked))
    assert found == [corpus.nearest(query, 3) for query in asked]
