"""LangChain retrievers as strategies: their documents are matched to the entries of the memory."""

from collections.abc import Callable
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever


class LangChainStrategy:
    """The documents of a LangChain retriever as entries of the memory; documents without an entry are left out.

    A document is matched by `metadata["id"]`, then its `id`, then its text. LangChain gives no scores: a hit's score
    is 1 / rank. The maximum number of documents is the retriever's own setting.

    Args:
        corpus: the entries to search.
        retriever: the LangChain retriever.
    """

    def __init__(self, corpus: Corpus, retriever: BaseRetriever) -> None:
        self._retriever = retriever
        self._by_id = {entry.id: entry for entry in corpus.entries()}
        self._by_text: dict[str, list[Entry]] = {}
        for entry in corpus.entries():
            self._by_text.setdefault(entry.text, []).append(entry)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits in the retriever's order; empty if no document has an entry in scope."""
        if not self._by_id or k <= 0:
            return []
        entries: dict[str, Entry] = {}
        for document in self._retriever.invoke(query):
            entry = next((entry for entry in self._entries(document) if entry.id not in entries), None)
            if entry is not None:
                entries[entry.id] = entry
        return [Hit(entry=entry, score=1 / rank) for rank, entry in enumerate(list(entries.values())[:k], 1)]

    def _entries(self, document: Document) -> list[Entry]:
        """The entries that match a document; several may have the same text."""
        for key in (document.metadata.get("id"), document.id):
            if key is not None and str(key) in self._by_id:
                return [self._by_id[str(key)]]
        return self._by_text.get(document.page_content, [])


def adapted(component: Any) -> Any:
    """The factory of a strategy for a LangChain retriever or its class; any other object unchanged."""
    if isinstance(component, BaseRetriever):
        return _bound(lambda _: component, type(component))
    if isinstance(component, type) and issubclass(component, BaseRetriever):
        return _bound(lambda corpus: _built(component, corpus), component)
    return component


def _bound(build: Callable[[Corpus], BaseRetriever], cls: type[BaseRetriever]) -> Callable[[Corpus], Retriever]:
    def bind(corpus: Corpus) -> Retriever:
        return LangChainStrategy(corpus, build(corpus))

    bind.__module__, bind.__name__, bind.__qualname__ = cls.__module__, cls.__name__, cls.__qualname__
    bind.__doc__ = cls.__doc__
    return bind


def _built(cls: Any, corpus: Corpus) -> BaseRetriever:
    """The class over the memory's entries: by `from_documents`, by its field `documents`, or without any."""
    entries = corpus.entries()
    documents = [Document(page_content=entry.text, id=entry.id, metadata={"id": entry.id}) for entry in entries]
    try:
        if hasattr(cls, "from_documents"):
            built: Any = cls.from_documents(documents)
        else:
            built = cls(documents=documents) if "documents" in cls.model_fields else cls()
    except (TypeError, ValueError, ImportError) as error:
        raise BadSettings(
            f"the LangChain retriever {cls.__name__} cannot be made from the memory's entries alone: {error}. "
            "Create an instance in your own module, and name that."
        ) from error
    return built  # type: ignore[no-any-return]
