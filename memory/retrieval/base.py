"""The retriever interface: a retrieval strategy over the entries of a memory."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, FiniteFloat

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, EmendError
from emend.memory.json_files import replace_surrogates
from emend.memory.probe import Probe


def _whole(text: str) -> str:
    whole = replace_surrogates(text)
    if whole != text:
        logging.getLogger(__name__).warning(
            "half surrogate pairs are replaced by U+FFFD in the text %.60r", whole
        )
    return whole


class Entry(FrozenModel):
    """A text in the memory (a document, an event or one triplet of an edit) with the id of its
    edit.
    """

    id: str
    edit_id: str
    text: Annotated[str, AfterValidator(_whole)]
    """Without half surrogate pairs, which neither a prompt nor a file can hold."""
    kind: str = "document"
    time: str | None = None


class Hit(FrozenModel):
    """A retrieved entry with the strategy's score (higher is better; scales differ between
    strategies).
    """

    entry: Entry
    score: FiniteFloat


class Corpus(Protocol):
    """The part of a memory that a strategy can use: the entries in scope, and a vector search over
    them.
    """

    def entries(self) -> Sequence[Entry]:
        """All entries in scope, in a stable order."""
        ...

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Query vectors, shape (len(queries), dimensions)."""
        ...

    def nearest(self, query: str, k: int) -> list[Hit]:
        """The k entries nearest in embedding (cosine), best first."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """A strategy, bound to a corpus; its factory `(corpus: Corpus) -> Retriever` is registered."""

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits, best first; empty when nothing is in scope."""
        ...


def search_probe(retriever: Retriever, probe: Probe, k: int) -> list[Hit]:
    """Return a strategy's hits for a probe: from its method `search_probe(probe, k)` if it has one,
    else from the probe's query.

    Raises:
        BadData: see `search`.
    """
    search_whole = getattr(retriever, "search_probe", None)
    if search_whole is None:
        return search(retriever, probe.retrieval_query, k)
    with _named(retriever, probe.retrieval_query):
        return _hits(search_whole(probe, k))


def search(retriever: Retriever, query: str, k: int) -> list[Hit]:
    """Return a strategy's hits for a query, after checking them.

    Raises:
        BadData: the strategy raises an error, or does not return a list of hits; names the
            strategy.
    """
    with _named(retriever, query):
        return _hits(retriever.search(query, k))


def _hits(result: object) -> list[Hit]:
    if not (isinstance(result, Sequence) and all(isinstance(hit, Hit) for hit in result)):
        raise TypeError(f"it returned {result!r:.80}, not a list of hits")
    return list(result)


@contextmanager
def _named(retriever: Retriever, query: str) -> Iterator[None]:
    try:
        yield
    except EmendError:
        raise
    except (Exception, SystemExit) as error:
        name = f"{type(retriever).__module__}:{type(retriever).__qualname__}"
        raise BadData(
            f"strategy '{name}' fails on {query[:60]!r} ({type(error).__name__}: {error})."
        ) from error
