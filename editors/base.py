"""Protocols of editors: an editor applies edits inside a `with` and yields an answerer."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard, runtime_checkable

from emend.memory.edit import Edit, FrozenModel
from emend.memory.probe import Answer, Probe

if TYPE_CHECKING:  # reading a run must not import LangChain
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy
    from emend.memory.retrieval.base import Corpus, Retriever


class Demonstration(FrozenModel):
    """A demonstration for in-context editing: a new fact, a prompt, and the right continuation.

    `kind` is `copy` (the edit itself), `update` (a paraphrase with the new answer) or `retain`
    (another subject with its old answer).
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
    """Cost of applying edits in time, memory and tokens, without answering probes.

    An editor that changes weights sets `tokens`, the tokens of all forward passes without padding
    (as `editors.cost` counts them); the run measures the rest. `peak_bytes` is the increase in the
    process's resident memory, or in GPU memory for a model on a GPU; None if it was not measured.
    """

    edits: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int | None = None
    tokens: int = 0

    def plus(self, ahead: "EditCost") -> "EditCost":
        """Return the sum with the cost of work done ahead; the peak is the higher of the two."""
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
    """Return the cost that only the editor knows: the answerer's attribute `cost`, if any."""
    cost: EditCost = getattr(answerer, "cost", NO_COST)
    return cost


@runtime_checkable
class Retrievable(Protocol):
    """An answerer that can retrieve without asking the model for a reply."""

    def find(self, probe: Probe) -> Answer:
        """Return the `retrieved` ids and steps that `answer` would give, without a text."""
        ...


@runtime_checkable
class Scorable(Protocol):
    """An answerer whose model gives probabilities, which API models often do not."""

    def score(self, probe: Probe, targets: Sequence[str]) -> Answer:
        """Score targets after the same prompt as `answer`.

        `Answer.log_probs` holds one joint natural-log probability per target.
        """
        ...


def gives_scores(answerer: object) -> TypeGuard[Scorable]:
    """Return True for a `Scorable`; before Python 3.12 `isinstance` takes ten times as long."""
    return hasattr(answerer, "score")


class MemoryLike(Protocol):
    """The interface of a memory that editors use."""

    def add(self, edits: Sequence[Edit]) -> None:
        """Store the edits; edits that are already stored are replaced."""
        ...

    def view(self, edit_ids: Sequence[str] | None = None) -> "Corpus":
        """Return the entries of these edits only, or of all edits."""
        ...


@dataclass(frozen=True)
class EditorContext:
    """Resources of an editor besides the edits, such as model, memory and settings."""

    model: "BaseChatModel"
    memory: MemoryLike | None = None
    retriever: "Callable[[Corpus], Retriever] | None" = None
    demonstrations: Sequence[Demonstration] = ()
    wording: str = "new_fact"
    settings: dict[str, Any] = field(default_factory=dict)
    """Overrides of the editor's settings, by field name."""
    seed: int = 0
    policy: "CallPolicy | None" = None
    """Call limits of the run, for a second model that the editor loads."""
    folder: Path | None = None
    """Folder of the run, in which an editor may store files; None outside a run."""


class Editor(Protocol):
    """A knowledge editing method; `name` is its registry name.

    Random draws are seeded by `EditorContext.seed` and the edits' ids, never by earlier draws, so
    that a resumed run solves an edit exactly as the interrupted run did.
    """

    name: ClassVar[str]
    needs_weights: ClassVar[bool]
    """True if the method changes a local model's weights, so that runs on one model cannot overlap.
    """

    def __init__(self, context: EditorContext) -> None: ...

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything besides model and data that affects this editor's answers.

        For example its settings, prompt ids and graph name.
        """
        ...

    def edit(self, edits: Sequence[Edit]) -> AbstractContextManager[Answerer]:
        """Apply the edits inside the `with`, and restore the model bit for bit at its end.

        The model is restored even after an exception.
        """
        ...


# Apply more edits on top of those of earlier calls, and return an answerer with all of them.
ApplyMore = Callable[[Sequence[Edit]], Answerer]


@runtime_checkable
class Sequential(Protocol):
    """An editor that solves new edits on the already edited model, for mode `sequential`.

    Other editors get all edits so far again at each step.
    `editors.parametric.sequential.sequential_edits` implements this protocol for editors that
    compute weight deltas.
    """

    def sequence(self) -> AbstractContextManager[ApplyMore]:
        """Apply the edits of each call inside the `with`; a failed call leaves the model unchanged.

        At the end of the `with`, even after an exception, the model is restored bit for bit.
        """
        ...


@runtime_checkable
class BatchSolver(Protocol):
    """An editor that solves several groups of edits faster in one batch, for mode `single`."""

    def presolve(self, groups: Sequence[Sequence[Edit]]) -> EditCost:
        """Solve groups of edits ahead, for later calls of `edit` with each group alone.

        The result of `edit` is the same, except for rounding differences that depend on the batch
        size. Results for earlier groups are discarded. An edit that cannot be solved raises in
        `edit`, not here.
        """
        ...
