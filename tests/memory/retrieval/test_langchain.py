import sys

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.conformance import TEXTS, RetrieverContract, entries
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.tokens import words


class Overlap(BaseRetriever):
    """Documents by shared words."""

    documents: list[Document]

    def _get_relevant_documents(self, query, *, run_manager):
        asked = set(words(query))
        found = [(len(asked & set(words(document.page_content))), document) for document in self.documents]
        return [document for count, document in sorted(found, key=lambda pair: -pair[0]) if count]


class Made(Overlap):
    """The same, with LangChain's usual way to make one."""

    @classmethod
    def from_documents(cls, documents):
        return cls(documents=documents)


class Demanding(BaseRetriever):
    address: str

    def _get_relevant_documents(self, query, *, run_manager):
        return []


def _documents(**kept):
    return [Document(page_content=text, **kept) for text in TEXTS]


instance = Overlap(documents=[*_documents(), Document(page_content="The capital of Veldania and more is elsewhere.")])
renamed = Overlap(
    documents=[Document(page_content=f"rewritten: {text}", metadata={"id": f"{i:03d}"}) for i, text in enumerate(TEXTS)]
)


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setitem(sys.modules, "retrievers_of_mine", sys.modules[__name__])


def corpus(found=None):
    return ExactCorpus.of(entries(TEXTS) if found is None else found, LexicalEmbedding())


class TestClasses(RetrieverContract):
    @pytest.fixture(autouse=True, params=["Overlap", "Made"])
    def _named(self, request):
        self.name = request.param

    def factory(self):
        return load_retriever(f"retrievers_of_mine:{self.name}")


def test_an_instance_finds_entries_by_their_text_and_leaves_out_what_is_not_in_the_memory():
    retriever = load_retriever("retrievers_of_mine:instance")(corpus())
    hits = retriever.search("The capital of Veldania is", 10)
    assert hits[0].entry == corpus().entries()[0]
    assert all(hit.entry.text in TEXTS for hit in hits)
    assert [hit.score for hit in hits] == [1 / rank for rank in range(1, len(hits) + 1)]


def test_the_id_in_the_metadata_takes_precedence_over_the_text():
    hits = load_retriever("retrievers_of_mine:renamed")(corpus()).search("The capital of Veldania is", 1)
    assert [hit.entry.text for hit in hits] == [TEXTS[0]]


def test_entries_outside_the_view_are_left_out():
    hits = load_retriever("retrievers_of_mine:instance")(corpus(entries(TEXTS)[2:4])).search("Kestrel Bay Aske", 10)
    assert {hit.entry.id for hit in hits} == {"002", "003"}


def test_it_can_be_part_of_a_chain():
    retriever = load_retriever("focus>retrievers_of_mine:Made")(corpus())
    hits = retriever.search("The river Aske flows through three countries. The capital of Veldania is", 1)
    assert [hit.entry.text for hit in hits] == [TEXTS[0]]


def test_its_records_name_the_class_that_searched():
    factory = load_retriever("retrievers_of_mine:instance")
    assert (factory.__module__, factory.__qualname__) == (__name__, "Overlap")


def test_a_class_that_needs_more_than_entries_is_refused_with_the_remedy():
    with pytest.raises(BadSettings, match="(?s)Demanding cannot be made.*Create an instance"):
        load_retriever("retrievers_of_mine:Demanding")(corpus())
