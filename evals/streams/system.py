"""Interfaces of memory systems: the required methods and the optional ones."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from emend.evals.streams.gold import StateFact
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.registry import Registry

if TYPE_CHECKING:  # listing systems must not import LangChain
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy
    from emend.memory.embeddings.embed import Embedding
    from emend.memory.probe import Answer, Usage


class ContextItem(NamedTuple):
    """A text that a memory recalls for a question, with the id and date of its turn if known."""

    text: str
    turn: str = ""
    date: str = ""


class StoreSize(NamedTuple):
    """Number of texts in a store, and its size in bytes."""

    items: int
    bytes: int


@runtime_checkable
class ObservingSystem(Protocol):
    """A memory system; it must also be a `RecallSystem` or an `AnsweringSystem`."""

    def observe(self, turn: Turn) -> None:
        """Add a turn to the memory; the same turn again changes nothing."""


@runtime_checkable
class RecallSystem(ObservingSystem, Protocol):
    """A memory system that selects the context for the model under test."""

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the texts that the memory recalls for a question at a date, best first.

        The texts are then cut to the token budget.
        """


@runtime_checkable
class AnsweringSystem(ObservingSystem, Protocol):
    """A memory system that answers questions itself."""

    def answer(self, question: StreamQuestion, at: str) -> "str | Answer":
        """Return the answer to a question at a date; an `Answer` with steps is traced."""


@runtime_checkable
class HasState(Protocol):
    """A memory system whose facts can be read."""

    def state(self) -> Collection[StateFact]:
        """Return the facts that hold now, in the words of the turns."""


@runtime_checkable
class HasHistory(Protocol):
    """A memory system that keeps former values of facts."""

    def history(self, user: str, subject: str, relation: str) -> Sequence[str]:
        """Return all objects that a fact had, oldest first."""


@runtime_checkable
class CanForget(Protocol):
    """A memory system that can delete a fact."""

    def forget(self, user: str, subject: str, relation: str) -> None:
        """Delete a fact, so that no later context contains it."""


@runtime_checkable
class HasSize(Protocol):
    """A memory system whose store can be measured."""

    def size(self) -> StoreSize:
        """Return the current size of the store."""


@runtime_checkable
class HasUsage(Protocol):
    """A memory system that records the calls of its own model, which are not counted otherwise."""

    @property
    def usage(self) -> "Usage":
        """Usage of all model calls made while observing turns."""


def no_evidence(question: StreamQuestion) -> Sequence[Turn]:
    """Return no turns."""
    return ()


@dataclass(frozen=True)
class SystemContext:
    """Resources for a memory system.

    Attributes:
        model: the model under test, for systems that read turns with a model.
        embedding: for systems that search by vectors.
        folder: folder for the system's store; None for a store that is dropped with the process.
        settings: the system's own settings, by name.
        policy: limits of the run, for further models.
        evidence: returns the turns that decide the answer to a question; only `oracle` may use it.
    """

    model: "BaseChatModel | None" = None
    embedding: "Embedding | None" = None
    folder: Path | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    policy: "CallPolicy | None" = None
    evidence: Callable[[StreamQuestion], Sequence[Turn]] = no_evidence

    def require_model(self, system: str) -> "BaseChatModel":
        """Return the model under test.

        Raises:
            BadSettings: there is none.
        """
        if self.model is None:
            raise BadSettings(
                f"the memory system '{system}' reads turns with a model: name one with --model."
            )
        return self.model


def item_of(turn: Turn) -> ContextItem:
    """Return a turn as a context item: the speaker and the text."""
    speaker = turn.speaker or (turn.user if turn.role == "user" else turn.role)
    return ContextItem(f"{speaker}: {turn.text}", turn.id, turn.date)


def load_package(system: str, package: str, module: str) -> Any:
    """Import and return a module of a package that a system needs.

    Raises:
        MissingExtra: the package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = package.partition("[")[0]
        raise MissingExtra(
            f"the memory system '{system}' needs the package {name}: pip install '{package}'"
        ) from error


class FolderSystem:
    """Base class of systems with files, in the context's folder or in a temporary one."""

    persistent: ClassVar[bool] = True
    reads_memory: ClassVar[bool] = True

    def __init__(self, context: SystemContext) -> None:
        self._temporary = None if context.folder else TemporaryDirectory(prefix="emend-system-")
        self._folder = context.folder or Path(self._temporary.name if self._temporary else "")

    def _size(self, items: int) -> StoreSize:
        """Return the number of items and the size of the folder in bytes."""
        return StoreSize(
            items, sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
        )

    def close(self) -> None:
        """Remove the folder if it is temporary."""
        if self._temporary is not None:
            self._temporary.cleanup()


SystemFactory = Callable[[SystemContext], ObservingSystem]
# A `persistent` system keeps its store in the context's folder; a system with `reads_memory` gets
# an embedding.
SYSTEMS: Registry[SystemFactory] = Registry(
    kind="memory system",
    group="emend.memory_systems",
    interfaces=(("observe",),),
    parameters=("context",),
    beside=__file__,
)
