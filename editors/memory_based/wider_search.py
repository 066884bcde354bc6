"""CRAG's wider search: a second memory, or a user's retriever, tool or function."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from emend.memory.edit import content_id
from emend.memory.errors import BadData, BadSettings, EmendError, MemoryUnavailable
from emend.memory.registry import load_attribute
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever

# Keys or attributes that hold the list of results in a search's reply.
LISTS = ("results", "documents")
# Keys or attributes that hold the text of a result.
TEXTS = ("page_content", "content", "text", "snippet")
# Types of content blocks without text.
WORDLESS = frozenset({"audio", "file", "image", "image_url", "reasoning", "video"})


class SearchAdapter:
    """A retriever that wraps a function of a query and a number of passages.

    Args:
        ask: the function.
        name: the value of the setting `crag.search`, for messages.
        content: digest of a second memory's entries; empty for other searches.
    """

    def __init__(self, ask: Callable[[str, int], Any], name: str, content: str = "") -> None:
        self._ask, self._name, self.content = ask, name, content

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the first k passages, with decreasing scores and no edit id.

        The hits of a retriever are returned unchanged.

        Raises:
            BadData: the result cannot be read.
            MemoryUnavailable: the search raised an error that is not one of Emend's.
        """
        try:
            result = self._ask(query, k)
            if isinstance(result, list | tuple) and all(isinstance(hit, Hit) for hit in result):
                return list(result)
            texts = list(islice(self._passages(result), k))
        except EmendError:
            raise
        except Exception as error:
            raise MemoryUnavailable(
                f"crag.search='{self._name}' fails on {query[:60]!r} ({type(error).__name__}: "
                f"{error}): fix it, or leave crag.search out."
            ) from error
        return [
            Hit(
                entry=Entry(id=content_id("found", text), edit_id="", text=text),
                score=1 / (1 + place),
            )
            for place, text in enumerate(texts)
        ]

    def _passages(self, result: Any) -> Iterator[str]:
        """Yield the texts in a result of any supported nesting; skip None and blank texts."""
        if result is None or isinstance(result, str):
            if result and result.strip():
                yield str(result)
            return
        inner = next((value for name in (*LISTS, *TEXTS) if (value := _field(result, name))), None)
        if inner is not None:
            yield from self._passages(inner)
        elif isinstance(result, Mapping):
            if (
                result
                and not {*LISTS, *TEXTS} & result.keys()
                and result.get("type") not in WORDLESS
            ):
                raise self._unreadable(f"a dict with {', '.join(map(repr, result))}"[:100])
        elif any(hasattr(result, name) for name in (*LISTS, *TEXTS)):
            return
        elif isinstance(result, Iterable) and not isinstance(result, bytes | bytearray | BaseModel):
            for item in result:  # a BaseModel would iterate over its field names
                yield from self._passages(item)
        else:
            raise self._unreadable(f"{type(result).__name__} {result!r}"[:100])

    def _unreadable(self, what: str) -> BadData:
        return BadData(
            f"crag.search='{self._name}' returned {what}, which contains no readable passage: "
            f"return texts, LangChain documents, or dicts with {', '.join(map(repr, TEXTS[1:]))} "
            f"or {TEXTS[0]!r}, by themselves or in a list, also under "
            f"{' or '.join(map(repr, LISTS))}."
        )


def _field(result: Any, name: str) -> Any:
    """Return a dict's value or an object's attribute with this name; None for a method."""
    value = result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
    return None if callable(value) and not isinstance(value, str) else value


def load_search(
    spec: str, strategy: Callable[[Corpus], Retriever] | None = None, embedding: str = ""
) -> SearchAdapter:
    """Return the wider search in a folder (a second memory), or named by `module:attribute`.

    The object may be a retriever, a class that makes one, a LangChain tool or retriever, or a
    function from a query to texts, documents, or dicts with a text. `strategy` makes the retriever
    over a second memory; `embedding` is the embedding the memory was built with, empty for lexical
    or auto.

    Raises:
        BadSettings: the search does not exist, cannot be loaded, or cannot search.
    """
    if strategy is not None and Path(spec).is_dir():
        return second_memory(Path(spec), strategy, embedding)
    interfaces = ("search",), ("invoke",), ("__iter__",)  # the last one is the result of a function
    try:
        target: Any = load_attribute(spec, "crag.search", *interfaces) if ":" in spec else None
        if isinstance(target, type):
            target = target()
    except EmendError:
        raise
    except Exception as error:
        # a user's module or class may raise anything, for example without an API key
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ImportError | AttributeError):
            reason = str(error)
        raise BadSettings(
            f"crag.search='{spec}' cannot be loaded: {reason}. Write module:attribute."
        ) from error
    if hasattr(target, "search"):
        return SearchAdapter(target.search, spec)
    if hasattr(target, "invoke"):  # a LangChain tool or retriever
        return SearchAdapter(lambda query, k: target.invoke(query), spec)
    if callable(target):
        return SearchAdapter(lambda query, k: target(query), spec)
    raise BadSettings(
        f"crag.search='{spec}' cannot search: name a retriever, a tool, or a function from text to "
        "texts."
    )


def second_memory(
    folder: Path, strategy: Callable[[Corpus], Retriever], embedding: str
) -> SearchAdapter:
    """Return a retriever over all current entries of a memory; none belongs to an applied edit.

    Raises:
        BadSettings: the memory holds more entries than can be searched exactly.
    """
    from emend.memory.embeddings.embed import LexicalEmbedding, load_embedding
    from emend.memory.paths import cache_folder
    from emend.memory.store.chroma import EXACT_LIMIT, ChromaMemory

    with ChromaMemory(folder, None, create=False) as stored:
        lexical = stored.identity == LexicalEmbedding().identity
    encoder = load_embedding(
        embedding or ("lexical" if lexical else "auto"), cache_folder("vectors")
    )
    with ChromaMemory(folder, encoder, create=False) as memory:
        if memory.count() > EXACT_LIMIT:
            raise BadSettings(
                f"crag.search={folder} has {memory.count():,} entries, but at most "
                f"{EXACT_LIMIT:,} are searched: name a module:attribute that searches it."
            )
        view = memory.view()
        entries = sorted((entry.id, entry.text, entry.time or "") for entry in view.entries())
        content = content_id("second memory", encoder.identity, entries)
        return SearchAdapter(strategy(view).search, str(folder), content)
