"""What a memory does with its shelves: adds and withdraws edits, lends views, tells their history."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property

import numpy as np

from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Embedding, Vectors
from emend.memory.errors import BadData, BadSettings
from emend.memory.retrieval.base import Corpus, Entry, Hit
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.store.changes import Change, settle, unsettled
from emend.memory.store.collection import PAGE, Shelf
from emend.memory.store.history import Fact, MemoryStats, fact_of, stats_of
from emend.memory.store.rows import Stored, collection_of
from emend.memory.store.superseding import Superseding, fact_id, superseded

EXACT_LIMIT = 20_000
"""Up to this many entries a view of everything is searched exactly, above it by the index (approximate)."""

Told = Callable[[int], None]


class StoredMemory:
    """A memory over shelves that are open; safe to use from several threads of one process.

    Args:
        where: what messages call it.
        shelves: by the name of their collection.
        embedding: turns texts into vectors; None if nothing is to be added or searched.
        identity: of the embedding that the shelves were filled with.
        superseding: which of several edits of a fact is current.
        answering: surrounds each use of a shelf, and turns the database's errors into ours.
        shared: other processes may write to the shelves too.
    """

    def __init__(
        self,
        where: str,
        shelves: Mapping[str, Shelf],
        embedding: Embedding | None,
        identity: str,
        superseding: Superseding,
        answering: Callable[[], AbstractContextManager[None]],
        shared: bool = False,
    ) -> None:
        self.where = where
        self.identity = identity
        self.superseding = superseding
        self._shelves = dict(shelves)
        self._embedding = embedding
        self._queries = QueryVectors(embedding) if embedding else None
        self._answering = answering
        self._shared = shared
        self._lock = threading.Lock()
        self._clock = 0

    def add(self, edits: Sequence[Edit], told: Told = lambda entries: None) -> None:
        """Store the edits in their order; one stored before under the same id is replaced, unchanged it costs nothing.

        An edit said again counts as arriving now where other edits speak of the same fact. What is interrupted may be
        added again: nothing is doubled.

        Args:
            edits: new facts; of two with the same id the last counts.
            told: called with the number of entries embedded and written, after each batch.
        """
        known: dict[str, Edit] = {}
        for edit in edits:
            known.pop(edit.id, None)
            known[edit.id] = edit
        with self._lock:
            self._clock = max(self._clock, time.time_ns())
            self._write(list(known.values()), list(known), told)
            self._clock += len(known)

    def withdraw(self, edit_ids: Sequence[str]) -> None:
        """Delete edits, as if they had never been said: what they had superseded is current again.

        Raises:
            BadData: there is no edit of that id; nothing is deleted then.
        """
        with self._lock:
            stored = {row.entry.edit_id for row in self._rows(edit_ids)}
            if missing := [edit_id for edit_id in edit_ids if edit_id not in stored]:
                raise BadData(f"no edit '{missing[0]}' in {self.where}: take an id that `emend memory search` shows.")
            self._write([], list(dict.fromkeys(edit_ids)), lambda entries: None)

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """The current entries of these edits alone, or of all; what is added later is not in it.

        Among chosen edits the rule of superseding sees nothing but them, and takes their place in `edit_ids` for the
        order in which they arrived. A view of chosen edits is always searched exactly; one of everything up to
        `EXACT_LIMIT` entries. Above that its search by meaning lives and finds what is added later; strategies that
        index its entries know those of when they began.
        """
        if self._queries is None:
            raise BadSettings(f"{self.where} was opened without an embedding: open it with one to search it.")
        if edit_ids is None and self.count() > EXACT_LIMIT:
            return _IndexedCorpus(self, self._queries)
        places = None if edit_ids is None else {edit_id: place for place, edit_id in enumerate(edit_ids)}
        with self._answering():
            chosen = None if places is None else list(places)
            found = [pair for shelf in self._shelves.values() for pair in shelf.embedded(chosen)]
        if places is not None:
            claims = [row.claim._replace(order=places[row.entry.edit_id]) for row, _ in found]
            old = superseded(claims, self.superseding)
            found = [(row._replace(current=row.entry.id not in old), vector) for row, vector in found]
        found = sorted((pair for pair in found if pair[0].current), key=lambda pair: pair[0].entry.id)
        vectors = np.stack([vector for _, vector in found]) if found else np.zeros((0, 0), np.float32)
        return ExactCorpus([row.entry for row, _ in found], vectors, self._queries)

    def edits(self, edit_ids: Sequence[str] | None = None, current: bool = False) -> list[Edit]:
        """These edits, or all, in the order in which they arrived; superseded ones too, unless `current`."""
        rows = sorted(self._rows(edit_ids), key=lambda row: (row.order, row.entry.id))
        standing = {row.entry.edit_id for row in rows if row.current or not current}
        return [row.edit for row in rows if row.told and row.entry.edit_id in standing]

    def history(self, subject: str, relation: str) -> Fact:
        """All edits of one fact, oldest first; no versions if there are none."""
        rows = list(self._about([fact_id(subject, relation)]))
        orders = {row.entry.edit_id: row.order for row in rows}
        edits = [(edit, orders[edit.id]) for edit in (self.edits(list(orders)) if orders else ())]
        return fact_of(subject, relation, edits, self.superseding)

    def entries(self, edit_ids: Sequence[str]) -> dict[Entry, bool]:
        """The entries of these edits, and whether each is current."""
        rows = sorted(self._rows(edit_ids), key=lambda row: row.entry.id)
        return {row.entry: row.current for row in rows}

    def stats(self) -> MemoryStats:
        """Counts of what is stored."""
        return stats_of(self._rows(None), self.identity, self.superseding)

    def count(self) -> int:
        """Number of entries stored, superseded ones too."""
        with self._answering():
            return sum(shelf.count() for shelf in self._shelves.values())

    def _write(self, edits: Sequence[Edit], edit_ids: Sequence[str], told: Told) -> None:
        """Put `edits` in place of all that is stored of `edit_ids`."""
        stored = self._rows(edit_ids)  # what was interrupted may have left an entry in both collections
        before = {row.entry.id: row for row in stored}
        change = settle(edits, before, self._about, self.superseding, self._clock)
        for current in (True, False):  # interrupted, the memory lacks history, and never what history leads to
            for name, shelf in self._shelves.items():
                put = [row for row in change.put if row.current == current and collection_of(row.entry) == name]
                for start in range(0, len(put), PAGE):
                    self._put(shelf, put[start : start + PAGE], told)
        self._mark(change.mark)
        for name, shelf in self._shelves.items():
            with self._answering():
                shelf.drop(_to_drop(change, stored, name))
        if self._shared:
            self._mark(unsettled(change, stored, self._about, self.superseding))

    def _mark(self, rows: Sequence[Stored]) -> None:
        for name, shelf in self._shelves.items():
            with self._answering():
                shelf.mark([row for row in rows if collection_of(row.entry) == name])

    def _put(self, shelf: Shelf, rows: Sequence[Stored], told: Told) -> None:
        if self._embedding is None:
            raise BadSettings(f"{self.where} was opened without an embedding: open it with one to add to it.")
        vectors = self._embedding.documents([row.entry.text for row in rows])
        with self._answering():
            shelf.put(rows, vectors)
        told(len(rows))

    def _rows(self, edit_ids: Sequence[str] | None) -> list[Stored]:
        with self._answering():
            return [row for shelf in self._shelves.values() for row in shelf.rows(edit_ids)]

    def _nearest(self, vector: Vectors, k: int) -> list[Hit]:
        with self._answering():
            return [hit for shelf in self._shelves.values() for hit in shelf.nearest(vector, k)]

    def _about(self, facts: Iterable[str]) -> Iterator[Stored]:
        with self._answering():
            yield from [row for shelf in self._shelves.values() for row in shelf.about(facts)]


class _IndexedCorpus:
    """All current entries, searched by the shelves' own index; for memories too big for exact search."""

    def __init__(self, memory: StoredMemory, queries: QueryVectors) -> None:
        self._memory = memory
        self._queries = queries

    @cached_property
    def _all(self) -> tuple[Entry, ...]:
        found = (row.entry for row in self._memory._rows(None) if row.current)
        return tuple(sorted(found, key=lambda entry: entry.id))

    @property
    def identity(self) -> str:
        return self._memory.identity

    def entries(self) -> Sequence[Entry]:
        return self._all

    def embed(self, queries: Sequence[str]) -> Vectors:
        return self._queries(queries)

    def nearest(self, query: str, k: int) -> list[Hit]:
        if k <= 0:
            return []
        hits = self._memory._nearest(self._queries([query]), k)
        return sorted(hits, key=lambda hit: (-hit.score, hit.entry.id))[:k]


def _to_drop(change: Change, stored: Sequence[Stored], name: str) -> list[str]:
    """Ids to be deleted from a collection: of what is gone, and of what now lies in the other one."""
    homes = {row.entry.id: collection_of(row.entry) for row in (*stored, *change.put)}
    ids = (row.entry.id for row in stored if collection_of(row.entry) == name)
    return [id_ for id_ in ids if id_ in change.drop or homes[id_] != name]
