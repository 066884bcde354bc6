"""Every registered retriever runs through the contract that plug-in authors subclass."""

import pytest

from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Entry, Hit
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.conformance import TEXTS, RetrieverContract
from emend.memory.retrieval.registry import RETRIEVERS
from emend.memory.store.chroma import ChromaMemory
from tests.params import mostly_slow

ELSEWHERE = ("none", "gold", "rerank")  # what finds nothing, must be told the probe, or needs a model of the user
FINDING = [name for name in RETRIEVERS.names() if name not in ELSEWHERE]
CHAINS = [
    "focus>dense",
    "focus>focus>bm25",
    "bm25(tokens=stems)",
    "hybrid(fusion=ranks)",
    "hybrid(fusion=sum)",
    "default>threshold(least=0.001)",
]


class TestEveryRetriever(RetrieverContract):
    @pytest.fixture(autouse=True, params=mostly_slow([*FINDING, *CHAINS], "default", "bm25", *CHAINS[-2:]))
    def _named(self, request):
        self.name = request.param

    def factory(self):
        return load_retriever(self.name)


class TestEveryRetrieverOverChroma(TestEveryRetriever):
    @pytest.fixture(autouse=True, params=mostly_slow([*FINDING, *CHAINS], "default"))
    def _named(self, request):
        self.name = request.param

    @pytest.fixture(autouse=True)
    def _memory(self):
        self.memories: list[ChromaMemory] = []
        yield
        for memory in self.memories:
            memory.close()

    def corpus(self, found):
        memory = ChromaMemory(None, LexicalEmbedding())
        self.memories.append(memory)
        memory.add([Edit(id=entry.edit_id, form="document", text=entry.text) for entry in found])
        return memory.view()


def test_none_is_a_retriever_that_finds_nothing_in_a_full_memory_of_texts_that_differ():
    class Contract(RetrieverContract):
        def factory(self):
            return RETRIEVERS.load("none")

    contract = Contract()
    contract.test_it_is_a_retriever()
    contract.test_an_empty_scope_gives_no_hits()
    contract.test_odd_queries_and_entries_do_no_harm()
    assert contract.retriever().search(TEXTS[0], 5) == []
    assert len(set(TEXTS)) == len(TEXTS)


def _hits(found) -> list[Hit]:
    return [Hit(entry=entry, score=1.0) for entry in found]


class Broken:
    def __init__(self, corpus):
        self.corpus, self.calls = corpus, 0


class AllOfThem(Broken):
    def search(self, query, k):
        return _hits(self.corpus.entries())


class WorstFirst(Broken):
    def search(self, query, k):
        return self.corpus.nearest(query, k)[::-1]


class MadeUp(Broken):
    def search(self, query, k):
        return _hits([Entry(id="x", edit_id="x", text=query)])[:k]


class Twice(Broken):
    def search(self, query, k):
        return [hit for hit in self.corpus.nearest(query, k) for _ in range(2)][:k]


class Forgetful(Broken):
    def search(self, query, k):
        self.calls += 1
        return self.corpus.nearest(query, k) if self.calls == 1 else []


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (AllOfThem, "test_hits_come_best_first_and_at_most_k"),
        (AllOfThem, "test_an_entry_s_own_text_finds_it_first"),
        (WorstFirst, "test_hits_come_best_first_and_at_most_k"),
        (MadeUp, "test_hits_are_distinct_entries_of_the_corpus"),
        (MadeUp, "test_an_empty_scope_gives_no_hits"),
        (Twice, "test_hits_are_distinct_entries_of_the_corpus"),
        (Forgetful, "test_a_search_does_not_change_the_next"),
        (Forgetful, "test_results_are_equal_across_threads"),
        (Broken, "test_it_is_a_retriever"),
    ],
)
def test_the_contract_notices_a_broken_retriever(broken, test):
    class Contract(RetrieverContract):
        def factory(self):
            return broken

    with pytest.raises(AssertionError):
        getattr(Contract(), test)()
