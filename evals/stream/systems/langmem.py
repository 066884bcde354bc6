"""LangMem as a memory system: the model under test reads each turn, and writes, changes and deletes memories."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

from langgraph.store.memory import InMemoryStore

from emend.evals.stream.system import ContextItem, StoreSize, SystemContext, item_of
from emend.evals.stream.systems.langgraph_store import AsEmbeddings
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.memory.errors import BadSettings, MissingExtra

TOP = 20
MANY = 100_000
USER = "langgraph_user_id"


class LangMem:
    """LangMem's store manager over LangGraph's store in this process."""

    reads_memory: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        if context.model is None:
            raise BadSettings("the memory system 'langmem' reads turns with a model: name one with --model.")
        os.environ.setdefault("LANGSMITH_TRACING", "false")  # it would report its steps to a server
        try:
            langmem = import_module("langmem")
        except ImportError as error:
            raise MissingExtra("the memory system 'langmem' needs the package langmem: pip install langmem") from error
        embeddings = AsEmbeddings.of(context.embedding)
        self._store = InMemoryStore(index={"embed": embeddings, "dims": embeddings.dimensions})
        self._manager: Any = langmem.create_memory_store_manager(
            context.model, namespace=("memories", f"{{{USER}}}"), store=self._store, enable_deletes=True
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
        results = self._store.search(("memories", _safe(question.user)), query=question.text, limit=TOP)
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
