"""CRAG (Yan et al. 2024): what is retrieved is judged before it is used."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from emend.agents.relevance import Evaluator, ModelEvaluator, ScopeEvaluator
from emend.editors.base import Materials
from emend.editors.remembering import RagSettings, Remembering
from emend.editors.scoping import scope_for
from emend.graphs.crag import CragContext
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever


@dataclass(frozen=True)
class CragSettings(RagSettings):
    """How what is retrieved is judged, refined and replaced.

    `evaluator` is `scope` (a classifier: that of the folder `scope`, or a small one over the benchmark's examples) or
    `model` (the model under test is asked). `upper` and `lower` are the thresholds of the actions, None for those that
    suit the evaluator. `strips` is `selection` (passages whole), `fixed_num` (50 words) or `excerption` (sentences);
    `top` how many strips are kept, 0 for the published number; `floor` the least score of a strip but the best,
    None for none.
    `search` is the wider search: the folder of a second memory, or `module:attribute`, see `load_search`; `embedding`
    is that memory's, where it is none of the usual ones.
    """

    k: Annotated[int, Field(ge=1)] = 5
    evaluator: Literal["scope", "model"] = "scope"
    scope: str = ""
    upper: float | None = None
    lower: float | None = None
    strips: Literal["selection", "fixed_num", "excerption"] = "selection"
    top: Annotated[int, Field(ge=0)] = 0
    floor: float | None = -0.5
    search: str = ""
    search_k: Annotated[int, Field(ge=1)] = 5
    embedding: str = ""


class Crag(Remembering):
    """Judges what it retrieves, refines what is good, and searches elsewhere for what is not."""

    name: ClassVar[str] = "crag"
    schema: ClassVar[type[Any]] = CragSettings
    graph: ClassVar[str] = "crag"

    def __init__(self, materials: Materials) -> None:
        super().__init__(materials)
        told: CragSettings = self.settings
        self.evaluator: Evaluator = (
            ModelEvaluator(materials.model)
            if told.evaluator == "model"
            else ScopeEvaluator(scope_for(materials, told.scope))
        )
        self.upper = self.evaluator.upper if told.upper is None else told.upper
        self.lower = self.evaluator.lower if told.lower is None else told.lower
        if self.lower > self.upper:
            raise BadSettings(f"crag.lower={self.lower} is above crag.upper={self.upper}: exchange them.")
        self.search = load_search(told.search, self.retriever, told.embedding) if told.search else None

    @property
    def fingerprint(self) -> dict[str, Any]:
        """As for `Rag`, with the evaluator and the thresholds in use."""
        limits = {"upper": round(self.upper, 6), "lower": round(self.lower, 6)}
        return super().fingerprint | {"evaluator": self.evaluator.identity} | limits

    def context(self, found: Retriever, edits: Sequence[Edit]) -> CragContext:
        """With the evaluator, how strips are made, and the wider search."""
        told: CragSettings = self.settings
        return CragContext(
            **self.shared(found),
            evaluator=self.evaluator,
            upper=self.upper,
            lower=self.lower,
            strips=told.strips,
            top=told.top,
            floor=float("-inf") if told.floor is None else told.floor,
            search=self.search,
            search_k=told.search_k,
        )


class Searching:
    """A function from a query to texts, or a LangChain tool, as a retriever."""

    def __init__(self, ask: Callable[[str], Any]) -> None:
        self._ask = ask

    def search(self, query: str, k: int) -> list[Hit]:
        """The first k texts, with falling scores; they belong to no edit."""
        found = self._ask(query)
        texts = [str(found)] if isinstance(found, str) else [str(text) for text in found]
        return [
            Hit(entry=Entry(id=content_id("found", text), edit_id="", text=text), score=1 / (1 + place))
            for place, text in enumerate(texts[:k])
            if text.strip()
        ]


def load_search(spec: str, strategy: Callable[[Corpus], Retriever] | None = None, embedding: str = "") -> Retriever:
    """What searches more widely: a second memory, or what a `module:attribute` names.

    Args:
        spec: the folder of a memory, or `module:attribute` of a retriever, of a class that makes one, of a LangChain
            tool or retriever, or of a function from a query to texts.
        strategy: how a second memory is searched.
        embedding: of a second memory; empty for lexical or auto, as it was made.

    Raises:
        BadSettings: there is no such thing, or it cannot search.
    """
    if strategy is not None and Path(spec).is_dir():
        return second_memory(Path(spec), strategy, embedding)
    module, colon, attribute = spec.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise BadSettings(f"crag.search='{spec}' cannot be loaded: {error}. Write module:attribute.") from error
    if isinstance(found, type):
        found = found()
    if hasattr(found, "search"):
        return found  # type: ignore[no-any-return]
    if hasattr(found, "invoke"):  # a LangChain tool or retriever
        return Searching(lambda query: _texts(found.invoke(query)))
    if callable(found):
        return Searching(found)
    raise BadSettings(
        f"crag.search='{spec}' cannot search: name a retriever, a tool, or a function from text to texts."
    )


def second_memory(folder: Path, strategy: Callable[[Corpus], Retriever], embedding: str = "") -> Retriever:
    """A strategy over all that a memory holds now; what it finds belongs to no edit that stands.

    Raises:
        BadSettings: it holds more than can be searched exactly. And what opening it raises.
    """
    from emend.memory.chroma import ChromaMemory
    from emend.memory.embed import LexicalEmbedding, load_embedding
    from emend.memory.folders import cache_folder
    from emend.memory.store import EXACT_LIMIT

    with ChromaMemory(folder, None, create=False) as stored:
        lexical = stored.identity == LexicalEmbedding().identity
    encoder = load_embedding(embedding or ("lexical" if lexical else "auto"), cache_folder("vectors"))
    with ChromaMemory(folder, encoder, create=False) as memory:
        if memory.count() > EXACT_LIMIT:
            raise BadSettings(
                f"crag.search={folder} holds {memory.count():,} entries, and at most {EXACT_LIMIT:,} are searched: "
                "name a module:attribute that keeps it open."
            )
        return strategy(memory.view())


def _texts(found: Any) -> Any:
    """Documents as their texts; anything else as it is."""
    return [getattr(one, "page_content", one) for one in found] if isinstance(found, list | tuple) else found
