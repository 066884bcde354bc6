"""Protocols of editors: an editor applies edits inside a `with` and gives an answerer of the edited system."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from emend.memory.edit import Edit, FrozenModel
from emend.memory.probe import Answer, Probe

if TYPE_CHECKING:  # reading a run must not import LangChain
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy
    from emend.memory.retrieval.base import Corpus, Retriever


class Demonstration(FrozenModel):
    """A demonstration for in-context editing: a new fact, a prompt under it, and the right continuation.

    `kind` is `copy` (the edit itself), `update` (a paraphrase, new answer) or `retain` (another subject, old answer).
    """

    kind: str
    fact: str
    prompt: str
    style: str = "cloze"
    target: str


@runtime_checkable
class Answerer(Protocol):
    """The edited system, while the edit is applied."""

    def answer(self, probe: Probe) -> Answer:
        """Generate an answer."""
        ...


class EditCost(FrozenModel):
    """Cost of applying edits: time, memory and tokens; answering probes is not counted.

    An editor that changes weights sets `tokens`, those of all forward passes without padding (as `editors.cost`
    counts them); the run measures the rest. `peak_bytes` is the increase of the process's resident memory, or of the
    device's where the model is on one; None where it was not measured.
    """

    edits: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int | None = None
    tokens: int = 0

    def plus(self, ahead: "EditCost") -> "EditCost":
        """The sum with the cost of work done ahead for the same edits; of the two peaks the higher."""
        peaks = [peak for peak in (self.peak_bytes, ahead.peak_bytes) if peak is not None]
        return self.model_copy(
            update={
                "seconds": round(self.seconds + ahead.seconds, 6),
                "cpu_seconds": round(self.cpu_seconds + ahead.cpu_seconds, 6),
                "peak_bytes": max(peaks, default=None),
                "tokens": self.tokens + ahead.tokens,
            }
        )


NO_COST = EditCost()


def cost_of(answerer: object) -> EditCost:
    """The part of the edits' cost that only their editor knows, which an answerer may have as `cost`."""
    cost: EditCost = getattr(answerer, "cost", NO_COST)
    return cost


@runtime_checkable
class Retrievable(Protocol):
    """An answerer that can retrieve without asking the model for a reply."""

    def find(self, probe: Probe) -> Answer:
        """An answer with `retrieved` and steps as `answer` would have them, and no text."""
        ...


@runtime_checkable
class Scorable(Protocol):
    """An answerer whose model gives probabilities; API models often give none."""

    def score(self, probe: Probe, targets: Sequence[str]) -> Answer:
        """`Answer.log_probs` has one joint natural-log probability per target, under the prompt of `answer`."""
        ...


class MemoryLike(Protocol):
    """The part of a memory that editors use."""

    def add(self, edits: Sequence[Edit]) -> None:
        """Store the edits; existing ones are replaced, not doubled."""
        ...

    def view(self, edit_ids: Sequence[str] | None = None) -> "Corpus":
        """The entries of these edits alone, or of all."""
        ...


@dataclass(frozen=True)
class EditorContext:
    """Resources of an editor besides the edits: model, memory, retriever, demonstrations, prompt template, settings."""

    model: "BaseChatModel"
    memory: MemoryLike | None = None
    retriever: "Callable[[Corpus], Retriever] | None" = None
    demonstrations: Sequence[Demonstration] = ()
    wording: str = "new_fact"
    settings: dict[str, Any] = field(default_factory=dict)
    """Overrides of the editor's own settings, by field name."""
    seed: int = 0
    policy: "CallPolicy | None" = None
    """Limits of the run, for a further model of the editor's."""
    folder: Path | None = None
    """Folder of the run, where an editor may keep a store; None outside of runs."""


class Editor(Protocol):
    """A method of editing; `name` is its registry name.

    Random draws are seeded by `EditorContext.seed` and the edits' ids, never by earlier draws, so that a resumed run
    solves an edit exactly as the interrupted one did.
    """

    name: ClassVar[str]
    needs_weights: ClassVar[bool]
    """True when the method changes a local model's weights, so that units on one model cannot overlap."""

    def __init__(self, context: EditorContext) -> None: ...

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything that decides this editor's answers besides model and data: settings, prompt ids, graph name."""
        ...

    def edit(self, edits: Sequence[Edit]) -> AbstractContextManager[Answerer]:
        """Apply the edits inside the `with`; at its end, even after an exception, the model is restored bit for bit."""
        ...


ApplyMore = Callable[[Sequence[Edit]], Answerer]
"""Applies more edits on top of those of earlier calls, and gives an answerer with all of them."""


@runtime_checkable
class Sequential(Protocol):
    """An editor that solves new edits on top of the already edited model, for mode `sequential`.

    An editor without it is given all edits so far at each step. For an editor that solves for deltas,
    `editors.parametric.sequential.sequential_edits` implements it.
    """

    def sequence(self) -> AbstractContextManager[ApplyMore]:
        """Apply the edits of each call inside the `with`; a call that raises leaves the model as the one before did.

        At the end of the `with`, even after an exception, the model is restored bit for bit.
        """
        ...


@runtime_checkable
class BatchSolver(Protocol):
    """An editor that solves several groups of edits faster together than one after another, for mode `single`."""

    def presolve(self, groups: Sequence[Sequence[Edit]]) -> EditCost:
        """Work ahead for these groups of edits, each of which `edit` will be given alone on the unedited model.

        The result of `edit` is the same, except for last digits that depend on the batch size. Work for earlier groups
        is forgotten. An edit that cannot be solved raises in `edit`, not here.
        """
        ...
