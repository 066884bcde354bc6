"""Memory system that recalls turns by a retrieval strategy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emend.editors.hyperparameters import build_settings
from emend.evals.streams.system import ContextItem, SystemContext, item_of
from emend.evals.streams.systems.baselines import TurnList
from emend.evals.streams.turn import StreamQuestion
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Retriever, search
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.store.rows import make_entries


@dataclass(frozen=True)
class RetrievalSettings:
    """Settings of the search.

    Attributes:
        retriever: the strategy; see: emend list retrievers.
        k: maximum number of recalled turns, before the budget.
    """

    retriever: str = "conversation"
    k: Annotated[int, Field(ge=1)] = 100


class Retrieval(TurnList):
    """Memory system that recalls the best turns by a retrieval strategy."""

    reads_memory: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        super().__init__(context)
        self.settings: RetrievalSettings = build_settings(
            RetrievalSettings, context.settings, "retrieval"
        )
        self._make = load_retriever(self.settings.retriever)
        self._embedding = context.embedding or LexicalEmbedding()
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._retriever: Retriever | None = None
        self._indexed = 0

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the turns that the strategy finds; its index is rebuilt after new turns."""
        if not self.turns or not question.text.strip():
            return ()
        if self._retriever is None or self._indexed < len(self.turns):
            self._retriever = self._make(self._corpus())
            self._indexed = len(self.turns)
        hits = search(self._retriever, question.text, self.settings.k)
        ids = dict.fromkeys(hit.entry.edit_id for hit in hits)
        return [item_of(self.turns[id]) for id in ids]

    def _corpus(self) -> ExactCorpus:
        """Return the turns as a corpus; each text is embedded only once."""
        edits = (
            Edit(id=turn.id, form="document", text=item_of(turn).text, time=turn.date or None)
            for turn in self.turns.values()
        )
        entries = [entry for edit in edits for entry in make_entries(edit)]
        entries.sort(key=lambda entry: entry.id)
        new = list(
            dict.fromkeys(entry.text for entry in entries if entry.text not in self._vectors)
        )
        if new:
            self._vectors |= zip(new, self._embedding.documents(new), strict=True)
        vectors = np.stack([self._vectors[entry.text] for entry in entries])
        return ExactCorpus(entries, vectors, QueryVectors(self._embedding))
