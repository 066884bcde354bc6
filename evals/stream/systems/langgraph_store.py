"""LangGraph's store as a memory system, with each turn as an item, or with what LangMem makes of the turns."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from langchain_core.embeddings import Embeddings
from langgraph.store.memory import InMemoryStore

from emend.evals.stream.system import ContextItem, StoreSize, SystemContext, item_of, load_package
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


MEMORIES = 20
MANY = 100_000
USER = "langgraph_user_id"


class LangMem:
    """LangMem's store manager over LangGraph's store in this process."""

    reads_memory: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        model = context.require_model("langmem")
        os.environ.setdefault("LANGSMITH_TRACING", "false")  # it would report its steps to a server
        langmem = load_package("langmem", "langmem", "langmem")
        embeddings = AsEmbeddings.of(context.embedding)
        self._store = InMemoryStore(index={"embed": embeddings, "dims": embeddings.dimensions})
        self._manager: Any = langmem.create_memory_store_manager(
            model, namespace=("memories", f"{{{USER}}}"), store=self._store, enable_deletes=True
        )
        self.changes = 0
        self._observed: set[str] = set()
        self._turns: dict[str, str] = {}
        """By memory, the turn that wrote it last."""

    def observe(self, turn: Turn) -> None:
        """Let the manager read the turn, with its date, since memories have none."""
        if turn.id in self._observed or not turn.text.strip():
            return
        self._observed.add(turn.id)
        text = f"[{turn.date}] {item_of(turn).text}" if turn.date else item_of(turn).text
        role = "assistant" if turn.role == "assistant" else "user"
        written = self._manager.invoke(
            {"messages": [{"role": role, "content": text}]}, config={"configurable": {USER: _safe(turn.user)}}
        )
        self.changes += len(written)
        self._turns |= {memory["key"]: turn.id for memory in written}

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """The memories of the user nearest to the question."""
        results = self._store.search(("memories", _safe(question.user)), query=question.text, limit=MEMORIES)
        return [_item(str(item.value["content"]["content"]), self._turns.get(item.key, "")) for item in results]

    def size(self) -> StoreSize:
        """Number of memories, and the bytes of their texts."""
        items = self._store.search(("memories",), limit=MANY)
        return StoreSize(len(items), sum(len(str(item.value).encode()) for item in items))


def _safe(user: str) -> str:
    """A user's name as a part of a namespace, in which a full stop separates."""
    return user.replace(".", "_") or "user"


def _item(text: str, turn: str) -> ContextItem:
    """A memory as an item, with the date that it begins with, if the model kept it."""
    date, bracket, rest = text.removeprefix("[").partition("] ")
    return ContextItem(rest, turn, date) if bracket and text.startswith("[") else ContextItem(text, turn)
