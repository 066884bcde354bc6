"""Mem0 as a memory system, with a local Qdrant folder and the model under test as LLM."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from emend.editors.hyperparameters import build_settings
from emend.evals.streams.system import (
    ContextItem,
    FolderSystem,
    StoreSize,
    SystemContext,
    item_of,
    load_package,
)
from emend.evals.streams.systems.langgraph_store import AsEmbeddings
from emend.evals.streams.turn import StreamQuestion, Turn

TURN, DATE = "turn", "date"


@dataclass(frozen=True)
class Mem0Settings:
    """Settings of Mem0.

    Attributes:
        infer: whether the model under test extracts memories (Mem0's default); if False, turns are
            stored unchanged.
        k: maximum number of recalled memories, before the budget.
    """

    infer: bool = True
    k: Annotated[int, Field(ge=1)] = 20


class Mem0(FolderSystem):
    """Mem0's open-source memory; its current version only adds memories."""

    def __init__(self, context: SystemContext) -> None:
        self.settings: Mem0Settings = build_settings(Mem0Settings, context.settings, "mem0")
        super().__init__(context)
        self._memory = _load(self._folder, AsEmbeddings.of(context.embedding), context.model)
        self._observed: set[str] = set()

    def observe(self, turn: Turn) -> None:
        """Add the turn, unless it is stored already."""
        if turn.id in self._observed or not turn.text.strip() or self._has(turn):
            return
        self._observed.add(turn.id)
        role = "assistant" if turn.role == "assistant" else "user"
        self._memory.add(
            [{"role": role, "content": item_of(turn).text}],
            user_id=turn.user,
            metadata={TURN: turn.id, DATE: turn.date},
            infer=self.settings.infer,
        )

    def _has(self, turn: Turn) -> bool:
        """Return whether an earlier process stored the turn."""
        results = self._memory.get_all(filters={"user_id": turn.user, TURN: turn.id}, top_k=1)
        return bool(results["results"])

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the user's memories that Mem0 finds for the question."""
        if not question.text.strip():
            return ()
        filters = {"user_id": question.user}
        results = self._memory.search(
            question.text, top_k=self.settings.k, filters=filters, threshold=0.0
        )
        return [_item(each) for each in results["results"]]

    def size(self) -> StoreSize:
        """Return the number of vectors and the size of the folder in bytes."""
        store = self._memory.vector_store
        return self._size(store.client.count(store.collection_name).count)

    def close(self) -> None:
        """Close the store."""
        self._memory.vector_store.client.close()
        self._memory.close()
        super().close()


def _item(memory: dict[str, Any]) -> ContextItem:
    metadata = memory.get("metadata") or {}
    return ContextItem(memory["memory"], metadata.get(TURN, ""), metadata.get(DATE, ""))


def _load(folder: Path, embeddings: AsEmbeddings, model: Any) -> Any:
    """Return Mem0 with its store in a folder.

    Raises:
        MissingExtra: Mem0 is not installed.
    """
    os.environ["MEM0_TELEMETRY"] = "False"  # Mem0 would send usage data to a server
    os.environ.setdefault("MEM0_DIR", str(folder))
    mem0 = load_package("mem0", "mem0ai", "mem0")
    return mem0.Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": str(folder / "qdrant"),
                    "collection_name": "turns",
                    "embedding_model_dims": embeddings.dimensions,
                    "on_disk": True,
                },
            },
            "embedder": {"provider": "langchain", "config": {"model": embeddings}},
            "llm": {"provider": "langchain", "config": {"model": model}},
            "history_db_path": str(folder / "history.db"),
        }
    )
