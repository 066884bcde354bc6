"""A Chroma collection of the memory, read and written in batches of an accepted size."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.memory.embeddings.embed import Vectors
from emend.memory.embeddings.model_families import DOT
from emend.memory.retrieval.base import Entry, Hit
from emend.memory.retrieval.exact import DECIMALS
from emend.memory.store.rows import MemoryRow, flags, metadata, row_from

PAGE = 2_000  # entries per read: Chroma returns vectors in double precision
BYTES = 16_000_000  # bytes of texts, metadata and vectors per request: a server accepts 40 MB
IDS = 500  # edit ids per filter: SQLite limits the variables of a statement
FACTS = 100  # facts per filter
SCAN = 20  # number of rows that can be read in the time of one fact lookup


class RowsWithVectors(NamedTuple):
    """A snapshot of rows, and a function that returns the vectors of some of their entries."""

    rows: Sequence[MemoryRow]
    vectors: Callable[[Sequence[Entry]], Vectors]


class MemoryCollection:
    """The rows of a Chroma collection.

    Args:
        collection: what Chroma's `get_collection` returns.
        batch_limit: returns the maximum number of rows per request.
    """

    def __init__(self, collection: Any, batch_limit: Callable[[], int]) -> None:
        self.collection = collection
        self._batch_limit = batch_limit

    def count(self) -> int:
        """Number of rows."""
        return int(self.collection.count())

    def rows(self, edit_ids: Sequence[str] | None = None) -> Iterator[MemoryRow]:
        """Yield the rows of these edits, or all, in no particular order."""
        for page in self._pages(edit_ids, ["documents", "metadatas"]):
            yield from map(row_from, page["ids"], page["documents"], page["metadatas"])

    def rows_with_vectors(self, edit_ids: Sequence[str] | None = None) -> RowsWithVectors:
        """Read the rows of these edits, or all, together with their vectors."""
        read: list[MemoryRow] = []
        vectors: dict[str, Vectors] = {}
        for page in self._pages(edit_ids, ["documents", "metadatas", "embeddings"]):
            read += map(row_from, page["ids"], page["documents"], page["metadatas"])
            vectors |= zip(
                page["ids"], np.asarray(page["embeddings"], dtype=np.float32), strict=True
            )
        return RowsWithVectors(
            read, lambda entries: np.stack([vectors[entry.id] for entry in entries])
        )

    def rows_about(self, facts: Iterable[str]) -> Iterator[MemoryRow]:
        """Yield the rows about any of these facts, each once."""
        ids = sorted(set(facts))
        count = self.count() if ids else 0
        if not count:
            return
        if SCAN * len(ids) > count:
            yield from (row for row in self.rows() if not set(ids).isdisjoint(row.facts))
            return
        returned: set[str] = set()
        for start in range(0, len(ids), FACTS):
            filters: list[Any] = [
                {"facts": {"$contains": fact}} for fact in ids[start : start + FACTS]
            ]
            page = self.collection.get(
                where={"$or": filters} if len(filters) > 1 else filters[0],
                include=["documents", "metadatas"],
            )
            for row in map(row_from, page["ids"], page["documents"], page["metadatas"]):
                if row.entry.id not in returned:
                    returned.add(row.entry.id)
                    yield row

    def nearest(self, vector: Vectors, k: int) -> list[Hit]:
        """Return the k current entries nearest to a vector of shape (1, dimensions) by Chroma's
        index, best first.

        Superseded entries are filtered out here: a filter inside the query makes Chroma's search
        many times slower.
        """
        limit = k
        while True:
            page = self.collection.query(query_embeddings=vector, n_results=limit)
            if not page["ids"]:
                return []
            columns = [page[part][0] for part in ("ids", "documents", "metadatas", "distances")]
            rows = [
                (row_from(id_, text, fields), far)
                for id_, text, fields, far in zip(*columns, strict=True)
            ]
            hits = [
                Hit(entry=row.entry, score=self._score(far)) for row, far in rows if row.current
            ]
            if len(hits) >= k or len(rows) < limit:
                return hits[:k]
            limit *= 4

    def _score(self, distance: float) -> float:
        """Convert a distance to a similarity: Chroma returns 1 minus the cosine, or 1 minus the dot
        product.
        """
        score = 1.0 - distance
        if choose_space(str((self.collection.metadata or {}).get("embedding"))) == "cosine":
            score = max(-1.0, min(1.0, score))
        return round(score, DECIMALS)

    def upsert(self, rows: Sequence[MemoryRow], vectors: Vectors) -> None:
        """Write rows with their vectors, shape (len(rows), dimensions); rows with the same ids are
        replaced.
        """
        fields = [metadata(row) for row in rows]
        sizes = [
            len(row.entry.text.encode()) + len(str(each))
            for row, each in zip(rows, fields, strict=True)
        ]
        for part in self._batches(np.array(sizes, dtype=np.int64) + 2 * vectors[:1].nbytes):
            self.collection.upsert(
                ids=[row.entry.id for row in rows[part]],
                embeddings=vectors[part],
                documents=[row.entry.text for row in rows[part]],
                metadatas=fields[part],
            )

    def update_flags(self, rows: Sequence[MemoryRow]) -> None:
        """Write order and current flag of stored rows."""
        for part in self._batches(np.zeros(len(rows), dtype=np.int64)):
            self.collection.update(
                ids=[row.entry.id for row in rows[part]],
                metadatas=[flags(row) for row in rows[part]],
            )

    def delete(self, ids: Sequence[str]) -> None:
        """Delete the rows with these ids."""
        for start in range(0, len(ids), IDS):
            self.collection.delete(ids=list(ids[start : start + IDS]))

    def _batches(self, sizes: NDArray[np.int64]) -> Iterator[slice]:
        """Yield slices of rows to send per request: at most the client's limit and `BYTES`, but at
        least one row.
        """
        most, start = min(PAGE, self._batch_limit()), 0
        while start < len(sizes):
            fit = int(np.searchsorted(np.cumsum(sizes[start : start + most]), BYTES, side="right"))
            yield slice(start, start + max(1, fit))
            start += max(1, fit)

    def _pages(self, edit_ids: Sequence[str] | None, include: list[str]) -> Iterator[Any]:
        if edit_ids is None:
            for offset in range(0, self.count(), PAGE):
                yield self.collection.get(limit=PAGE, offset=offset, include=include)
            return
        for start in range(0, len(edit_ids), IDS):
            chosen = {"edit_id": {"$in": list(edit_ids[start : start + IDS])}}
            yield self.collection.get(where=chosen, include=include)


def choose_space(identity: str) -> str:
    """Return Chroma's name for an embedding's similarity; `ip` is the dot product."""
    return "ip" if identity.endswith(f"/{DOT}") else "cosine"
