"""SERAC (Mitchell et al. 2022): a classifier decides whether an edit is meant, and only then it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from langchain_core.language_models import BaseChatModel
from pydantic import Field

from emend.agents.llm import fingerprint, load_model
from emend.agents.scoring import ScoringModel
from emend.editors.base import Materials
from emend.editors.memory_based.rag import Nothing, RagSettings, Remembering
from emend.editors.memory_based.scope import scope_for, told_of
from emend.graphs.serac import ScopeRetriever, SeracContext
from emend.memory.edit import Edit
from emend.memory.retrieval.base import Retriever


@dataclass(frozen=True)
class SeracSettings(RagSettings):
    """Which classifier decides, from which probability on, and who answers in scope.

    `scope` is a folder of `emend train scope`, or empty for a small classifier over the benchmark's examples;
    `threshold` takes the place of the classifier's own; `candidates` limits it to so many entries that the retrieval
    strategy finds, 0 to none; `counterfactual` is a model by name, empty for the model under test.
    """

    scope: str = ""
    threshold: Annotated[float | None, Field(ge=0, le=1)] = None
    candidates: Annotated[int, Field(ge=0)] = 0
    counterfactual: str = ""


class Serac(Remembering):
    """Leaves the model alone unless a trained classifier finds an edit in scope."""

    name: ClassVar[str] = "serac"
    schema: ClassVar[type[Any]] = SeracSettings
    graph: ClassVar[str] = "serac"

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        self.scope = scope_for(materials, self.settings.scope)
        chosen = self.settings.threshold
        self.threshold: float = self.scope.threshold if chosen is None else chosen

    @cached_property
    def counterfactual(self) -> BaseChatModel | None:
        """The second model, loaded when it is first needed; it shares the limits of the first."""
        name = self.settings.counterfactual
        return load_model(name, self.materials.policy) if name else None

    @property
    def speaker(self) -> BaseChatModel:
        """Probabilities are given only if both models give them."""
        second = self.counterfactual
        return self.materials.model if second is None or isinstance(second, ScoringModel) else second

    @property
    def fingerprint(self) -> dict[str, Any]:
        """As for `Rag`, with the classifier, the threshold and the second model."""
        second = self.counterfactual
        told = told_of(self.scope) | {"threshold": round(self.threshold, 6)}
        name = self.settings.counterfactual
        return super().fingerprint | told | {"counterfactual": fingerprint(second, name) if second else "the same"}

    def found(self, edits: Sequence[Edit]) -> Retriever:
        """The classifier over the standing edits, or over those of them that the strategy finds."""
        if not edits:
            return Nothing()
        self.memory.add(edits)
        view = self.memory.view([edit.id for edit in edits])
        narrow = self.retriever(view) if self.settings.candidates else None
        return ScopeRetriever(view, self.scope, narrow, self.settings.candidates)

    def context(self, found: Retriever, edits: Sequence[Edit]) -> SeracContext:
        """With the threshold and the second model."""
        return SeracContext(**self.shared(found), threshold=self.threshold, counterfactual=self.counterfactual)
