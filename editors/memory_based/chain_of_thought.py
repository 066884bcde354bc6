"""Chain of thought over retrieved facts, or over all facts at once (input augmentation)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from langchain_core.language_models import BaseChatModel
from pydantic import Field

from emend.agents.roles.chain import (
    DEMONSTRATIONS,
    STEP_DEMONSTRATIONS,
    THOUGHT_TOKENS,
    chain_prompt_id,
)
from emend.agents.roles.completion import has_room
from emend.agents.scoring import LimitedModel, is_chat_model
from emend.editors.base import EditorContext
from emend.editors.hyperparameters import read_text
from emend.editors.memory_based.rag import MemoryEditor, RagSettings
from emend.graphs.cot import CotContext
from emend.graphs.decomposition.state import HOPS, HOPS_LIMIT, HopSource
from emend.graphs.rag import RagContext
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit
from emend.memory.retrieval.base import Corpus, Hit, Retriever


@dataclass(frozen=True)
class ChainSettings:
    """Settings of the chain of thought.

    Attributes:
        form: `thoughts` or `steps`; `auto` is `steps` for a local model whose context window is too
            small for the demonstrations, otherwise `thoughts`.
        steps: maximum number of steps in the form `steps`.
        hops_from: what decides the number of steps: the `model`, or the `data`, by the question's
            tag `hops`.
        demonstrations: a text file with demonstrations that replace the shipped ones.
    """

    form: Literal["auto", "thoughts", "steps"] = "auto"
    steps: Annotated[int, Field(ge=1, le=HOPS_LIMIT)] = HOPS
    hops_from: HopSource = "model"
    demonstrations: str = ""


@dataclass(frozen=True)
class CotSettings(ChainSettings, RagSettings):
    """Settings of retrieval and of the chain of thought."""


@dataclass(frozen=True)
class InputAugSettings(ChainSettings):
    """Settings of input augmentation.

    Attributes:
        chain: whether the model thinks before it answers.
        facts: maximum number of facts shown; 0 for all. If they exceed a local model's context
            window, the prompt is cut on the left, the oldest facts first; records state the number
            of cut tokens.
    """

    chain: bool = False
    facts: Annotated[int, Field(ge=0)] = 0


class SteppingEditor(MemoryEditor):
    """Base class of editors that let the model think in steps or thoughts."""

    shipped: ClassVar[str]
    """The demonstrations that the setting `demonstrations` may replace."""
    forms: ClassVar[tuple[str, str]]
    """The form with demonstrations, and the form for models whose window is too small for them."""
    reply_tokens: ClassVar[int] = 0
    """Number of tokens that the window must also have room for, for the reply."""
    prompt_id: ClassVar[Any]
    """Function from form and demonstrations to a prompt id."""

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
        """Return the form with demonstrations, or the other one if the window is too small."""
        room = (self.demonstrations, self.reply_tokens)
        return self.forms[isinstance(model, LimitedModel) and not has_room(model, *room)]

    @property
    def shows_demonstrations(self) -> bool:
        """True if the form in use has demonstrations."""
        return bool(self.form == self.forms[0])

    @property
    def shown_demonstrations(self) -> str:
        """The demonstrations of the form in use; empty if it has none."""
        return self.demonstrations if self.shows_demonstrations else ""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `Rag` with the form in use and its prompt id."""
        demonstrations = self.shown_demonstrations
        prompts = self.prompt_id(self.form, demonstrations, is_chat_model(self.context.model))
        return super().fingerprint | {"form": self.form, "prompts": prompts}


class ChainEditor(SteppingEditor):
    """Base class of the editors that prompt for a chain of thought."""

    shipped: ClassVar[str] = DEMONSTRATIONS
    forms: ClassVar[tuple[str, str]] = ("thoughts", "steps")
    reply_tokens: ClassVar[int] = THOUGHT_TOKENS
    prompt_id = staticmethod(chain_prompt_id)

    @property
    def shown_demonstrations(self) -> str:
        """The demonstrations in use; those for steps only if a chat model's window has room."""
        if self.shows_demonstrations or self.settings.demonstrations:
            return self.demonstrations
        model = self.context.model
        shows = is_chat_model(model) and has_room(model, STEP_DEMONSTRATIONS, THOUGHT_TOKENS)
        return STEP_DEMONSTRATIONS if shows else ""

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> RagContext:
        """Return the graph's context with the form and its demonstrations."""
        return CotContext(
            **self.common_fields(retriever),
            form=self.form,
            steps=self.settings.steps,
            hops_from=self.settings.hops_from,
            demonstrations=self.demonstrations,
            step_demonstrations=self.shown_demonstrations,
        )


class Cot(ChainEditor):
    """Chain-of-thought editor: the model reasons over retrieved facts before it answers."""

    name: ClassVar[str] = "cot"
    schema: ClassVar[type[Any]] = CotSettings
    graph: ClassVar[str] = "cot"


class InputAug(ChainEditor):
    """Input augmentation (ReCoE): all new facts are put before every probe, without retrieval."""

    name: ClassVar[str] = "input_aug"
    schema: ClassVar[type[Any]] = InputAugSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.app = GRAPHS.load("cot" if self.settings.chain else "rag")()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint of `cot` if the model thinks, otherwise of `rag`, without a retriever."""
        fields = super().fingerprint | {"retriever": "all"}
        if self.settings.chain:
            return fields
        return {name: value for name, value in fields.items() if name not in ("form", "prompts")}

    def view_retriever(self, view: Corpus, edits: Sequence[Edit]) -> Retriever:
        """Return a retriever of all entries of the applied edits, in the order of the edits."""
        return AllEntries(view, [edit.id for edit in edits])

    def graph_context(self, retriever: Retriever, edits: Sequence[Edit]) -> RagContext:
        """Return the graph's context; its `k` covers all facts."""
        if self.settings.chain:
            return super().graph_context(retriever, edits)
        return RagContext(**self.common_fields(retriever))

    def common_fields(self, retriever: Retriever) -> dict[str, Any]:
        """Return the fields of every context, with `k` set to the number of facts shown."""
        entries = len(retriever.entries) if isinstance(retriever, AllEntries) else 1
        return super().common_fields(retriever) | {"k": self.settings.facts or max(entries, 1)}


class AllEntries:
    """A retriever that returns the newest k entries for every query.

    `order` holds edit ids, oldest first.
    """

    def __init__(self, corpus: Corpus, order: Sequence[str]) -> None:
        places = {edit_id: place for place, edit_id in enumerate(order)}
        self.entries = sorted(corpus.entries(), key=lambda entry: places.get(entry.edit_id, -1))

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the last k entries, oldest first, with equal scores."""
        return [Hit(entry=entry, score=0.0) for entry in self.entries[-k:]] if k > 0 else []
