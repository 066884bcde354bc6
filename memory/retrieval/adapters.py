"""Adapters that turn LangChain and LlamaIndex retrievers, vector stores and functions into
retrieval strategies.

Retrievers are recognised by their methods, so neither library is imported here.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever

# Names of the first parameter of a search function; that of a factory is the corpus.
QUERY = "query"
SIGNATURES = (
    "a function that searches has the parameters (query), (query, corpus) or (query, corpus, k), "
    "with these names; one that makes a retriever has (corpus), and settings with default values."
)
# A document, node, entry, id or text, and its score where the retriever gives one.
Result = tuple[Any, float | None]


class AdaptedRetriever:
    """A retriever of another library whose results become hits; results without an entry in scope
    are dropped.

    A result is matched by `id` in its metadata, then its own id, then its text. Scores are the
    retriever's own if all results have one, else 1 / rank.

    Args:
        corpus: the entries to search.
        ask: returns the results for a query and a maximum number, best first.
    """

    def __init__(self, corpus: Corpus, ask: Callable[[str, int], Sequence[Result]]) -> None:
        self._ask = ask
        self._by_id = {entry.id: entry for entry in corpus.entries()}
        self._by_text: dict[str, list[Entry]] = {}
        for entry in corpus.entries():
            self._by_text.setdefault(entry.text, []).append(entry)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits in the retriever's order; empty if no result has an entry in scope."""
        if not self._by_id or k <= 0:
            return []
        scores: dict[str, float | None] = {}
        for result, score in self._ask(query, k):
            entry = next((entry for entry in self._entries(result) if entry.id not in scores), None)
            if entry is not None:
                scores[entry.id] = score
        first = list(scores.items())[:k]
        scored = all(score is not None for _, score in first)
        return [
            Hit(entry=self._by_id[name], score=score if scored and score is not None else 1 / rank)
            for rank, (name, score) in enumerate(first, 1)
        ]

    def check_documents(self, name: str) -> None:
        """Search for an entry's own text, and check that the results are entries of the memory.

        Raises:
            BadSettings: the retriever returns results, but none is an entry: it searches other
                documents.
        """
        entry = next(iter(self._by_id.values()), None)
        results = self._ask(entry.text, 10) if entry is not None else ()
        if results and not any(self._entries(result) for result, _ in results):
            raise BadSettings(
                f"retriever '{name}' does not search the memory's entries: none of its "
                f"{len(results)} results for {results[0][0]!r:.80} is one. Make it from the "
                "entries: write a function of the corpus, and give each document its entry's "
                "text, and its id as metadata['id']."
            )

    def _entries(self, result: Any) -> list[Entry]:
        """Return the entries that match a result; several may have the same text."""
        metadata = getattr(result, "metadata", None)
        ids = [metadata.get("id")] if isinstance(metadata, Mapping) else []
        ids += [getattr(result, name, None) for name in ("id", "node_id", "ref_doc_id")] + [result]
        for key in ids:
            if isinstance(key, str | int) and str(key) in self._by_id:
                return [self._by_id[str(key)]]
        return self._by_text.get(_text_of(result), [])


def _text_of(result: Any) -> str:
    """Return the text of a LangChain document, a LlamaIndex node or an entry, or the text
    itself.
    """
    text = next(
        (getattr(result, name) for name in ("page_content", "text") if hasattr(result, name)),
        result,
    )
    return text if isinstance(text, str) else ""


def adapt(component: Any, name: str) -> Any:
    """Return the factory of a strategy for any object that a user names as a retriever.

    Args:
        component: a LangChain retriever or its class, a vector store, a LlamaIndex retriever, a
            function `(query, corpus, k)` (`corpus` and `k` are optional), an instance of a
            `Retriever`, or a factory that returns one of these.
        name: the name that the user gave, for errors.

    Returns:
        A factory `(corpus, **settings) -> Retriever`; the component itself if it cannot be
        called.
    """
    if isinstance(component, type):
        if _is_langchain(component):
            return _make_factory(
                component, name, lambda corpus, **settings: _built(component, corpus, settings)
            )
        return component if _is_retriever(component) else _wrapped(component, name)
    if inspect.isroutine(component):
        known = _parameters(component)
        if QUERY not in known[:1]:
            return _wrapped(component, name)
        _check_call(
            component, name, "", **{field: None for field in ("corpus", "k") if field in known}
        )
    if _choose_search(component, None) is not None or _is_retriever(component):
        return _make_factory(type(component), name, lambda corpus: component)
    return component


def _make_factory(cls: Any, name: str, build: Callable[..., Any]) -> Callable[..., Retriever]:
    """Return a factory with the class's settings, and its name for the run's records."""
    strategy = functools.wraps(cls, ("__module__", "__name__", "__qualname__", "__doc__"), ())(
        _checked(build, name)
    )
    fields = [
        field for field in getattr(cls, "model_fields", ()) if field not in ("documents", "docs")
    ]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("corpus", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    parameters += [inspect.Parameter(field, keyword) for field in fields]
    strategy.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return strategy


def _wrapped(factory: Callable[..., Any], name: str) -> Callable[..., Retriever]:
    """Wrap a user's factory so that its result is adapted."""
    return functools.wraps(factory, updated=())(_checked(factory, name))


def _checked(build: Callable[..., Any], name: str) -> Callable[..., Retriever]:
    """Return a factory that adapts another one's result and checks once that its documents are the
    memory's.
    """
    is_checked = False

    def bind(corpus: Corpus, **settings: Any) -> Retriever:
        nonlocal is_checked
        _check_call(build, name, corpus, **settings)
        retriever = build(corpus, **settings)
        ask = _choose_search(retriever, corpus)
        if ask is None:
            if not _is_retriever(retriever):
                raise BadSettings(
                    f"retriever '{name}' returns {retriever!r:.60} for a corpus, which cannot "
                    "search: return something with search(query, k), a retriever of LangChain or "
                    f"LlamaIndex, or a vector store. Or rename its parameters: {SIGNATURES}"
                )
            return retriever  # type: ignore[no-any-return]
        adapted = AdaptedRetriever(corpus, ask)
        if not is_checked and corpus.entries():
            adapted.check_documents(name)
            is_checked = True
        return adapted

    return bind


def _check_call(function: Callable[..., Any], name: str, *values: Any, **fields: Any) -> None:
    """Check that a function can be called with these arguments.

    Raises:
        BadSettings: its parameters do not match.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        return
    try:
        signature.bind(*values, **fields)
    except TypeError as error:
        raise BadSettings(
            f"retriever '{name}' has the parameters {signature} ({error}): {SIGNATURES}"
        ) from error


def _choose_search(
    component: Any, corpus: Corpus | None
) -> Callable[[str, int], Sequence[Result]] | None:
    """Return the search call of another library's retriever, a vector store or a function; None for
    anything else.
    """
    if hasattr(component, "similarity_search") and hasattr(component, "as_retriever"):
        return lambda query, k: _search_store(component, query, k, {})
    # which maps chunks to parents
    plain = hasattr(component, "vectorstore") and not hasattr(component, "docstore")
    if plain and getattr(component, "search_type", "") == "similarity":
        return lambda query, k: _search_store(
            component.vectorstore, query, k, dict(component.search_kwargs)
        )
    if _is_langchain(component):
        return lambda query, k: [(document, None) for document in component.invoke(query)]
    if hasattr(component, "retrieve") and hasattr(component, "_retrieve"):  # LlamaIndex
        return lambda query, k: [
            (scored.node, scored.score) for scored in component.retrieve(query)
        ]
    if inspect.isroutine(component) and QUERY in _parameters(component)[:1]:
        return functools.partial(_call, component, corpus)
    return None


def _is_langchain(component: Any) -> bool:
    return hasattr(component, "_get_relevant_documents")


def _is_retriever(component: Any) -> bool:
    return hasattr(component, "search") or hasattr(component, "search_probe")


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # written in C
        return []


def _call(
    function: Callable[..., Iterable[Any]], corpus: Corpus | None, query: str, k: int
) -> list[Result]:
    """Return the results of a function: hits, entries, ids or texts, each alone or as (result,
    score).

    Raises:
        TypeError: the function returns something else than results in order.
    """
    further = {"corpus": corpus, "k": k}
    known = _parameters(function)
    results = function(query, **{name: value for name, value in further.items() if name in known})
    if not isinstance(results, Iterable):
        raise TypeError(f"it returned {type(results).__name__}, not a list of results")
    return [_as_result(result) for result in results]


def _as_result(result: Any) -> Result:
    if isinstance(result, Hit):
        return result.entry, result.score
    if isinstance(result, tuple) and len(result) == 2:
        return result[0], float(result[1])
    return result, None


def _search_store(store: Any, query: str, k: int, settings: dict[str, Any]) -> list[Result]:
    """Return the results of a vector store with scores, where higher is nearer.

    A `k` in the settings takes precedence. Stores without relevance scores return similarities or
    distances; since the first result is the nearest, the order shows which.
    """
    settings = settings | {"k": min(k, settings.get("k", k))}
    with contextlib.suppress(NotImplementedError):
        results = store.similarity_search_with_relevance_scores(query, **settings)
        return [(document, float(score)) for document, score in results]
    try:
        results = store.similarity_search_with_score(
            query, **settings | {"k": max(2, settings["k"])}
        )
    except NotImplementedError:
        return [(document, None) for document in store.similarity_search(query, **settings)]
    sign = -1.0 if results and results[0][1] < results[-1][1] else 1.0
    return [(document, sign * float(score)) for document, score in results[: settings["k"]]]


def _built(cls: Any, corpus: Corpus, settings: dict[str, Any]) -> Any:
    """Build a LangChain retriever over the memory's entries: with `from_documents`, its field
    `documents`, or without arguments.
    """
    from langchain_core.documents import Document

    entries = corpus.entries()
    documents = [
        Document(page_content=entry.text, id=entry.id, metadata={"id": entry.id})
        for entry in entries
    ]
    try:
        if hasattr(cls, "from_documents"):
            return cls.from_documents(documents, **settings)
        return (
            cls(documents=documents, **settings)
            if "documents" in cls.model_fields
            else cls(**settings)
        )
    except (TypeError, ValueError, ImportError) as error:
        raise BadSettings(
            f"the LangChain retriever {cls.__name__} cannot be created from the memory's entries "
            f"alone: {error}. Write a function of the corpus that makes it, or an instance, and "
            "name that."
        ) from error
