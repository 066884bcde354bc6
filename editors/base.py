"""What an editor is: something that lets edits stand for a while and lends an answerer meanwhile."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel

from emend.memory.edit import Edit, Word
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.base import Corpus, Retriever


class Demonstration(Word):
    """A solved example for in-context editing: a new fact, a prompt under it, and the right continuation.

    `kind` is `copy` (the edit itself), `update` (a paraphrase, new answer) or `retain` (another subject, old answer).
    """

    kind: str
    fact: str
    prompt: str
    style: str = "cloze"
    target: str


@runtime_checkable
class Answerer(Protocol):
    """The edited system, while the edit stands."""

    def answer(self, probe: Probe) -> Answer:
        """Generate an answer."""
        ...


@runtime_checkable
class Scorable(Protocol):
    """An answerer whose model gives probabilities; a second protocol, so that an API model need not lie."""

    def score(self, probe: Probe, targets: Sequence[str]) -> Answer:
        """`Answer.log_probs` has one joint natural-log probability per target, under the prompt of `answer`."""
        ...


class MemoryLike(Protocol):
    """What editors ask of a memory."""

    def add(self, edits: Sequence[Edit]) -> None:
        """Store the edits; what is there already is replaced, not doubled."""
        ...

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """The entries of these edits alone, or of all."""
        ...


@dataclass(frozen=True)
class Materials:
    """What an editor works with besides the edits: the model, a memory, a retrieval strategy, examples, wording."""

    model: BaseChatModel
    memory: MemoryLike | None = None
    retriever: Callable[[Corpus], Retriever] | None = None
    demonstrations: Sequence[Demonstration] = ()
    wording: str = "new_fact"
    settings: dict[str, Any] = field(default_factory=dict)
    """Overrides of the editor's own settings, by field name."""
    seed: int = 0


class Editor(Protocol):
    """One method of editing; `name` is its registry name."""

    name: ClassVar[str]
    needs_weights: ClassVar[bool]
    """True when the method changes a local model's weights, so that units on one model cannot overlap."""

    def __init__(self, materials: Materials) -> None: ...

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything that decides this editor's answers besides model and data: settings, prompt ids, graph name."""
        ...

    def edit(self, edits: Sequence[Edit]) -> AbstractContextManager[Answerer]:
        """Inside the `with` the edits stand; on leaving it, even by an exception, the model is back bit for bit."""
        ...
