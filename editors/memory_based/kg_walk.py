"""Walk over the graph of edited facts (after GMeLLo, Chen et al. 2024; KEDKG, Lu et al. 2025)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from emend.agents.roles.relation_chain import ChainForm, chain_id
from emend.agents.scoring import is_chat_model, is_small_model
from emend.agents.structured import supports_structure
from emend.editors.base import EditorContext
from emend.editors.memory_based.rag import MemoryEditor
from emend.graphs.kg_walk import KgWalkContext
from emend.graphs.walk.relation_similarity import RelationSimilarity
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Retriever


@dataclass(frozen=True)
class KgWalkSettings:
    """Settings of the walk.

    Attributes:
        form: how the model is asked for the plan: `structured` (by schema) or `text` (two lines
            after demonstrations); `auto` is `structured` for a large model with structured output
            or tools of its own, otherwise `text`. With `auto`, a question without a plan, or whose
            walk does not finish, is answered from the retrieved facts; the other two forms have no
            such fallback.
    """

    form: Literal["auto", "structured", "text"] = "auto"


class KgWalk(MemoryEditor):
    """Editor that plans a question's relations at once and follows the edits hop by hop.

    The model answers hops for which there is no edit.
    """

    name: ClassVar[str] = "kg_walk"
    schema: ClassVar[type[Any]] = KgWalkSettings
    graph: ClassVar[str] = "kg_walk"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        model = context.model
        self.form: ChainForm = "text"
        # lexical similarity of relation names is not meaningful
        self.similarity: RelationSimilarity | None = None
        if self.settings.form != "auto":
            self.form = self.settings.form
        elif is_chat_model(model) and supports_structure(model) and not is_small_model(model):
            self.form = "structured"
        embedding = getattr(self.memory, "embedding", None)
        if embedding is not None and embedding.identity != LexicalEmbedding().identity:
            self.similarity = RelationSimilarity(embedding)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `MemoryEditor` with the form in use and its prompt id."""
        return super().fingerprint | {"form": self.form, "prompts": chain_id(self.form)}

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> KgWalkContext:
        """Return the graph's context with the form and the edits."""
        fields = self.common_fields(retriever)
        by_id = {edit.id: edit for edit in edits}
        falls_back = self.settings.form == "auto"
        return KgWalkContext(
            **fields, form=self.form, falls_back=falls_back, edits=by_id, similarity=self.similarity
        )
