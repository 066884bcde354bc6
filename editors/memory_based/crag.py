"""CRAG (Yan et al. 2024): retrieved entries are evaluated before they are used."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emend.agents.roles.relevance import Evaluator, ModelEvaluator, ScopeEvaluator
from emend.editors.base import EditorContext
from emend.editors.memory_based.rag import MemoryEditor, RagSettings
from emend.editors.memory_based.scope import load_scope_for
from emend.editors.memory_based.wider_search import load_search
from emend.graphs.crag import CragContext
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Retriever


@dataclass(frozen=True)
class CragSettings(RagSettings):
    """Settings of CRAG.

    Attributes:
        evaluator: `scope` (a classifier) or `model` (the model under test).
        scope: a folder written by `emend prepare scope`, or the folder or hub id of the T5
            evaluator published by CRAG's authors or of a cross-encoder; empty for the shipped
            classifier.
        upper: threshold of the action `correct`; None for the evaluator's own.
        lower: threshold of the action `incorrect`; None for the evaluator's own.
        strips: `selection` (whole passages), `fixed_num` (50 words) or `excerption` (sentences).
        top: number of strips kept; 0 for the published number.
        floor: minimum score of a strip other than the best; None for no minimum.
        search: the wider search: the folder of a second memory, or `module:attribute`, see
            `load_search`.
        search_k: number of entries that the wider search returns.
        embedding: embedding of the second memory, if it is not the lexical or the automatic one.
    """

    k: Annotated[int, Field(ge=1)] = 5
    evaluator: Literal["scope", "model"] = "scope"
    scope: str = ""
    upper: float | None = None
    lower: float | None = None
    strips: Literal["selection", "fixed_num", "excerption"] = "selection"
    top: Annotated[int, Field(ge=0)] = 0
    floor: float | None = -0.5
    search: str = ""
    search_k: Annotated[int, Field(ge=1)] = 5
    embedding: str = ""


class Crag(MemoryEditor):
    """CRAG editor: evaluates retrieved entries, refines them, or searches elsewhere."""

    name: ClassVar[str] = "crag"
    schema: ClassVar[type[Any]] = CragSettings
    graph: ClassVar[str] = "crag"

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        settings: CragSettings = self.settings
        self.evaluator: Evaluator
        if settings.evaluator == "model":
            self.evaluator = ModelEvaluator(context.model)
        else:
            self.evaluator = ScopeEvaluator(load_scope_for(context, settings.scope))
        self.upper = self.evaluator.upper if settings.upper is None else settings.upper
        self.lower = self.evaluator.lower if settings.lower is None else settings.lower
        if self.lower > self.upper:
            raise BadSettings(
                f"crag.lower={self.lower} is above crag.upper={self.upper}: swap them."
            )
        self.search = None
        if settings.search:
            self.search = load_search(settings.search, self.retriever, settings.embedding)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Rag` with evaluator, thresholds and a second memory's content."""
        limits = {"upper": round(self.upper, 6), "lower": round(self.lower, 6)}
        second = {}
        if self.search and self.search.content:
            second["second_memory"] = self.search.content
        return super().fingerprint | {"evaluator": self.evaluator.identity} | limits | second

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> CragContext:
        """Return the graph's context with evaluator, strip settings and wider search."""
        settings: CragSettings = self.settings
        evaluator = self.evaluator
        if edits and isinstance(evaluator, ScopeEvaluator):
            evaluator = evaluator.over(self.memory.view([edit.id for edit in edits]))
        return CragContext(
            **self.common_fields(retriever),
            evaluator=evaluator,
            upper=self.upper,
            lower=self.lower,
            strips=settings.strips,
            top=settings.top,
            floor=float("-inf") if settings.floor is None else settings.floor,
            search=self.search,
            search_k=settings.search_k,
        )
