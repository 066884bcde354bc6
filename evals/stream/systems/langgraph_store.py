"""LangGraph's store as a memory system, each turn an item found by its embedding; Emend's embeddings as LangChain's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from langchain_core.embeddings import Embeddings
from langgraph.store.memory import InMemoryStore

from emend.evals.stream.system import ContextItem, StoreSize, SystemContext, item_of
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding


@dataclass(frozen=True)
class AsEmbeddings(Embeddings):
    """An embedding with LangChain's methods."""

    embedding: Embedding

    @classmethod
    def of(cls, embedding: Embedding | None) -> Self:
        """The embedding, or the lexical one without any."""
        return cls(embedding or LexicalEmbedding())

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return len(self.embedding.documents(["x"])[0])

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text."""
        return [[*map(float, row)] for row in self.embedding.documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return [*map(float, self.embedding.queries([text])[0])]


TOP = 40


class LangGraphStore:
    """`InMemoryStore` with an index, a namespace for each user."""

    reads_memory = True

    def __init__(self, context: SystemContext) -> None:
        embeddings = AsEmbeddings.of(context.embedding)
        self._store = InMemoryStore(index={"embed": embeddings, "dims": embeddings.dimensions, "fields": ["text"]})
        self._sizes: dict[str, int] = {}

    def observe(self, turn: Turn) -> None:
        """Put the turn under its id."""
        item = item_of(turn)
        self._store.put(("turns", turn.user), turn.id, {"text": item.text, "date": item.date})
        self._sizes[turn.id] = len(item.text.encode())

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """The turns of the user nearest to the question."""
        results = self._store.search(("turns", question.user), query=question.text, limit=TOP)
        return [ContextItem(item.value["text"], item.key, item.value["date"]) for item in results]

    def size(self) -> StoreSize:
        """Number of items, and the bytes of their texts."""
        return StoreSize(len(self._sizes), sum(self._sizes.values()))
