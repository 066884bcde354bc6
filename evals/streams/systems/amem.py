"""A-Mem as a memory system, in which the model under test writes and links notes."""

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import Field

from emend.agents.structured import ask_structured
from emend.editors.hyperparameters import build_settings
from emend.evals.streams.system import (
    ContextItem,
    FolderSystem,
    StoreSize,
    SystemContext,
    item_of,
    load_package,
)
from emend.evals.streams.systems.langgraph_store import AsEmbeddings
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import ModelReplyError
from emend.memory.store.superseding import parse_time

# Maximum number of tokens of a local model's reply, with context and tags of five neighbours.
NEW_TOKENS = 1024


@dataclass(frozen=True)
class AMemSettings:
    """Settings of A-Mem.

    Attributes:
        k: number of notes to search for; their linked notes are recalled too.
    """

    k: Annotated[int, Field(ge=1)] = 10


class NoteAnalysis(FrozenModel):
    """Reply to A-Mem's question about a note."""

    keywords: list[str]
    context: str
    tags: list[str]


class NoteEvolution(FrozenModel):
    """Reply to A-Mem's question about a note and its nearest neighbours."""

    should_evolve: bool
    actions: list[str]
    suggested_connections: list[str]
    tags_to_update: list[str]
    new_context_neighborhood: list[str]
    new_tags_neighborhood: list[list[str]]


class AMem(FolderSystem):
    """A-Mem (Xu et al. 2025, "A-MEM: Agentic Memory for LLM Agents"); one Chroma folder per user.

    The package `a-mem` is the authors' code with a store on disk, maintained by others.

    Raises:
        BadSettings: there is no model.
    """

    def __init__(self, context: SystemContext) -> None:
        self.settings: AMemSettings = build_settings(AMemSettings, context.settings, "amem")
        self._controller = ModelController(context.require_model("amem"))
        super().__init__(context)
        self._embeddings = AsEmbeddings.of(context.embedding)
        self._systems: dict[str, Any] = {}

    def observe(self, turn: Turn) -> None:
        """Add the turn as a note, unless it is stored already.

        Raises:
            EmendError: a model call failed. A-Mem itself would ignore it; the turn is not stored.
        """
        system = self._system_of(turn.user)
        if not turn.text.strip() or system.retriever.get_by_id(turn.id):
            return
        date = parse_time(turn.date)
        time = f"{date:%Y%m%d%H%M}" if date else None
        # A-Mem prints the replies that it cannot parse
        with contextlib.redirect_stdout(sys.stderr):
            system.add_note(item_of(turn).text, time=time, id=turn.id)
        if error := self._controller.take_error():
            system.delete(turn.id)
            raise error

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the user's notes nearest to the question, each followed by its linked notes."""
        if not question.text.strip():
            return ()
        system = self._system_of(question.user)
        if not (count := system.retriever.count()):
            return ()
        ids: dict[str, None] = {}
        for hit in system.search(question.text, min(self.settings.k, count)):
            note = system.read(hit["id"])
            ids |= dict.fromkeys((hit["id"], *note.links))
        return [_item(note) for id in ids if (note := system.read(id))]

    def size(self) -> StoreSize:
        """Return the number of notes and the size of the folder in bytes."""
        return self._size(sum(system.retriever.count() for system in self._systems.values()))

    def close(self) -> None:
        """Close the stores."""
        for system in self._systems.values():
            system.retriever.client.close()
        super().close()

    def _system_of(self, user: str) -> Any:
        if user not in self._systems:
            folder = self._folder / content_id("user", user)
            self._systems[user] = _load(folder, self._controller, self._embeddings)
        return self._systems[user]


def _item(note: Any) -> ContextItem:
    """Return a note as a context item: its content, then what the model wrote about it."""
    context = "" if note.context == "General" else note.context
    written = {
        "context": context,
        "keywords": ", ".join(note.keywords),
        "tags": ", ".join(note.tags),
    }
    about = "; ".join(f"{name}: {text}" for name, text in written.items() if text)
    time = str(note.timestamp)
    date = f"{time[:4]}-{time[4:6]}-{time[6:8]}"
    return ContextItem(f"{note.content} ({about})" if about else note.content, note.id, date)


class ModelController:
    """Adapter of a chat model to A-Mem's LLM controller."""

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model
        self._error: Exception | None = None

    def get_completion(
        self, prompt: str, response_format: dict[str, Any], temperature: float = 0.0
    ) -> str:
        """Return the reply in JSON, sampled as the settings of the model under test say.

        Raises:
            EmendError: the call failed; A-Mem continues without a reply.
        """
        fields = response_format["json_schema"]["schema"]["properties"]
        schema: type[FrozenModel] = NoteEvolution if "should_evolve" in fields else NoteAnalysis
        messages = [SystemMessage("You must respond with a JSON object."), HumanMessage(prompt)]
        try:
            return ask_structured(
                self._model, messages, schema, new_tokens=NEW_TOKENS
            ).value.model_dump_json()
        except ModelReplyError:
            raise
        except Exception as error:
            self._error = error
            raise

    def take_error(self) -> Exception | None:
        """Return the last error of a call, except for unreadable replies, and clear it."""
        error, self._error = self._error, None
        return error


class ChromaEmbedding:
    """Adapter of an embedding to Chroma's embedding function."""

    def __init__(self, embeddings: AsEmbeddings) -> None:
        self._embeddings = embeddings

    def __call__(self, input: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        return self._embeddings.embed_documents(input)

    def embed_query(self, input: list[str]) -> list[list[float]]:
        """Return a vector for each query."""
        return [self._embeddings.embed_query(text) for text in input]

    def name(self) -> str:
        """Return the name of the embedding, which Chroma does not store."""
        return "emend"

    def is_legacy(self) -> bool:
        """Return True, so that Chroma does not store the embedding's configuration."""
        return True


def _load(folder: Path, controller: ModelController, embeddings: AsEmbeddings) -> Any:
    """Return A-Mem with its store in a folder.

    Raises:
        MissingExtra: A-Mem is not installed.
    """
    os.environ["ANONYMIZED_TELEMETRY"] = "False"  # Chroma would send usage data to a server
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # LiteLLM would download a price list
    retrievers = load_package("amem", "a-mem", "agentic_memory.retrievers")
    memory_system = load_package("amem", "a-mem", "agentic_memory.memory_system")
    retrievers.SentenceTransformerEmbeddingFunction = lambda model_name: ChromaEmbedding(embeddings)
    system = memory_system.AgenticMemorySystem(api_key="none", storage_path=str(folder))
    system.llm_controller.llm = controller
    return system
