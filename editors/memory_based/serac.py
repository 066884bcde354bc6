"""SERAC (Mitchell et al. 2022): a classifier decides which probes are in the scope of an edit."""

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
        scope: a folder written by `emend prepare scope`, or the folder or hub id of a cross-encoder
            with one logit (with the prefix `elken:` if it reads pairs in ELKEN's format); empty for
            the shipped classifier.
        threshold: probability from which a probe is in scope; None for the classifier's own
            threshold.
        candidates: number of retrieved entries that the classifier scores; 0 for all entries.
        counterfactual: name of the model that answers probes in scope; empty for the model under
            test.
    """

    scope: str = ""
    threshold: Annotated[float | None, Field(ge=0, le=1)] = None
    candidates: Annotated[int, Field(ge=0)] = 0
    counterfactual: str = ""


class Serac(MemoryEditor):
    """SERAC editor: shows an edit only to probes that a trained classifier finds in its scope."""

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
        """The counterfactual model, loaded at first use; it shares the first one's limits."""
        name = self.settings.counterfactual
        return load_model(name, self.context.policy) if name else None

    @property
    def scorer(self) -> BaseChatModel:
        """The model that scores targets; it gives probabilities only if both models do."""
        second = self.counterfactual
        return self.context.model if second is None or isinstance(second, ScoringModel) else second

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Rag` with classifier, threshold and counterfactual model."""
        second = self.counterfactual
        scope = {"scope": self.scope.identity, "threshold": round(self.threshold, 6)}
        name = self.settings.counterfactual
        counterfactual: Any = "the same"
        if second:
            counterfactual = fingerprint(second, name)
        return super().fingerprint | scope | {"counterfactual": counterfactual}

    def view_retriever(self, view: Corpus, edits: Sequence[Edit]) -> Retriever:
        """Return a retriever that classifies all applied edits, or retrieved candidates only."""
        narrow = self.retriever(view) if self.settings.candidates else None
        return ScopeRetriever(view, self.scope, narrow, self.settings.candidates)

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> SeracContext:
        """Return the graph's context with the threshold and the counterfactual model."""
        fields = self.common_fields(retriever)
        return SeracContext(**fields, threshold=self.threshold, counterfactual=self.counterfactual)
