import numpy as np
import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Hit
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.conformance import TEXTS, entries
from emend.memory.retrieval.dense import Dense
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.hybrid import Hybrid

QUERY = "Who in Kestrel Bay works as a glassblower?"


def corpus(texts=TEXTS):
    return ExactCorpus.of(entries(texts), LexicalEmbedding())


def fixed(scores: dict[str, float]):
    """A strategy that always finds these entries with these scores."""

    class Fixed:
        def __init__(self, corpus):
            self.hits = [Hit(entry=entry, score=scores[entry.id]) for entry in corpus.entries() if entry.id in scores]
            self.hits.sort(key=lambda hit: -hit.score)

        def search(self, query, k):
            return self.hits[:k]

    return Fixed


def found(retriever, k=10) -> dict[str, float]:
    return {hit.entry.id: hit.score for hit in retriever.search(QUERY, k)}


def test_scores_are_sums_of_standard_deviations_over_the_entries():
    over = corpus()
    expected = np.zeros(len(TEXTS))
    for part in (Dense(over), BM25(over)):
        values = np.zeros(len(TEXTS))
        for hit in part.search(QUERY, 100):
            values[int(hit.entry.id)] = hit.score
        expected += (values - values.mean()) / values.std()
    assert found(Hybrid(over)) == pytest.approx({f"{i:03d}": value for i, value in enumerate(expected)}, abs=1e-5)


def test_built_in_and_other_parts_are_added_alike():
    class Wrapped:
        def __init__(self, corpus):
            self.inner = Dense(corpus)

        def search(self, query, k):
            return self.inner.search(query, k)

    assert found(Hybrid(corpus(), parts=(Wrapped, BM25))) == found(Hybrid(corpus()))


def test_a_subclass_that_overrides_search_is_used():
    class Silent(Dense):
        def search(self, query, k):
            return []

    class SilentWords(BM25):
        def search(self, query, k):
            return []

    assert found(Hybrid(corpus(), parts=(Silent, SilentWords))) == {}


def test_ranks_are_fused_as_written_out_and_the_scale_of_a_part_does_not_matter():
    parts = (fixed({"000": 9.0, "001": 5.0, "002": 5.0, "003": 1.0}), fixed({"001": 0.5}))
    assert found(Hybrid(corpus(), fusion="ranks", parts=parts)) == pytest.approx(
        {"001": 1 / 62 + 1 / 61, "000": 1 / 61, "002": 1 / 62, "003": 1 / 64}, abs=1e-6
    )
    one, other = {"000": 3.0, "001": 2.0, "002": 2.5}, {"001": 8.0, "002": 7.0}
    plain = found(Hybrid(corpus(), parts=(fixed(one), fixed(other))))
    scaled = found(Hybrid(corpus(), parts=(fixed({i: 1000 * s for i, s in one.items()}), fixed(other))))
    assert plain == pytest.approx(scaled, abs=1e-5)


def test_parts_add_up_with_a_weight_each_and_what_none_found_is_no_hit():
    assert found(Hybrid(corpus(), parts=(fixed({"002": 1.0}), fixed({})))).keys() == {"002"}
    assert found(Hybrid(corpus(), parts=(fixed({}),))) == {}
    scores = {f"{i:03d}": -float(i + 1) for i in range(6)}
    hits = Hybrid(corpus(), parts=(fixed(scores),), depth=2).search(QUERY, 2)
    assert [hit.entry.id for hit in hits] == ["000", "001"]
    with pytest.raises(BadSettings, match="1 weights for 2"):
        Hybrid(corpus(), weights=(1.0,))
    parts = (fixed({"001": 2.0, "002": 1.0}), fixed({"002": 3.0}))
    assert found(Hybrid(corpus(), fusion="sum", parts=parts, weights=(1.0, 0.5))) == {"001": 2.0, "002": 2.5}
