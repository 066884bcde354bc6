"""Chain of thought under retrieved facts, and under all facts at once (input augmentation)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from langchain_core.language_models import BaseChatModel
from pydantic import Field

from emend.agents.roles.chain import DEMONSTRATIONS, THOUGHT_TOKENS, chain_prompt_id
from emend.agents.roles.completion import has_room
from emend.agents.scoring import LimitedModel, is_chat_model
from emend.editors.base import EditorContext
from emend.editors.hyperparameters import read_text
from emend.editors.memory_based.rag import MemoryEditor, RagSettings
from emend.graphs.cot import CotContext
from emend.graphs.rag import RagContext
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit
from emend.memory.retrieval.base import Corpus, Hit, Retriever


@dataclass(frozen=True)
class ChainSettings:
    """Settings of the chain of thought.

    Attributes:
        form: `thoughts` or `steps`; `auto` is `steps` for a local model whose window does not hold the demonstrations.
        demonstrations: a text file with demonstrations in place of the shipped ones.
    """

    form: Literal["auto", "thoughts", "steps"] = "auto"
    demonstrations: str = ""


@dataclass(frozen=True)
class CotSettings(ChainSettings, RagSettings):
    """Settings of retrieval and of the chain of thought."""


@dataclass(frozen=True)
class InputAugSettings(ChainSettings):
    """Settings of input augmentation.

    Attributes:
        chain: the model thinks before it answers.
        facts: maximum number of facts shown; 0 for all. What does not fit a local model's window is cut on the left,
            the oldest facts first, and counted in the records.
    """

    chain: bool = False
    facts: Annotated[int, Field(ge=0)] = 0


class SteppingEditor(MemoryEditor):
    """Base class of the editors that let the model think in steps or thoughts; one form has demonstrations."""

    shipped: ClassVar[str]
    """The demonstrations that the settings may replace."""
    forms: ClassVar[tuple[str, str]]
    """The form with demonstrations, and the one for a local model whose window does not hold them."""
    reply_tokens: ClassVar[int] = 0
    """Tokens of a reply that the window must have room for too."""
    prompt_id: ClassVar[Any]
    """Form and demonstrations to the id of the prompts."""

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        file, self.demonstrations = self.settings.demonstrations, self.shipped
        if file:
            text = read_text(Path(file), f"no demonstrations in '{file}': name a text file")
            self.demonstrations = text.replace("\r\n", "\n") or self.shipped
        self.form: Any = self.settings.form
        if self.form == "auto":
            self.form = self.form_for(context.model)

    def form_for(self, model: BaseChatModel) -> str:
        """The form for a model: the one with demonstrations, unless its window does not hold them."""
        room = (self.demonstrations, self.reply_tokens)
        return self.forms[isinstance(model, LimitedModel) and not has_room(model, *room)]

    @property
    def shows_demonstrations(self) -> bool:
        """True if the form in use has demonstrations."""
        return bool(self.form == self.forms[0])

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Rag` with the form in use and the id of its prompts."""
        demonstrations = self.demonstrations if self.shows_demonstrations else ""
        prompts = self.prompt_id(self.form, demonstrations, is_chat_model(self.context.model))
        return super().fingerprint | {"form": self.form, "prompts": prompts}


class ChainEditor(SteppingEditor):
    """Base class of the editors that prompt for a chain of thought."""

    shipped: ClassVar[str] = DEMONSTRATIONS
    forms: ClassVar[tuple[str, str]] = ("thoughts", "steps")
    reply_tokens: ClassVar[int] = THOUGHT_TOKENS
    prompt_id = staticmethod(chain_prompt_id)

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> RagContext:
        """The context with the form and the demonstrations."""
        return CotContext(**self.common_fields(retriever), form=self.form, demonstrations=self.demonstrations)


class Cot(ChainEditor):
    """Retrieves new facts, thinks under them, answers."""

    name: ClassVar[str] = "cot"
    schema: ClassVar[type[Any]] = CotSettings
    graph: ClassVar[str] = "cot"


class InputAug(ChainEditor):
    """Puts all new facts before every probe, without retrieval (ReCoE's input augmentation)."""

    name: ClassVar[str] = "input_aug"
    schema: ClassVar[type[Any]] = InputAugSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.app = GRAPHS.load("cot" if self.settings.chain else "rag")()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `cot` where the model thinks; there is no retriever."""
        fields = super().fingerprint | {"retriever": "all"}
        return fields if self.settings.chain else {k: v for k, v in fields.items() if k not in ("form", "prompts")}

    def view_retriever(self, view: Corpus, edits: Sequence[Edit]) -> Retriever:
        """All entries of the applied edits, in the order of the edits."""
        return AllEntries(view, [edit.id for edit in edits])

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> RagContext:
        """The context with room for all facts."""
        if self.settings.chain:
            return super().graph_context(retriever, edits)
        return RagContext(**self.common_fields(retriever))

    def common_fields(self, retriever: Retriever) -> dict[str, Any]:
        """The fields of every context, with `k` facts shown."""
        entries = len(retriever.entries) if isinstance(retriever, AllEntries) else 1
        return super().common_fields(retriever) | {"k": self.settings.facts or max(entries, 1)}


class AllEntries:
    """A retriever that returns all entries for every query, or the newest k; `order` has edits' ids, oldest first."""

    def __init__(self, corpus: Corpus, order: Sequence[str]) -> None:
        places = {edit_id: place for place, edit_id in enumerate(order)}
        self.entries = sorted(corpus.entries(), key=lambda entry: places.get(entry.edit_id, -1))

    def search(self, query: str, k: int) -> list[Hit]:
        """The last k entries, oldest first; all score the same."""
        return [Hit(entry=entry, score=0.0) for entry in self.entries[-k:]] if k > 0 else []
