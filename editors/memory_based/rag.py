"""Editors that leave the model alone and remember: the memory keeps the edits, a graph finds and uses them."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from langchain_core.language_models import BaseChatModel
from pydantic import Field

from emend.agents.roles.answer import prompt_id
from emend.editors.answering import lend, through
from emend.editors.base import Answerer, Materials, MemoryLike
from emend.editors.hyperparameters import build_settings
from emend.editors.memory_based.ike import OfMemory, examples_of
from emend.graphs.ike import IkeContext, Pool
from emend.graphs.rag import RagContext
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Hit, Retriever


@dataclass(frozen=True)
class RagSettings:
    """How many entries are put before a probe."""

    k: Annotated[int, Field(ge=1)] = 1


class Remembering:
    """What these editors share: a view of the memory that holds the standing edits alone, and a graph that uses it.

    A subclass names its graph, its settings and, where it has one of its own, the context that the graph runs in.
    """

    name: ClassVar[str]
    needs_weights: ClassVar[bool] = False
    reads_memory: ClassVar[bool] = True
    schema: ClassVar[type[Any]] = RagSettings
    graph: ClassVar[str] = "rag"

    def __init__(self, materials: Materials) -> None:
        self.materials = materials
        self.settings: Any = build_settings(self.schema, materials.settings, self.name)
        self.memory, self.retriever = _memory_of(materials, self.name)
        self.app = GRAPHS.load(self.graph)()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Settings, retrieval strategy, graph, wording and the prompt's id."""
        return {
            "editor": self.name,
            "graph": self.app.name,
            "settings": asdict(self.settings),
            "retriever": named(self.materials.retriever),
            "wording": self.materials.wording,
            "prompt": prompt_id(self.materials.wording),
        }

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """The edits are added to the memory; the view of them ends with the `with`, so there is nothing to undo."""
        context = self.context(self.found(edits), edits)
        yield lend(self.speaker, through(self.app, context))

    @property
    def speaker(self) -> BaseChatModel:
        """The model whose gift of probabilities the answerer has."""
        return self.materials.model

    def found(self, edits: Sequence[Edit]) -> Retriever:
        """The strategy over these edits alone, which are added to the memory."""
        if not edits:
            return Nothing()
        self.memory.add(edits)
        return self.retriever(self.memory.view([edit.id for edit in edits]))

    def context(self, found: Retriever, edits: Sequence[Edit]) -> RagContext:
        """What the graph's nodes work with while the edits stand."""
        return RagContext(**self.shared(found))

    def shared(self, found: Retriever) -> dict[str, Any]:
        """The fields of every context."""
        more = {"k": self.settings.k} if hasattr(self.settings, "k") else {}
        return {"model": self.materials.model, "retriever": found, "wording": self.materials.wording} | more


class Rag(Remembering):
    """Retrieves new facts for each probe."""

    name: ClassVar[str] = "rag"


@dataclass(frozen=True)
class IkeSettings(RagSettings):
    """How many entries, and how many solved examples; the paper shows 32, more than small windows hold.

    `original` appends the tested edit, with its answer, as a last example of copying, as the authors' code does: the
    prompt of the edit itself then holds its own answer. `pool` names a file of JSON lines to choose from in place of
    the benchmark's examples (see `editors.ike`).
    """

    demonstrations: Annotated[int, Field(ge=0)] = 6
    original: bool = False
    pool: str = ""


class Ike(Remembering):
    """As `Rag`, with solved examples that show when to use a new fact and when to leave it."""

    name: ClassVar[str] = "ike"
    schema: ClassVar[type[Any]] = IkeSettings
    graph: ClassVar[str] = "ike"

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        self.pool = Pool(examples_of(materials, self.settings.pool), OfMemory(self.memory))
        self._hash = content_id("demonstrations", self.pool.examples)
        self._told, self._telling = False, threading.Lock()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """As for `Rag`, with the examples' number and hash, what makes them similar, and the seed of their order."""
        return super().fingerprint | {
            "examples": self._hash,
            "examples at hand": len(self.pool.examples),
            "similarity": self.pool.embedding.identity,
            "seed": self.materials.seed,
        }

    def context(self, found: Retriever, edits: Sequence[Edit]) -> IkeContext:
        """With the pool, and what may not be shown of it."""
        context = IkeContext(
            **self.shared(found),
            pool=self.pool,
            demonstrations=self.settings.demonstrations,
            seed=self.materials.seed,
            standing=frozenset(edit.text for edit in edits),
            original={edit.id: edit for edit in edits} if self.settings.original else {},
        )
        self._tell_of_few(context.left)
        return context

    def _tell_of_few(self, left: int) -> None:
        """Say once that fewer examples can be shown than were asked for."""
        asked, pool = self.settings.demonstrations, len(self.pool.examples)
        with self._telling:
            told, self._told = self._told, self._told or left < asked
        if left < asked and not told:
            why = f"{pool} are at hand" if left == pool else f"of {pool} at hand the others are of edits that stand"
            logging.getLogger(__name__).warning(
                "editor 'ike' is to show %d demonstrations and has %d to choose from (%s): name a file of more with "
                "--set ike.pool=FILE, or ask for fewer with --set ike.demonstrations=%d.",
                *(asked, left, why, left),
            )


class Nothing:
    """The retriever when no edit stands: strategies need not be able to index an empty view."""

    def search(self, query: str, k: int) -> list[Hit]:
        """No hits."""
        return []


def _memory_of(materials: Materials, editor: str) -> tuple[MemoryLike, Callable[[Corpus], Retriever]]:
    if materials.memory is None or materials.retriever is None:
        missing = "memory" if materials.memory is None else "retriever"
        raise BadSettings(
            f"editor '{editor}' remembers, and Materials.{missing} is None: give it a memory, e.g. ChromaMemory, and "
            "a retrieval strategy, e.g. RETRIEVERS.load('dense')."
        )
    return materials.memory, materials.retriever


def named(strategy: Any) -> str:
    """Module and name of a retrieval strategy."""
    return f"{strategy.__module__}:{getattr(strategy, '__qualname__', type(strategy).__qualname__)}"
