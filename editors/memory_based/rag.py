"""Editors that store edits in a memory, from which a graph retrieves; the model is not changed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from langchain_core.language_models import BaseChatModel
from pydantic import Field

from emend.agents.roles.answer import wording_id
from emend.agents.scoring import is_chat_model
from emend.editors.answerers import graph_answerer
from emend.editors.base import Answerer, EditorContext
from emend.editors.hyperparameters import build_settings
from emend.graphs.rag import RagContext
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Retriever
from emend.memory.retrieval.none import NoRetrieval


@dataclass(frozen=True)
class RagSettings:
    """Settings of retrieval.

    Attributes:
        k: number of retrieved entries put before a probe.
    """

    k: Annotated[int, Field(ge=1)] = 1


class MemoryEditor:
    """Base class of editors that run a graph over a view of the memory with only the applied edits.

    A subclass sets its graph, its settings and, if the graph needs one, the graph's context.
    """

    name: ClassVar[str]
    needs_weights: ClassVar[bool] = False
    reads_memory: ClassVar[bool] = True
    schema: ClassVar[type[Any]] = RagSettings
    graph: ClassVar[str] = "rag"

    def __init__(self, context: EditorContext) -> None:
        self.context = context
        self.settings: Any = build_settings(self.schema, context.settings, self.name)
        if context.memory is None or context.retriever is None:
            missing = "memory" if context.memory is None else "retriever"
            raise BadSettings(
                f"editor '{self.name}' needs a memory, and EditorContext.{missing} is None: give "
                "it a memory, e.g. ChromaMemory, and a retriever, e.g. RETRIEVERS.load('dense')."
            )
        self.memory, self.retriever = context.memory, context.retriever
        self.app = GRAPHS.load(self.graph)()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Settings, retriever, graph, prompt template and prompt id."""
        return {
            "editor": self.name,
            "graph": self.app.name,
            "settings": asdict(self.settings),
            "retriever": qualified_name(self.context.retriever),
            "wording": self.context.wording,
            "prompt": wording_id(self.context.wording, is_chat_model(self.context.model)),
        }

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Add the edits to the memory and yield an answerer over these edits only."""
        context = self.graph_context(self.retriever_over(edits), edits)
        yield graph_answerer(self.app, context, self.scorer)

    @property
    def scorer(self) -> BaseChatModel:
        """The model that scores targets."""
        return self.context.model

    def retriever_over(self, edits: Sequence[Edit]) -> Retriever:
        """Add edits to the memory and return a retriever over these edits only."""
        if not edits:
            return NoRetrieval()  # strategies need not support empty views
        self.memory.add(edits)
        return self.view_retriever(self.memory.view([edit.id for edit in edits]), edits)

    def view_retriever(self, view: Corpus, edits: Sequence[Edit]) -> Retriever:
        """Return the retriever over a view of the memory that holds these edits."""
        return self.retriever(view)

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> RagContext:
        """Return the context of the graph's nodes while the edits are applied."""
        return RagContext(**self.common_fields(retriever))

    def common_fields(self, retriever: Retriever) -> dict[str, Any]:
        """Return the fields of every context."""
        k = {"k": self.settings.k} if hasattr(self.settings, "k") else {}
        return {
            "model": self.context.model,
            "retriever": retriever,
            "wording": self.context.wording,
        } | k


class Rag(MemoryEditor):
    """Retrieval-augmented generation: retrieves new facts for each probe."""

    name: ClassVar[str] = "rag"


def qualified_name(strategy: Any) -> str:
    """Return module and name of a retriever factory."""
    return f"{strategy.__module__}:{getattr(strategy, '__qualname__', type(strategy).__qualname__)}"
