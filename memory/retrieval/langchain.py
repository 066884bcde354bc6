"""Any LangChain retriever as a strategy: its documents are matched to the entries of the memory."""

from collections.abc import Callable
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever


class LangChainStrategy:
    """What a LangChain retriever finds, as entries of the memory; those that are not in scope are left out.

    A document is matched by `metadata["id"]`, then its `id`, then its text. LangChain gives no scores: a hit's score
    is 1 / rank. How many documents come at most is the retriever's own setting.

    Args:
        corpus: what may be found.
        retriever: the LangChain retriever.
    """

    def __init__(self, corpus: Corpus, retriever: BaseRetriever) -> None:
        self._retriever = retriever
        self._by_id = {entry.id: entry for entry in corpus.entries()}
        self._by_text: dict[str, list[Entry]] = {}
        for entry in corpus.entries():
            self._by_text.setdefault(entry.text, []).append(entry)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits in the retriever's order; empty when it found nothing that is in scope."""
        if not self._by_id or k <= 0:
            return []
        found: dict[str, Entry] = {}
        for document in self._retriever.invoke(query):
            entry = next((entry for entry in self._entries(document) if entry.id not in found), None)
            if entry is not None:
                found[entry.id] = entry
        return [Hit(entry=entry, score=1 / rank) for rank, entry in enumerate(list(found.values())[:k], 1)]

    def _entries(self, document: Document) -> list[Entry]:
        """The entries that the document may stand for; several have the same text."""
        for key in (document.metadata.get("id"), document.id):
            if key is not None and str(key) in self._by_id:
                return [self._by_id[str(key)]]
        return self._by_text.get(document.page_content, [])


def adapted(found: Any) -> Any:
    """A factory of strategies when `found` is a LangChain retriever or a class of them; else `found` as it is."""
    if isinstance(found, BaseRetriever):
        return _bound(lambda _: found, type(found))
    if isinstance(found, type) and issubclass(found, BaseRetriever):
        return _bound(lambda corpus: _built(found, corpus), found)
    return found


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
            "Make an instance in a module of yours, and name that."
        ) from error
    return built  # type: ignore[no-any-return]
