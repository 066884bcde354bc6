"""Memory systems: what every one can do, and what some can."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from emend.evals.stream.gold import StateFact
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.registry import Registry

if TYPE_CHECKING:  # listing systems must not import LangChain
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy
    from emend.memory.embeddings.embed import Embedding
    from emend.memory.probe import Answer


class ContextItem(NamedTuple):
    """A text that a memory recalls for a question, the id of the turn that it is from, and its date, where known."""

    text: str
    turn: str = ""
    date: str = ""


class StoreSize(NamedTuple):
    """Number of texts in a store, and its bytes."""

    items: int
    bytes: int


@runtime_checkable
class ObservingSystem(Protocol):
    """A memory system; it also has `context_for`, as a `RecallSystem`, or `answer`, as an `AnsweringSystem`."""

    def observe(self, turn: Turn) -> None:
        """Take a turn into the memory; the same turn again changes nothing."""
        ...


@runtime_checkable
class RecallSystem(ObservingSystem, Protocol):
    """A system that says what the model under test should see."""

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Texts that the memory recalls for a question at a date, best first; they are cut to the budget."""
        ...


@runtime_checkable
class AnsweringSystem(ObservingSystem, Protocol):
    """A system that answers by itself."""

    def answer(self, question: StreamQuestion, at: str) -> "str | Answer":
        """The answer to a question at a date; one with steps is traced."""
        ...


@runtime_checkable
class HasState(Protocol):
    """A system whose facts can be read."""

    def state(self) -> Collection[StateFact]:
        """The facts that hold now, in the words of the turns."""
        ...


@runtime_checkable
class HasHistory(Protocol):
    """A system that keeps former values of facts."""

    def history(self, user: str, subject: str, relation: str) -> Sequence[str]:
        """All objects that a fact had, oldest first."""
        ...


@runtime_checkable
class CanForget(Protocol):
    """A system with an operation that takes a fact back."""

    def forget(self, user: str, subject: str, relation: str) -> None:
        """Take a fact back: it is in no later context."""
        ...


@runtime_checkable
class HasSize(Protocol):
    """A system whose store can be measured."""

    def size(self) -> StoreSize:
        """The size of the store now."""
        ...


def no_evidence(question: StreamQuestion) -> Sequence[Turn]:
    """No turns."""
    return ()


@dataclass(frozen=True)
class SystemContext:
    """Resources of a memory system.

    Attributes:
        model: under test, for systems that read turns with a model.
        embedding: for systems that search by vectors.
        folder: where a system may keep its store; None for one that ends with the process.
        settings: the system's own, by name.
        policy: limits of the run, for further models.
        evidence: gives the turns that decide the answer to a question; only `oracle` may use it.
    """

    model: "BaseChatModel | None" = None
    embedding: "Embedding | None" = None
    folder: Path | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    policy: "CallPolicy | None" = None
    evidence: Callable[[StreamQuestion], Sequence[Turn]] = no_evidence

    def require_model(self, system: str) -> "BaseChatModel":
        """The model under test.

        Raises:
            BadSettings: there is none.
        """
        if self.model is None:
            raise BadSettings(f"the memory system '{system}' reads turns with a model: name one with --model.")
        return self.model


def item_of(turn: Turn) -> ContextItem:
    """A turn as an item of a context: who speaks, and the text."""
    speaker = turn.user if turn.role == "user" else turn.role
    return ContextItem(f"{speaker}: {turn.text}", turn.id, turn.date)


def load_package(system: str, package: str, module: str) -> Any:
    """A module of the package that a system needs.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = package.partition("[")[0]
        raise MissingExtra(f"the memory system '{system}' needs the package {name}: pip install '{package}'") from error


class FolderSystem:
    """Base class of systems with files, in the context's folder or in one that ends with the system."""

    persistent: ClassVar[bool] = True
    reads_memory: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        self._temporary = None if context.folder else TemporaryDirectory(prefix="emend-system-")
        self._folder = context.folder or Path(self._temporary.name if self._temporary else "")

    def _size(self, items: int) -> StoreSize:
        """Number of items, and the bytes of the folder."""
        return StoreSize(items, sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file()))

    def close(self) -> None:
        """Remove a folder that ends with the system."""
        if self._temporary is not None:
            self._temporary.cleanup()


SystemFactory = Callable[[SystemContext], ObservingSystem]
_BASELINES = "emend.evals.stream.systems.baselines:"
SYSTEMS: Registry[SystemFactory] = Registry(
    kind="memory system",
    group="emend.memory_systems",
    interfaces=(("observe",),),
    parameters=("context",),
    builtin={
        "empty": (_BASELINES + "Empty", "Recalls nothing: what the model answers by itself."),
        "oracle": (_BASELINES + "Oracle", "Recalls the turns that decide the answer, by gold."),
        "full_context": (_BASELINES + "FullContext", "Recalls all turns, the newest if the budget is short."),
        "grep": (_BASELINES + "Grep", "Keeps turns in files by session, and searches lines with the question's words."),
        "bm25_newest": (_BASELINES + "Bm25Newest", "Recalls the best turns by BM25, newest first."),
        "facts": (
            "emend.evals.stream.systems.facts:Facts",
            "Keeps dated facts, corrections and rules in Emend's memory of facts, and looks them up.",
        ),
        "fact_agent": (
            "emend.evals.stream.systems.facts:FactAgentSystem",
            "The model writes each turn into Emend's memory of facts by tools, and looks facts up there.",
        ),
        "langgraph_store": (
            "emend.evals.stream.systems.langgraph_store:LangGraphStore",
            "LangGraph's store: every turn an item, searched by embedding.",
        ),
        "langmem": (
            "emend.evals.stream.systems.langgraph_store:LangMem",
            "LangMem's store manager: the model reads each turn and writes memories (extra langmem).",
        ),
        "mem0": (
            "emend.evals.stream.systems.mem0:Mem0",
            "Mem0: the model reads each turn and adds memories, in a local Qdrant folder (extra mem0).",
        ),
        "amem": (
            "emend.evals.stream.systems.amem:AMem",
            "A-Mem: the model writes a note for each turn, links it and revises others, in Chroma (extra amem).",
        ),
        "graphiti": (
            "emend.evals.stream.systems.graphiti:Graphiti",
            "Graphiti: the model reads each turn into a graph of dated facts, in a local Kuzu file (extra graphiti).",
        ),
        "memory": (
            "emend.evals.stream.systems.memory:Memory",
            "Reads facts out of turns into Emend's memory, where the newest of a fact is current.",
        ),
    },
)
"""A `persistent` system keeps its store in the context's folder; one that `reads_memory` is given an embedding."""
