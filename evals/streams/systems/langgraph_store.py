"""LangGraph's store as a memory system, with turns or LangMem's memories as items."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from langchain_core.embeddings import Embeddings
from langgraph.store.memory import InMemoryStore

from emend.evals.streams.system import ContextItem, StoreSize, SystemContext, item_of, load_package
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding


@dataclass(frozen=True)
class AsEmbeddings(Embeddings):
    """Adapter of an embedding to LangChain's `Embeddings`."""

    embedding: Embedding

    @classmethod
    def of(cls, embedding: Embedding | None) -> Self:
        """Wrap an embedding; without one, the lexical embedding."""
        return cls(embedding or LexicalEmbedding())

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return len(self.embedding.documents(["x"])[0])

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        return [[*map(float, row)] for row in self.embedding.documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return [*map(float, self.embedding.queries([text])[0])]


TOP = 40


class LangGraphStore:
    """LangGraph's `InMemoryStore` with an index, and a namespace for each user."""

    reads_memory = True

    def __init__(self, context: SystemContext) -> None:
        embeddings = AsEmbeddings.of(context.embedding)
        self._store = InMemoryStore(
            index={"embed": embeddings, "dims": embeddings.dimensions, "fields": ["text"]}
        )
        self._sizes: dict[str, int] = {}

    def observe(self, turn: Turn) -> None:
        """Store the turn under its id."""
        item = item_of(turn)
        self._store.put(("turns", turn.user), turn.id, {"text": item.text, "date": item.date})
        self._sizes[turn.id] = len(item.text.encode())

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the user's turns nearest to the question."""
        results = self._store.search(("turns", question.user), query=question.text, limit=TOP)
        return [ContextItem(item.value["text"], item.key, item.value["date"]) for item in results]

    def size(self) -> StoreSize:
        """Return the number of items and the size of their texts in bytes."""
        return StoreSize(len(self._sizes), sum(self._sizes.values()))


MEMORIES = 20
MANY = 100_000
USER = "langgraph_user_id"


class LangMem:
    """LangMem's store manager over LangGraph's in-memory store."""

    reads_memory: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        model = context.require_model("langmem")
        os.environ.setdefault(
            "LANGSMITH_TRACING", "false"
        )  # LangSmith would send traces to a server
        langmem = load_package("langmem", "langmem", "langmem")
        embeddings = AsEmbeddings.of(context.embedding)
        self._store = InMemoryStore(index={"embed": embeddings, "dims": embeddings.dimensions})
        self._manager: Any = langmem.create_memory_store_manager(
            model, namespace=("memories", f"{{{USER}}}"), store=self._store, enable_deletes=True
        )
        self.changes = 0
        self._observed: set[str] = set()
        self._turns: dict[str, str] = {}
        """The turn that last wrote each memory."""

    def observe(self, turn: Turn) -> None:
        """Let the manager read the turn, preceded by its date, since memories have none."""
        if turn.id in self._observed or not turn.text.strip():
            return
        self._observed.add(turn.id)
        text = f"[{turn.date}] {item_of(turn).text}" if turn.date else item_of(turn).text
        role = "assistant" if turn.role == "assistant" else "user"
        written = self._manager.invoke(
            {"messages": [{"role": role, "content": text}]},
            config={"configurable": {USER: _safe(turn.user)}},
        )
        self.changes += len(written)
        self._turns |= {memory["key"]: turn.id for memory in written}

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the user's memories nearest to the question."""
        results = self._store.search(
            ("memories", _safe(question.user)), query=question.text, limit=MEMORIES
        )
        return [
            _item(str(item.value["content"]["content"]), self._turns.get(item.key, ""))
            for item in results
        ]

    def size(self) -> StoreSize:
        """Return the number of memories and the size of their texts in bytes."""
        items = self._store.search(("memories",), limit=MANY)
        return StoreSize(len(items), sum(len(str(item.value).encode()) for item in items))


def _safe(user: str) -> str:
    """Return a user's name without full stops, which separate the parts of a namespace."""
    return user.replace(".", "_") or "user"


def _item(text: str, turn: str) -> ContextItem:
    """Return a memory as a context item, with the date at its start if the model kept it."""
    date, bracket, rest = text.removeprefix("[").partition("] ")
    if bracket and text.startswith("["):
        return ContextItem(rest, turn, date)
    return ContextItem(text, turn)
