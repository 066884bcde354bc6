import sys
from types import SimpleNamespace

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_names, trust_typed
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
    trust_names(f"retrievers_of_mine:{name}" for name in globals())


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
    hits = load_retriever("retrievers_of_mine:instance")(corpus(entries(TEXTS)[2:4])).search("Kestrel Bay Aske", 10)
    assert {hit.entry.id for hit in hits} == {"002", "003"}  # what is outside the view is left out


def test_the_id_in_the_metadata_counts_it_can_be_in_a_chain_and_records_name_its_class():
    hits = load_retriever("retrievers_of_mine:renamed")(corpus()).search("The capital of Veldania is", 1)
    assert [hit.entry.text for hit in hits] == [TEXTS[0]]
    retriever = load_retriever("focus>retrievers_of_mine:Made")(corpus())
    hits = retriever.search("The river Aske flows through three countries. The capital of Veldania is", 1)
    assert [hit.entry.text for hit in hits] == [TEXTS[0]]
    factory = load_retriever("retrievers_of_mine:instance")
    assert (factory.__module__, factory.__qualname__) == (__name__, "Overlap")


def test_a_class_that_needs_more_and_an_instance_over_other_documents_are_refused():
    with pytest.raises(BadSettings, match="(?s)Demanding cannot be created.*Write a function"):
        load_retriever("retrievers_of_mine:Demanding")(corpus())
    with pytest.raises(BadSettings, match="(?s)elsewhere.*does not search the memory's entries.*metadata"):
        hits_of("elsewhere")


ENCODER = LexicalEmbedding()
QUERY = "What is the capital of Veldania?"


class Lexical(Embeddings):
    """The lexical embedding under LangChain's interface."""

    def embed_documents(self, texts):
        return ENCODER.documents(texts).tolist()

    def embed_query(self, text):
        return ENCODER.queries([text])[0].tolist()


def store(corpus):
    documents = [Document(page_content=e.text, metadata={"id": e.id}) for e in corpus.entries()]
    return InMemoryVectorStore.from_documents(documents, Lexical())


def as_retriever(corpus):
    return store(corpus).as_retriever()


def two_at_most(corpus):
    return store(corpus).as_retriever(search_kwargs={"k": 2})


def diverse(corpus):
    return store(corpus).as_retriever(search_type="mmr")


def distances(corpus):
    """A store whose scores are distances, as FAISS's."""
    within = store(corpus)

    def search(query, k):
        return [(document, 1 - score) for document, score in within.similarity_search_with_score(query, k)]

    def missing(query, k):
        raise NotImplementedError  # as LangChain's stores do that have no relevance of their own

    return SimpleNamespace(
        similarity_search=None,
        as_retriever=None,
        similarity_search_with_relevance_scores=missing,
        similarity_search_with_score=search,
    )


def overlap(query, corpus, k):
    asked = set(words(query))
    return sorted(corpus.entries(), key=lambda entry: -len(asked & set(words(entry.text))))[:k]


def ids_with_scores(query, corpus):
    return [(entry.id, float(-place)) for place, entry in enumerate(corpus.entries())]


def texts(query):
    return ["a text of nobody", TEXTS[1]]


elsewhere = Overlap(documents=[Document(page_content="The capital of Nowhere is unknown.")])


def hits_of(name, corpus_=None):
    found = load_retriever(f"retrievers_of_mine:{name}")(corpus_ or corpus()).search(QUERY, 3)
    return [(hit.entry.id, round(hit.score, 4)) for hit in found]


def by_words(query, corpus, k):
    return list(corpus.entries())[:k]


def other_names(text, docs, top):
    return docs.entries()[:top]


def other_corpus(query, documents):
    return documents


def no_retriever(corpus):
    return 7


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (other_names, r"has the parameters \(text, docs, top\).*\(query, corpus, k\), with these names"),
        (other_corpus, r"has the parameters \(query, documents\).*\(query, corpus, k\), with these names"),
        (no_retriever, "returns 7 for a corpus, which cannot search"),
    ],
)
def test_a_function_of_other_parameters_names_those_that_are_called(function, message):
    with pytest.raises(BadSettings, match=message):
        load_retriever(f"{__name__}:{function.__name__}")(corpus())


def no_results(query):
    """Forgets to return what it finds."""


def test_a_function_without_results_is_named_with_its_fault():
    with pytest.raises(TypeError, match="it returned NoneType, not a list of results"):
        load_retriever(f"{__name__}:no_results")(corpus()).search("q", 1)


def test_a_function_that_searches_needs_no_annotation_to_be_trusted():
    trust_names([f"{__name__}:{name}" for name in ("by_words", "other_names")], checked=True)
    assert load_retriever(f"{__name__}:by_words")(corpus()).search("Ada", 1)
    with pytest.raises(BadSettings, match="with the first parameter query or corpus"):
        load_retriever(f"{__name__}:other_names")


@pytest.mark.parametrize("name", ["store", "as_retriever"])
def test_a_vector_store_gives_what_dense_gives_with_its_scores(name):
    dense = load_retriever("dense")(corpus()).search(QUERY, 3)
    assert hits_of(name) == [(hit.entry.id, pytest.approx(hit.score, abs=2e-4)) for hit in dense]


def test_distances_become_scores_that_are_higher_for_what_is_nearer():
    assert [name for name, _ in hits_of("distances")] == [name for name, _ in hits_of("store")]
    scores = [score for _, score in hits_of("distances")]
    assert scores == sorted(scores, reverse=True)
    assert [name for name, _ in hits_of("two_at_most")] == [name for name, _ in hits_of("store")][:2]  # its own limit
    assert [score for _, score in hits_of("diverse")] == [1.0, 0.5, 0.3333]  # by rank, as it has none


def test_plain_functions_return_entries_ids_or_texts():
    assert hits_of("overlap")[0] == ("000", 1.0)
    assert hits_of("ids_with_scores") == [("000", 0.0), ("001", -1.0), ("002", -2.0)]
    assert hits_of("texts") == [("001", 1.0)]


def test_a_class_takes_its_settings():
    trust_typed("langchain_community.retrievers:BM25Retriever")
    bm25 = pytest.importorskip("langchain_community.retrievers").BM25Retriever
    assert bm25 is not None
    spec = "langchain_community.retrievers:BM25Retriever"
    assert len(load_retriever(f"{spec}(k=2)")(corpus()).search(QUERY, 9)) == 2
    with pytest.raises(BadSettings, match="kk.*did you mean 'k'"):
        load_retriever(f"{spec}(kk=2)")


def ensemble(corpus):
    classic = pytest.importorskip("langchain_classic.retrievers")
    return classic.EnsembleRetriever(retrievers=[as_retriever(corpus), diverse(corpus)], weights=[0.5, 0.5])


def parents(corpus):
    classic = pytest.importorskip("langchain_classic.retrievers")
    splitters = pytest.importorskip("langchain_text_splitters")
    stores = pytest.importorskip("langchain_classic.storage")
    retriever = classic.ParentDocumentRetriever(
        vectorstore=InMemoryVectorStore(Lexical()),
        docstore=stores.InMemoryStore(),
        child_splitter=splitters.CharacterTextSplitter(separator=" ", chunk_size=20, chunk_overlap=0),
    )
    retriever.add_documents([Document(page_content=e.text, metadata={"id": e.id}) for e in corpus.entries()])
    return retriever


def compressed(corpus):
    classic = pytest.importorskip("langchain_classic.retrievers")
    compressors = pytest.importorskip("langchain_classic.retrievers.document_compressors")
    keep = compressors.EmbeddingsFilter(embeddings=Lexical(), similarity_threshold=0.1)
    return classic.ContextualCompressionRetriever(base_compressor=keep, base_retriever=as_retriever(corpus))


def several_queries(corpus):
    from langchain_core.language_models import FakeListChatModel

    classic = pytest.importorskip("langchain_classic.retrievers")
    model = FakeListChatModel(responses=["Veldania's capital\nWhich capital has Veldania?"])
    return classic.MultiQueryRetriever.from_llm(retriever=as_retriever(corpus), llm=model)


def llama_index(corpus):
    core = pytest.importorskip("llama_index.core")
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode

    class LlamaLexical(BaseEmbedding):
        def _get_text_embedding(self, text):
            return ENCODER.documents([text])[0].tolist()

        def _get_query_embedding(self, query):
            return ENCODER.queries([query])[0].tolist()

        async def _aget_query_embedding(self, query):
            return self._get_query_embedding(query)

    nodes = [TextNode(id_=entry.id, text=entry.text) for entry in corpus.entries()]
    return core.VectorStoreIndex(nodes, embed_model=LlamaLexical()).as_retriever(similarity_top_k=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ensemble", "parents", "compressed", "several_queries", "llama_index"])
def test_retrievers_of_langchain_and_llama_index_search_the_memory(name):
    assert hits_of(name)[0][0] == "000"
    if name == "llama_index":
        assert hits_of(name) == [(entry, pytest.approx(score, abs=2e-4)) for entry, score in hits_of("store")]
