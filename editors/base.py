"""What an editor is: something that lets edits stand for a while and lends an answerer meanwhile."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel

from emend.agents.providers.policy import CallPolicy
from emend.memory.edit import Edit, FrozenModel
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.base import Corpus, Retriever


class Demonstration(FrozenModel):
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


class EditCost(FrozenModel):
    """What it cost to let edits stand: time, memory and what went through the model, asking not counted.

    An editor that changes weights tells `tokens`, those of all forward passes without padding (as `editors.costing`
    counts them); who runs the editor measures the rest. `peak_bytes` is how far the process's resident memory rose
    above where it was, or the device's where the model is on one; None where it was not measured.
    """

    edits: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int | None = None
    tokens: int = 0

    def plus(self, ahead: "EditCost") -> "EditCost":
        """With what was done ahead for the same edits; of the two peaks the higher."""
        return self.model_copy(
            update={
                "seconds": round(self.seconds + ahead.seconds, 6),
                "cpu_seconds": round(self.cpu_seconds + ahead.cpu_seconds, 6),
                "peak_bytes": max(
                    (peak for peak in (self.peak_bytes, ahead.peak_bytes) if peak is not None), default=None
                ),
                "tokens": self.tokens + ahead.tokens,
            }
        )


NO_COST = EditCost()


@runtime_checkable
class Costed(Protocol):
    """An answerer that says what its edits cost, as far as only its editor knows."""

    @property
    def cost(self) -> EditCost:
        """Of the edits that were inserted for this answerer."""
        ...


def cost_of(answerer: object) -> EditCost:
    """What the answerer's editor says of its edits' cost."""
    return answerer.cost if isinstance(answerer, Costed) else NO_COST


@runtime_checkable
class Finding(Protocol):
    """An answerer that can say what it retrieves without asking the model for a reply."""

    def find(self, probe: Probe) -> Answer:
        """`Answer.retrieved` and the steps, as `answer` would have them; there is no text."""
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
    policy: CallPolicy | None = None
    """How a further model of the editor's own is asked: within the limits of the run."""


class Editor(Protocol):
    """One method of editing; `name` is its registry name.

    What is drawn at random is seeded by `Materials.seed` and the edits' ids, never by what was drawn before, so that a
    resumed run solves an edit as the interrupted one did.
    """

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


Grow = Callable[[Sequence[Edit]], Answerer]
"""Lets more edits stand on top of those of the calls before, and lends an answerer that has all of them."""


@runtime_checkable
class Sequential(Protocol):
    """An editor that solves new edits on top of the already edited model: how mode `sequential` uses it.

    One that lacks this is given all edits so far at each step. `editors.stacking.stacked` is it for an editor that
    solves for deltas.
    """

    def sequence(self) -> AbstractContextManager[Grow]:
        """Inside the `with` each call adds edits; one that raises leaves the model as the call before did.

        On leaving the `with`, even by an exception, the model is back bit for bit.
        """
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """An editor that solves edits of its own accord faster when it knows which come next: for mode `single`."""

    def foresee(self, sets: Sequence[Sequence[Edit]]) -> EditCost:
        """Work ahead for these sets of edits, each of which `edit` will be given alone on the unedited model.

        What `edit` then does is the same, to what batches of another size change in the last digits. What was worked
        out for earlier sets is forgotten. An edit that cannot be solved raises in `edit`, not here.
        """
        ...
