"""Rows of a small memory in this process, whose vectors are computed on first use."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import numpy as np

from emend.memory.embeddings.embed import Embedding, Vectors
from emend.memory.retrieval.base import Entry
from emend.memory.store.collection import RowsWithVectors
from emend.memory.store.rows import MemoryRow


class LazyVectors:
    """Vectors of entries, embedded on first use in the batches in which the entries were added.

    A neural model's vectors depend slightly on the other texts of their batch, so using the same
    batches gives the same vectors as embedding immediately. Thread-safe.

    Args:
        embedding: of the texts.
    """

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._batches: dict[str, dict[str, str]] = {}
        """By entry, the texts by entry of the batch that it waits in."""
        self._vectors: dict[str, tuple[str, Vectors]] = {}
        """By entry, its text and the vector of it."""
        self._lock = threading.Lock()

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries that will be embedded as one batch."""
        batch = {entry.id: entry.text for entry in entries}
        with self._lock:
            self._batches |= dict.fromkeys(batch, batch)

    def discard(self, ids: Iterable[str]) -> None:
        """Remove the entries with these ids."""
        with self._lock:
            for id_ in ids:
                self._vectors.pop(id_, None)
                self._batches.pop(id_, {}).pop(id_, None)

    def __call__(self, entries: Sequence[Entry]) -> Vectors:
        """Return the vectors, shape (len(entries), dimensions), including those of entries replaced
        or discarded in the meantime.
        """
        if not entries:
            return np.zeros((0, 0), np.float32)
        with self._lock:
            for entry in entries:
                if entry.id in self._batches:
                    self._embed(self._batches[entry.id])
            vectors = {entry.id: self._vectors.get(entry.id, ("",)) for entry in entries}
            missing = [entry for entry in entries if vectors[entry.id][0] != entry.text]
            if missing:
                rows = self._embedding.documents([entry.text for entry in missing])
                vectors |= {
                    entry.id: (entry.text, row) for entry, row in zip(missing, rows, strict=True)
                }
        return np.stack([vectors[entry.id][-1] for entry in entries])

    def _embed(self, batch: dict[str, str]) -> None:
        """Embed a batch; if this fails, each caller embeds the entries that it needs."""
        for id_ in batch:
            del self._batches[id_]
        with suppress(Exception):  # any exception: the embedding may be the user's
            rows = self._embedding.documents([*batch.values()])
            for (id_, text), row in zip(batch.items(), rows, strict=True):
                self._vectors[id_] = text, row


class LocalRows:
    """Rows in this process with the interface of `MemoryCollection`; thread-safe.

    Args:
        embedding: of the entries.
    """

    def __init__(self, embedding: Embedding) -> None:
        self.vectors = LazyVectors(embedding)
        self._rows: dict[str, MemoryRow] = {}
        self._by_edit: defaultdict[str, set[str]] = defaultdict(set)
        self._by_fact: defaultdict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    def count(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def rows(self, edit_ids: Sequence[str] | None = None) -> Iterator[MemoryRow]:
        """The rows of these edits, or all; in no particular order."""
        with self._lock:
            chosen = (
                list(self._rows.values())
                if edit_ids is None
                else self._indexed(self._by_edit, edit_ids)
            )
        yield from chosen

    def rows_with_vectors(self, edit_ids: Sequence[str] | None = None) -> RowsWithVectors:
        """Return the rows of these edits, or all, and the function that computes their vectors."""
        return RowsWithVectors(list(self.rows(edit_ids)), self.vectors)

    def rows_about(self, facts: Iterable[str]) -> Iterator[MemoryRow]:
        """The rows about any of these facts, each once."""
        with self._lock:
            chosen = self._indexed(self._by_fact, facts)
        yield from chosen

    def upsert(self, rows: Sequence[MemoryRow]) -> None:
        """Write rows that will be embedded as one batch; rows with the same ids are replaced."""
        self._remove([row.entry.id for row in rows])
        with self._lock:
            for row in rows:
                self._rows[row.entry.id] = row
                self._by_edit[row.entry.edit_id].add(row.entry.id)
                for fact in row.facts:
                    self._by_fact[fact].add(row.entry.id)
        self.vectors.add(row.entry for row in rows)

    def update_flags(self, rows: Sequence[MemoryRow]) -> None:
        """Write order and current flag of stored rows."""
        with self._lock:
            for row in rows:
                if (stored := self._rows.get(row.entry.id)) is not None:
                    self._rows[row.entry.id] = stored._replace(order=row.order, current=row.current)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete the rows with these ids."""
        self._remove(ids)

    def _remove(self, ids: Sequence[str]) -> None:
        with self._lock:
            deleted = [row for id_ in ids if (row := self._rows.pop(id_, None)) is not None]
            for row in deleted:
                _take_out(self._by_edit, row.entry.edit_id, row.entry.id)
                for fact in row.facts:
                    _take_out(self._by_fact, fact, row.entry.id)
        self.vectors.discard(row.entry.id for row in deleted)

    def _indexed(self, index: dict[str, set[str]], keys: Iterable[str]) -> list[MemoryRow]:
        ids: set[str] = set()
        for key in keys:
            ids |= index.get(key, frozenset())
        return [self._rows[id_] for id_ in ids]


def _take_out(index: defaultdict[str, set[str]], key: str, id_: str) -> None:
    index[key].discard(id_)
    if not index[key]:
        del index[key]
