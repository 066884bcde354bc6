"""IKE (Zheng et al. 2023): RAG with demonstrations of when to use a fact and when not."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

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
        demonstrations: number of demonstrations; the paper shows 32, more than small windows hold.
        original: append the tested edit, with its answer, as a last demonstration of copying, as the authors' code
            does; the prompt of the edit itself then holds its own answer.
        pool: a file of JSON lines to choose from in place of the benchmark's demonstrations (see
            `editors.memory_based.demonstration_pool`).
    """

    demonstrations: Annotated[int, Field(ge=0)] = 6
    original: bool = False
    pool: str = ""


class Ike(MemoryEditor):
    """Retrieves new facts, and shows demonstrations of when to use them and when not (Zheng et al. 2023)."""

    name: ClassVar[str] = "ike"
    schema: ClassVar[type[Any]] = IkeSettings
    graph: ClassVar[str] = "ike"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.pool = Pool(load_examples(context, self.settings.pool), MemoryEmbedding(self.memory))
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
        """The context with the pool, and the facts that may not be shown from it."""
        context = IkeContext(
            **self.common_fields(retriever),
            pool=self.pool,
            demonstrations=self.settings.demonstrations,
            seed=self.context.seed,
            applied=frozenset(edit.text for edit in edits),
            original={edit.id: edit for edit in edits} if self.settings.original else {},
        )
        self._warn_if_few(context.available)
        return context

    def _warn_if_few(self, available: int) -> None:
        """Log once that fewer demonstrations are available than the setting asks for."""
        needed, pool = self.settings.demonstrations, len(self.pool.examples)
        if available < needed and not self._warned:
            self._warned = True
            why = f"the pool has {pool}" if available == pool else f"the others of {pool} are of applied edits"
            logging.getLogger(__name__).warning(
                "editor 'ike' is to show %d demonstrations and has %d to choose from (%s): name a file of more with "
                "--set ike.pool=FILE, or ask for fewer with --set ike.demonstrations=%d.",
                *(needed, available, why, available),
            )
