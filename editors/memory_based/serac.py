"""SERAC (Mitchell et al. 2022): an edit is shown only to probes that a classifier finds in its scope."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from langchain_core.language_models import BaseChatModel
from pydantic import Field

from emend.agents.llm import fingerprint, load_model
from emend.agents.scoring import ScoringModel
from emend.editors.base import EditorContext
from emend.editors.memory_based.rag import MemoryEditor, RagSettings
from emend.editors.memory_based.scope import load_scope_for
from emend.graphs.serac import ScopeRetriever, SeracContext
from emend.memory.edit import Edit
from emend.memory.retrieval.base import Corpus, Retriever


@dataclass(frozen=True)
class SeracSettings(RagSettings):
    """Settings of SERAC.

    Attributes:
        scope: a folder of `emend train scope`, or folder or hub id of a cross-encoder with one logit, after `elken:` of
            one that reads pairs as ELKEN's do; empty for the shipped classifier.
        threshold: probability from which a probe is in scope, in place of the classifier's own.
        candidates: number of retrieved entries that the classifier judges; 0 for all entries.
        counterfactual: name of the model that answers in scope; empty for the model under test.
    """

    scope: str = ""
    threshold: Annotated[float | None, Field(ge=0, le=1)] = None
    candidates: Annotated[int, Field(ge=0)] = 0
    counterfactual: str = ""


class Serac(MemoryEditor):
    """Leaves the model alone unless a trained classifier finds an edit in scope."""

    name: ClassVar[str] = "serac"
    schema: ClassVar[type[Any]] = SeracSettings
    graph: ClassVar[str] = "serac"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.scope = load_scope_for(context, self.settings.scope)
        override = self.settings.threshold
        self.threshold: float = self.scope.threshold if override is None else override

    @cached_property
    def counterfactual(self) -> BaseChatModel | None:
        """The second model, loaded at first use; it shares the limits of the first."""
        name = self.settings.counterfactual
        return load_model(name, self.context.policy) if name else None

    @property
    def scorer(self) -> BaseChatModel:
        """The model that scores targets; it gives probabilities only if both models do."""
        second = self.counterfactual
        return self.context.model if second is None or isinstance(second, ScoringModel) else second

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Rag` with the classifier, the threshold and the second model."""
        second = self.counterfactual
        scope = {"scope": self.scope.identity, "threshold": round(self.threshold, 6)}
        name = self.settings.counterfactual
        return super().fingerprint | scope | {"counterfactual": fingerprint(second, name) if second else "the same"}

    def view_retriever(self, view: Corpus, edits: Sequence[Edit]) -> Retriever:
        """The classifier over the applied edits, or over those of them that the retriever finds."""
        narrow = self.retriever(view) if self.settings.candidates else None
        return ScopeRetriever(view, self.scope, narrow, self.settings.candidates)

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> SeracContext:
        """The context with the threshold and the second model."""
        fields = self.common_fields(retriever)
        return SeracContext(**fields, threshold=self.threshold, counterfactual=self.counterfactual)
