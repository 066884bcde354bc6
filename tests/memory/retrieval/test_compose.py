import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_names
from emend.memory.retrieval.base import Hit
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.conformance import TEXTS, entries
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.focus import Focus

QUERY = "The river Aske flows through three countries. The capital of Veldania is"
CORPUS = ExactCorpus.of(entries(TEXTS), LexicalEmbedding())


class Noting:
    """A wrapper that says in the kind of its hits' entries in which order the wrappers were passed."""

    mark = "a"

    def __init__(self, corpus, inner=BM25):
        self.inner = inner(corpus)

    def search(self, query, k):
        hits = self.inner.search(query, k)
        return [Hit(entry=hit.entry.model_copy(update={"kind": hit.entry.kind + self.mark}), score=1.0) for hit in hits]


class NotingB(Noting):
    mark = "b"


NotARetriever = 3
HERE = __name__


def kind(spec: str) -> str:
    return load_retriever(spec)(CORPUS).search(QUERY, 1)[0].entry.kind.removeprefix("document")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "strategies_of_mine", sys.modules[HERE])
    trust_names(f"strategies_of_mine:{name}" for name in globals())


def test_a_chain_equals_its_parts_composed_by_hand_and_is_known_by_its_spec():
    assert load_retriever("bm25") is BM25
    by_hand = Focus(CORPUS, inner=BM25)
    assert load_retriever("focus>bm25")(CORPUS).search(QUERY, 5) == by_hand.search(QUERY, 5)
    assert load_retriever(" focus > bm25 ")(CORPUS).search(QUERY, 5) == by_hand.search(QUERY, 5)
    factory = load_retriever("focus>bm25")
    assert (factory.__module__, factory.__qualname__) == ("emend.memory.retrieval.compose", "focus>bm25")


@pytest.mark.parametrize(
    ("spec", "order"),
    [
        ("strategies_of_mine:Noting>strategies_of_mine:NotingB>bm25", "ba"),
        ("bm25>strategies_of_mine:Noting>strategies_of_mine:NotingB", "ab"),
        ("strategies_of_mine:Noting>bm25>strategies_of_mine:NotingB", "ba"),
        ("strategies_of_mine:Noting>strategies_of_mine:NotingB", "ba"),
    ],
)
def test_hits_pass_the_parts_after_the_search_then_those_before_it(spec, order):
    assert kind(spec) == order


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("focus>bm52", "unknown retriever 'bm52': did you mean 'bm25'"),
        ("focus>", "empty part"),
        ("", "empty part"),
        ("dense>bm25", "both 'dense' and 'bm25' search on their own"),
        ("strategies_of_mine:NotARetriever", "is a int, not a factory"),
        ("bm25>threshold(by=rank)", "'by' of retriever 'threshold'.*got 'rank'"),
        ("bm25(tokens=stem)", "'tokens' of retriever 'bm25': .*'words', 'stems', 'names' or 'wordpiece', got 'stem'"),
        ("bm25(b=7)", "'b' of retriever 'bm25': it must be 1 or less, got 7"),
        ("bm25(b=-0.1)", "'b' of retriever 'bm25': it must be 0 or more"),
        pytest.param(f"bm25(k1={'[' * 100_000}{']' * 100_000})", "setting 'k1' of retriever 'bm25'", id="nested"),
        ("bm25(k1=-1)", "'k1' of retriever 'bm25': it must be 0 or more"),
        ("hybrid(fusion=mean)", "'fusion' of retriever 'hybrid': .*'scores', 'ranks' or 'sum'"),
        ("hybrid(depth=0)", "'depth' of retriever 'hybrid': it must be 1 or more"),
        ("bm25>rerank(depth=0)", "'depth' of retriever 'rerank': it must be 1 or more"),
    ],
)
def test_an_invalid_chain_is_refused(spec, message):
    with pytest.raises(BadSettings, match=message):
        load_retriever(spec)


@pytest.mark.parametrize("name", ["", " ", ">", "+", "nul\0", "half\ud800", "x" * 5000, "/dev/null", "bm25(", "(x=1)"])
def test_an_empty_or_odd_name_is_refused(name):
    with pytest.raises(BadSettings, match="^(unknown )?retriever '"):
        load_retriever(name)
