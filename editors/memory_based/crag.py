"""CRAG (Yan et al. 2024): what is retrieved is judged before it is used."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from emend.agents.roles.relevance import Evaluator, ModelEvaluator, ScopeEvaluator
from emend.editors.base import Materials
from emend.editors.memory_based.rag import RagSettings, Remembering
from emend.editors.memory_based.scope import scope_for
from emend.graphs.crag import CragContext
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadData, BadSettings, EmendError, MemoryUnavailable
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever

LISTS = ("results", "documents")
"""Under which name a search's reply has what it found."""
TEXTS = ("page_content", "content", "text", "snippet")
"""Under which name what was found has its text."""
WORDLESS = frozenset({"audio", "file", "image", "image_url", "reasoning", "video"})
"""Types of content blocks that say nothing about the question."""


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
        """As for `Rag`, with the evaluator, the thresholds in use, and what a second memory holds."""
        limits = {"upper": round(self.upper, 6), "lower": round(self.lower, 6)}
        second = {"second_memory": self.search.content} if isinstance(self.search, SecondMemory) else {}
        return super().fingerprint | {"evaluator": self.evaluator.identity} | limits | second

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
    """Whatever can be asked, such as a function from a query to texts, a LangChain tool or a client, as a retriever.

    Args:
        ask: called with the query and how much is wanted.
        name: what `crag.search` calls it.
    """

    def __init__(self, ask: Callable[[str, int], Any], name: str) -> None:
        self._ask, self._name = ask, name

    def search(self, query: str, k: int) -> list[Hit]:
        """The first k passages, with falling scores; they belong to no edit. Hits of a retriever stay as they are.

        Raises:
            BadData: what it gave cannot be read.
            MemoryUnavailable: for whatever else than Emend's errors it raises.
        """
        try:
            found = self._ask(query, k)
            if isinstance(found, list | tuple) and all(isinstance(one, Hit) for one in found):
                return list(found)
            texts = list(islice(self._passages(found), k))
        except EmendError:
            raise
        except Exception as error:
            raise MemoryUnavailable(
                f"crag.search='{self._name}' fails on {query[:60]!r} ({type(error).__name__}: {error}): mend it, or "
                "leave crag.search out."
            ) from error
        return [
            Hit(entry=Entry(id=content_id("found", text), edit_id="", text=text), score=1 / (1 + place))
            for place, text in enumerate(texts)
        ]

    def _passages(self, found: Any) -> Iterator[str]:
        """The texts in what was found, however they are wrapped; nothing and blank ones are none."""
        if found is None or isinstance(found, str):
            if found and found.strip():
                yield str(found)
            return
        inner = next((told for name in (*LISTS, *TEXTS) if (told := _under(found, name))), None)
        if inner is not None:
            yield from self._passages(inner)
        elif isinstance(found, Mapping):
            if found and not {*LISTS, *TEXTS} & found.keys() and found.get("type") not in WORDLESS:
                raise self._unreadable(f"a dict with {', '.join(map(repr, found))}"[:100])
        elif any(hasattr(found, name) for name in (*LISTS, *TEXTS)):
            return
        elif isinstance(found, Iterable) and not isinstance(found, bytes | bytearray | BaseModel):
            for one in found:  # a BaseModel gives the names of its fields
                yield from self._passages(one)
        else:
            raise self._unreadable(f"{type(found).__name__} {found!r}"[:100])

    def _unreadable(self, what: str) -> BadData:
        return BadData(
            f"crag.search='{self._name}' gave {what}, and no passage can be read from that: let it return texts, "
            f"LangChain documents, or dicts with {', '.join(map(repr, TEXTS[1:]))} or {TEXTS[0]!r}, by themselves or "
            f"in a list, also under {' or '.join(map(repr, LISTS))}."
        )


def _under(found: Any, name: str) -> Any:
    """What a dict or an object has under that name; a method is nothing."""
    told = found.get(name) if isinstance(found, Mapping) else getattr(found, name, None)
    return None if callable(told) and not isinstance(told, str) else told


@dataclass(frozen=True)
class SecondMemory:
    """A strategy over another memory than that of the edits; `content` is a digest of what it can find."""

    retriever: Retriever
    content: str

    def search(self, query: str, k: int) -> list[Hit]:
        """What the strategy finds."""
        return self.retriever.search(query, k)


def load_search(spec: str, strategy: Callable[[Corpus], Retriever] | None = None, embedding: str = "") -> Retriever:
    """What searches more widely: a second memory, or what a `module:attribute` names.

    Args:
        spec: the folder of a memory, or `module:attribute` of a retriever, of a class that makes one, of a LangChain
            tool or retriever, or of a function from a query to texts, documents, or dicts with a text.
        strategy: how a second memory is searched.
        embedding: of a second memory; empty for lexical or auto, as it was made.

    Raises:
        BadSettings: there is no such thing, it cannot be loaded, or it cannot search.
    """
    if strategy is not None and Path(spec).is_dir():
        return second_memory(Path(spec), strategy, embedding)
    module, colon, attribute = spec.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute) if colon else None
        if isinstance(found, type):
            found = found()
    except EmendError:
        raise
    except Exception as error:  # a module or class of the user's, and such as ask for a key
        told = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        raise BadSettings(f"crag.search='{spec}' cannot be loaded: {told}. Write module:attribute.") from error
    if hasattr(found, "search"):
        return Searching(found.search, spec)
    if hasattr(found, "invoke"):  # a LangChain tool or retriever
        return Searching(lambda query, k: found.invoke(query), spec)
    if callable(found):
        return Searching(lambda query, k: found(query), spec)
    raise BadSettings(
        f"crag.search='{spec}' cannot search: name a retriever, a tool, or a function from text to texts."
    )


def second_memory(folder: Path, strategy: Callable[[Corpus], Retriever], embedding: str = "") -> SecondMemory:
    """A strategy over all that a memory holds now; what it finds belongs to no edit that stands.

    Raises:
        BadSettings: it holds more than can be searched exactly. And what opening it raises.
    """
    from emend.memory.embeddings.embed import LexicalEmbedding, load_embedding
    from emend.memory.paths import cache_folder
    from emend.memory.store.chroma import ChromaMemory
    from emend.memory.store.memory import EXACT_LIMIT

    with ChromaMemory(folder, None, create=False) as stored:
        lexical = stored.identity == LexicalEmbedding().identity
    encoder = load_embedding(embedding or ("lexical" if lexical else "auto"), cache_folder("vectors"))
    with ChromaMemory(folder, encoder, create=False) as memory:
        if memory.count() > EXACT_LIMIT:
            raise BadSettings(
                f"crag.search={folder} holds {memory.count():,} entries, and at most {EXACT_LIMIT:,} are searched: "
                "name a module:attribute that keeps it open."
            )
        view = memory.view()
        held = sorted((entry.id, entry.text, entry.time or "") for entry in view.entries())
        return SecondMemory(strategy(view), content_id("second memory", encoder.identity, held))
