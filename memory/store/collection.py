"""One collection of the memory: read and written in pieces that the database takes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emend.memory.embeddings.embed import Vectors
from emend.memory.embeddings.model_families import DOT
from emend.memory.retrieval.base import Hit
from emend.memory.retrieval.exact import DECIMALS
from emend.memory.store.rows import Stored, metadata, row_from, standing

PAGE = 2_000  # entries read at once: Chroma hands vectors out in double precision
BYTES = 16_000_000  # of texts, metadata and vectors: a server takes 40 MB
IDS = 500  # edit ids in one filter: SQLite bounds the variables of a statement
FACTS = 100  # facts in one filter
SCAN = 20  # one look-up of a fact takes as long as reading so many rows


class Shelf:
    """Rows of one Chroma collection.

    Args:
        collection: what `get_collection` gives.
        limit: says how many rows the client takes at once.
    """

    def __init__(self, collection: Any, limit: Callable[[], int]) -> None:
        self.collection = collection
        self._limit = limit

    def count(self) -> int:
        """Number of rows."""
        return int(self.collection.count())

    def rows(self, edit_ids: Sequence[str] | None = None) -> Iterator[Stored]:
        """The rows of these edits, or all; in no particular order."""
        for page in self._pages(edit_ids, ["documents", "metadatas"]):
            yield from map(row_from, page["ids"], page["documents"], page["metadatas"])

    def embedded(self, edit_ids: Sequence[str] | None = None) -> Iterator[tuple[Stored, Vectors]]:
        """The same with their vectors."""
        for page in self._pages(edit_ids, ["documents", "metadatas", "embeddings"]):
            rows = map(row_from, page["ids"], page["documents"], page["metadatas"])
            yield from zip(rows, np.asarray(page["embeddings"], dtype=np.float32), strict=True)

    def about(self, facts: Iterable[str]) -> Iterator[Stored]:
        """The rows that speak of any of these facts, each once."""
        wanted, count = sorted(set(facts)), self.count()
        if not wanted or not count:
            return
        if SCAN * len(wanted) > count:
            yield from (row for row in self.rows() if not set(wanted).isdisjoint(row.facts))
            return
        seen: set[str] = set()
        for start in range(0, len(wanted), FACTS):
            each: list[Any] = [{"facts": {"$contains": fact}} for fact in wanted[start : start + FACTS]]
            page = self.collection.get(
                where={"$or": each} if len(each) > 1 else each[0], include=["documents", "metadatas"]
            )
            for row in map(row_from, page["ids"], page["documents"], page["metadatas"]):
                if row.entry.id not in seen:
                    seen.add(row.entry.id)
                    yield row

    def nearest(self, vector: Vectors, k: int) -> list[Hit]:
        """The k current entries nearest to a vector of shape (1, dimensions), best first, by Chroma's index.

        Superseded ones are passed over here: a filter inside the query costs Chroma many times the search.
        """
        wanted = k
        while True:
            found = self.collection.query(query_embeddings=vector, n_results=wanted)
            if not found["ids"]:
                return []
            columns = [found[part][0] for part in ("ids", "documents", "metadatas", "distances")]
            rows = [(row_from(id_, text, told), far) for id_, text, told, far in zip(*columns, strict=True)]
            hits = [Hit(entry=row.entry, score=self._score(far)) for row, far in rows if row.current]
            if len(hits) >= k or len(rows) < wanted:
                return hits[:k]
            wanted *= 4

    def _score(self, distance: float) -> float:
        """The likeness behind a distance: Chroma gives 1 minus the cosine, or minus the dot product."""
        score = 1.0 - distance
        if space_of(str((self.collection.metadata or {}).get("embedding"))) == "cosine":
            score = max(-1.0, min(1.0, score))
        return round(score, DECIMALS)

    def put(self, rows: Sequence[Stored], vectors: Vectors) -> None:
        """Write rows with their vectors, shape (len(rows), dimensions); those of the same ids are replaced."""
        told = [metadata(row) for row in rows]
        sizes = [len(row.entry.text.encode()) + len(str(one)) for row, one in zip(rows, told, strict=True)]
        for part in self._parts(np.array(sizes, dtype=np.int64) + 2 * vectors[:1].nbytes):
            self.collection.upsert(
                ids=[row.entry.id for row in rows[part]],
                embeddings=vectors[part],
                documents=[row.entry.text for row in rows[part]],
                metadatas=told[part],
            )

    def mark(self, rows: Sequence[Stored]) -> None:
        """Write order and standing of rows that are there."""
        for part in self._parts(np.zeros(len(rows), dtype=np.int64)):
            told = [standing(row) for row in rows[part]]
            self.collection.update(ids=[row.entry.id for row in rows[part]], metadatas=told)

    def drop(self, ids: Sequence[str]) -> None:
        """Delete rows."""
        for start in range(0, len(ids), IDS):
            self.collection.delete(ids=list(ids[start : start + IDS]))

    def _parts(self, sizes: NDArray[np.int64]) -> Iterator[slice]:
        """Rows that are sent at once: as many as the client takes, and at most `BYTES`, as far as one row allows."""
        most, start = min(PAGE, self._limit()), 0
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


def space_of(identity: str) -> str:
    """In what an embedding's vectors are compared, in Chroma's words; `ip` is the dot product."""
    return "ip" if identity.endswith(f"/{DOT}") else "cosine"
