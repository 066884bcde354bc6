"""Exact cosine search over entries in memory, with the same result on every machine."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emend.memory.embeddings.embed import Embedding, Vectors
from emend.memory.errors import BadData
from emend.memory.retrieval.base import Entry, Hit

# Scores are rounded to this many decimals, so that rounding noise of a machine or batch cannot
# break ties.
DECIMALS = 6


def best(scores: NDArray[np.floating[Any]], k: int) -> list[int]:
    """Return the indices of the k highest scores, best first; equal scores keep their order."""
    if k <= 0:
        return []
    if k < len(scores):
        floor = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero(scores >= floor)
    else:
        places = np.arange(len(scores))
    return [int(place) for place in places[np.argsort(-scores[places], kind="stable")][:k]]


class QueryVectors:
    """A cache of query vectors by text; may be shared by views and threads.

    Args:
        embedding: embeds queries that are not cached.
        size: maximum number of vectors; the least recently used one is dropped first.
    """

    def __init__(self, embedding: Embedding, size: int = 4096) -> None:
        self.embedding = embedding
        self._size = size
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions); missing texts are embedded in one batch."""
        with self._lock:
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:  # copied, because a row would keep its whole batch alive
            vectors |= {
                t: row.copy()
                for t, row in zip(missing, self.embedding.queries(missing), strict=True)
            }
        with self._lock:
            for text in texts:
                self._vectors[text] = vectors[text]
                self._vectors.move_to_end(text)
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
        return (
            np.stack([vectors[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)
        )


class ExactCorpus:
    """A corpus with entries and vectors in memory; immutable, so that any number of threads may
    search it.

    Args:
        entries: the entries to search.
        vectors: shape (len(entries), dimensions), rows of length 1; or a function that returns
            them, which is called when a strategy first asks for one.
        queries: query vectors.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        vectors: Vectors | Callable[[], Vectors],
        queries: QueryVectors,
    ) -> None:
        self._entries = tuple(entries)
        self._vectors = vectors
        self._made_columns: Vectors | None = None
        self._lock = threading.Lock()
        self._queries = queries

    @property
    def _columns(self) -> Vectors:
        """The transposed vectors, shape (dimensions, len(entries)); a lexical query reads only a
        few rows.
        """
        with self._lock:
            if self._made_columns is None:
                vectors = self._vectors() if callable(self._vectors) else self._vectors
                self._made_columns = np.ascontiguousarray(vectors.T)
                self._vectors = self._made_columns.T  # no second copy
            return self._made_columns

    @classmethod
    def of(cls, entries: Sequence[Entry], embedding: Embedding) -> "ExactCorpus":
        """Build a corpus without a store; the entries are embedded immediately."""
        vectors = embedding.documents([entry.text for entry in entries])
        return cls(entries, vectors, QueryVectors(embedding))

    @property
    def identity(self) -> str:
        """The identity of the embedding."""
        return self._queries.embedding.identity

    @property
    def embedding(self) -> Embedding:
        """The embedding of the entries and queries."""
        return self._queries.embedding

    @property
    def vectors(self) -> Vectors:
        """The vectors of the entries, shape (len(entries), dimensions)."""
        return self._columns.T

    def replaced(self, entries: Sequence[Entry], vectors: Vectors) -> "ExactCorpus":
        """Return a corpus of other entries and vectors with the same embedding and the same query
        cache.
        """
        return ExactCorpus(entries, vectors, self._queries)

    def entries(self) -> Sequence[Entry]:
        """All entries in scope, in a stable order."""
        return self._entries

    def embed(self, queries: Sequence[str]) -> Vectors:
        """Query vectors, shape (len(queries), dimensions); embedding many at once caches them for
        `nearest`.
        """
        return self._queries(queries)

    def nearest(self, query: str, k: int) -> list[Hit]:
        """The k entries nearest in embedding (cosine in -1..1), best first; equal ones in the order
        of `entries`.
        """
        if not self._entries or k <= 0:
            return []
        scores = self.cosines(query)
        return [Hit(entry=self._entries[i], score=float(scores[i])) for i in best(scores, k)]

    def cosines(self, query: str) -> NDArray[np.float64]:
        """Return the scores by which `nearest` ranks, shape (len(entries),)."""
        if not self._entries:
            return np.zeros(0)
        cosines = self._cosines(self._queries([query])[0])
        return cosines.astype(np.float64).round(DECIMALS)

    def _cosines(self, vector: Vectors) -> Vectors:
        if len(vector) != len(self._columns):
            raise BadData(
                f"the stored vectors have {len(self._columns)} dimensions, and those of "
                f"'{self.identity}' have {len(vector)}: the memory is damaged. Add its edits to a "
                "new one."
            )
        used = np.flatnonzero(vector)
        if 4 * len(used) < len(vector):  # a lexical query has few non-zero columns
            return np.asarray(vector[used] @ self._columns[used])
        return np.asarray(vector @ self._columns)
