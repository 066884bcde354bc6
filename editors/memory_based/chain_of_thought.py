"""Chain of thought under retrieved facts, and under all facts at once (input augmentation)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emend.agents.roles.chain import DEMONSTRATIONS, THOUGHT_TOKENS, prompt_id
from emend.agents.roles.continuing import has_room
from emend.agents.scoring import LimitedModel
from emend.editors.base import Materials
from emend.editors.memory_based.mello import demonstrations_in
from emend.editors.memory_based.rag import Nothing, RagSettings, Remembering
from emend.graphs.cot import CotContext, Form
from emend.graphs.rag import RagContext
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit
from emend.memory.retrieval.base import Corpus, Hit, Retriever


@dataclass(frozen=True)
class ChainSettings:
    """How thoughts are asked for.

    `form` is `thoughts` or `steps`; `auto` is `steps` for a local model whose window does not hold the solved examples.
    `demonstrations` names a text file with solved examples in place of the shipped ones.
    """

    form: Literal["auto", "thoughts", "steps"] = "auto"
    demonstrations: str = ""


@dataclass(frozen=True)
class CotSettings(ChainSettings, RagSettings):
    """As for rag, and how thoughts are asked for."""


@dataclass(frozen=True)
class InputAugSettings(ChainSettings):
    """Whether the model thinks before it answers, and how many facts it is shown at most, 0 for all.

    What does not fit a local model's window is cut on the left, the oldest facts first, and counted in the records.
    """

    chain: bool = False
    facts: Annotated[int, Field(ge=0)] = 0


class Thinking(Remembering):
    """What editors share that ask for thoughts."""

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        self.demonstrations = demonstrations_in(self.settings.demonstrations) or DEMONSTRATIONS
        self.form: Form = self._form()

    def _form(self) -> Form:
        if self.settings.form != "auto":
            return self.settings.form  # type: ignore[no-any-return]
        model = self.materials.model
        small = isinstance(model, LimitedModel) and not has_room(model, self.demonstrations, THOUGHT_TOKENS)
        return "steps" if small else "thoughts"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """As for `Rag`, with the form that is used and the id of its prompts."""
        shown = self.demonstrations if self.form == "thoughts" else ""
        return super().fingerprint | {"form": self.form, "prompts": prompt_id(self.form, shown)}

    def thinking(self, found: Retriever) -> CotContext:
        """The context of the graph `cot`."""
        return CotContext(**self.shared(found), form=self.form, demonstrations=self.demonstrations)


class Cot(Thinking):
    """Retrieves new facts, thinks under them, answers."""

    name: ClassVar[str] = "cot"
    schema: ClassVar[type[Any]] = CotSettings
    graph: ClassVar[str] = "cot"

    def context(self, found: Retriever, edits: Sequence[Edit]) -> CotContext:
        """With the form and the solved examples."""
        return self.thinking(found)


class InputAug(Thinking):
    """Puts all new facts before every probe (ReCoE's input augmentation): nothing has to be found."""

    name: ClassVar[str] = "input_aug"
    schema: ClassVar[type[Any]] = InputAugSettings

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        self.app = GRAPHS.load("cot" if self.settings.chain else "rag")()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """As for `cot` where the model thinks; there is no retrieval strategy."""
        told = super().fingerprint | {"retriever": "all"}
        return told if self.settings.chain else {k: v for k, v in told.items() if k not in ("form", "prompts")}

    def found(self, edits: Sequence[Edit]) -> Retriever:
        """Everything that stands, in the order in which it was said."""
        if not edits:
            return Nothing()
        self.memory.add(edits)
        ids = [edit.id for edit in edits]
        return Everything(self.memory.view(ids), ids)

    def context(self, found: Retriever, edits: Sequence[Edit]) -> RagContext:
        """With room for all facts."""
        return self.thinking(found) if self.settings.chain else RagContext(**self.shared(found))

    def shared(self, found: Retriever) -> dict[str, Any]:
        """As for every editor; `k` is how many facts are shown."""
        entries = len(found.entries) if isinstance(found, Everything) else 1
        return super().shared(found) | {"k": self.settings.facts or max(entries, 1)}


class Everything:
    """All entries, whatever is asked; of more than are wanted the newest.

    Args:
        corpus: what is in scope.
        order: ids of the edits, the oldest first.
    """

    def __init__(self, corpus: Corpus, order: Sequence[str]) -> None:
        places = {edit_id: place for place, edit_id in enumerate(order)}
        self.entries = sorted(corpus.entries(), key=lambda entry: places.get(entry.edit_id, -1))

    def search(self, query: str, k: int) -> list[Hit]:
        """The last k entries, oldest first; all score the same."""
        return [Hit(entry=entry, score=0.0) for entry in self.entries[-k:]] if k > 0 else []
