"""IKE (Zheng et al. 2023): RAG with demonstrations of when to use a fact and when not to."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emend.editors.base import EditorContext
from emend.editors.memory_based.demonstration_pool import MemoryEmbedding, load_examples
from emend.editors.memory_based.rag import MemoryEditor, RagSettings
from emend.graphs.ike import IkeContext, Pool
from emend.memory.edit import Edit, content_id
from emend.memory.retrieval.base import Retriever


@dataclass(frozen=True)
class IkeSettings(RagSettings):
    """Settings of IKE.

    Attributes:
        demonstrations: number of demonstrations; the paper shows 32, too many for small windows.
        original: append the tested edit, with its answer, as a last `copy` demonstration, as the
            authors' code does; the prompt of the edit itself then contains its own answer.
        pool: a JSON lines file of demonstrations that replace the benchmark's (see
            `editors.memory_based.demonstration_pool`).
        rows: number of benchmark rows to make demonstrations from; 0 for all that are not tested.
        nearest: select the demonstrations nearest to the `probe`, or to the `edit` with its prompt,
            as published, so that all probes of an edit get the same demonstrations in the same
            order.
    """

    demonstrations: Annotated[int, Field(ge=0)] = 6
    original: bool = False
    pool: str = ""
    rows: Annotated[int, Field(ge=0)] = 100
    nearest: Literal["probe", "edit"] = "probe"


class Ike(MemoryEditor):
    """IKE editor: retrieves new facts and demonstrates when to use them (Zheng et al. 2023)."""

    name: ClassVar[str] = "ike"
    schema: ClassVar[type[Any]] = IkeSettings
    graph: ClassVar[str] = "ike"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.pool = Pool(
            load_examples(context, self.settings.pool, self.settings.rows),
            MemoryEmbedding(self.memory),
        )
        self._hash = content_id("demonstrations", self.pool.examples)
        self._warned = False

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Rag` with number, hash, similarity and seed of the demonstrations."""
        return super().fingerprint | {
            "examples": self._hash,
            "pool_size": len(self.pool.examples),
            "similarity": self.pool.embedding.identity,
            "seed": self.context.seed,
        }

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> IkeContext:
        """Return the graph's context with the pool and the facts excluded from it."""
        context = IkeContext(
            **self.common_fields(retriever),
            pool=self.pool,
            demonstrations=self.settings.demonstrations,
            seed=self.context.seed,
            applied=frozenset(edit.text for edit in edits),
            original={edit.id: edit for edit in edits} if self.settings.original else {},
            nearest_to={edit.id: edit for edit in edits} if self.settings.nearest == "edit" else {},
        )
        self._warn_if_few(context.available)
        return context

    def _warn_if_few(self, available: int) -> None:
        """Log a warning once if fewer demonstrations are available than the setting asks for."""
        needed, pool = self.settings.demonstrations, len(self.pool.examples)
        if available < needed and not self._warned:
            self._warned = True
            why = f"the other examples in {pool} are of applied edits"
            if available == pool:
                why = f"the pool has only {pool}"
            logging.getLogger(__name__).warning(
                "editor 'ike' needs %d demonstrations, but has %d to choose from (%s): name a "
                "larger file with --set ike.pool=FILE, or use fewer with --set "
                "ike.demonstrations=%d.",
                *(needed, available, why, available),
            )
