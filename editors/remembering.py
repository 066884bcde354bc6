"""Editors that leave the model alone and remember: the memory keeps the edits, a graph finds and uses them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from emend.agents.answer import prompt_id
from emend.editors.answering import Respond, answer_from, lend
from emend.editors.base import Answerer, Materials, MemoryLike
from emend.editors.hyperparameters import build_settings
from emend.graphs.ike import IkeContext, Pool
from emend.graphs.ike import build as build_ike
from emend.graphs.rag import RagContext
from emend.graphs.rag import build as build_rag
from emend.graphs.running import Graph, run_graph
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.base import Corpus, Hit, Retriever


@dataclass(frozen=True)
class RagSettings:
    """How many entries are put before a probe."""

    k: Annotated[int, Field(ge=1)] = 1


@dataclass(frozen=True)
class IkeSettings:
    """How many entries, and how many solved examples; the paper shows 32, more than small windows hold."""

    k: Annotated[int, Field(ge=1)] = 1
    demonstrations: Annotated[int, Field(ge=0)] = 6


class Rag:
    """Retrieves new facts for each probe from a view of the memory that holds the standing edits alone."""

    name: ClassVar[str] = "rag"
    needs_weights: ClassVar[bool] = False

    def __init__(self, materials: Materials) -> None:
        self.materials = materials
        self.settings = build_settings(RagSettings, materials.settings, self.name)
        self.memory, self.retriever = _memory_of(materials, self.name)
        self.app = build_rag()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Settings, retrieval strategy, graph, wording and the prompt's id."""
        return _fingerprint(self.name, self.settings, self.materials)

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """The edits are added to the memory; the view of them ends with the `with`, so there is nothing to undo."""
        model, wording = self.materials.model, self.materials.wording
        found = _remember(self.memory, self.retriever, edits)
        context = RagContext(model=model, retriever=found, k=self.settings.k, wording=wording)
        yield lend(model, _through(self.app, context))


class Ike:
    """As `Rag`, with solved examples that show when to use a new fact and when to leave it."""

    name: ClassVar[str] = "ike"
    needs_weights: ClassVar[bool] = False

    def __init__(self, materials: Materials) -> None:
        self.materials = materials
        self.settings = build_settings(IkeSettings, materials.settings, self.name)
        self.memory, self.retriever = _memory_of(materials, self.name)
        self.pool = Pool(materials.demonstrations)
        self.app = build_ike()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """As for `Rag`, with the examples' hash and the seed of their order."""
        shown = content_id("demonstrations", self.pool.examples)
        return _fingerprint(self.name, self.settings, self.materials) | {
            "examples": shown,
            "similarity": self.pool.embedding.identity,
            "seed": self.materials.seed,
        }

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """As for `Rag`."""
        context = IkeContext(
            model=self.materials.model,
            retriever=_remember(self.memory, self.retriever, edits),
            k=self.settings.k,
            wording=self.materials.wording,
            pool=self.pool,
            demonstrations=self.settings.demonstrations,
            seed=self.materials.seed,
            standing=frozenset(edit.text for edit in edits),
        )
        yield lend(self.materials.model, _through(self.app, context))


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


def _remember(memory: MemoryLike, retriever: Callable[[Corpus], Retriever], edits: Sequence[Edit]) -> Retriever:
    if not edits:
        return Nothing()
    memory.add(edits)
    return retriever(memory.view([edit.id for edit in edits]))


def _through(app: Graph, context: RagContext) -> Respond:
    def respond(probe: Probe, targets: Sequence[str] | None) -> Answer:
        state: dict[str, Any] = {"probe": probe.model_dump(mode="json")}
        if targets is not None:
            state["targets"] = list(targets)
        final, steps = run_graph(app, state, context)
        return answer_from(final, steps)

    return respond


def _fingerprint(editor: str, settings: RagSettings | IkeSettings, materials: Materials) -> dict[str, Any]:
    strategy: Any = materials.retriever
    return {
        "editor": editor,
        "graph": editor,
        "settings": asdict(settings),
        "retriever": f"{strategy.__module__}:{getattr(strategy, '__qualname__', type(strategy).__qualname__)}",
        "wording": materials.wording,
        "prompt": prompt_id(materials.wording),
    }
