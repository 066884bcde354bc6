"""A memory of edits in Chroma, in a folder, on a server or in this process: one collection of
documents and one of triplets.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Embedding, Vectors
from emend.memory.errors import BadData, BadSettings
from emend.memory.retrieval.base import Corpus, Entry, Hit
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.store.changes import StoreChanges, find_conflicts, plan_changes
from emend.memory.store.collection import PAGE, MemoryCollection, RowsWithVectors
from emend.memory.store.connection import is_url, no_memory
from emend.memory.store.database import COLLECTIONS, IN_PROCESS, ChromaDatabase
from emend.memory.store.history import FactHistory, MemoryStats, build_history, compute_stats
from emend.memory.store.local_rows import LocalRows
from emend.memory.store.rows import MemoryRow, choose_collection
from emend.memory.store.superseding import Superseding, fact_id, superseded

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool

# Maximum number of entries for which a view of all edits is searched exactly; above, the
# approximate index is used.
EXACT_LIMIT = 20_000

OnProgress = Callable[[int], None]


def _ignore(entries: int) -> None:
    """Report no progress."""


class ChromaMemory:
    """A store of edits with their embeddings that returns searchable views; thread-safe.

    Args:
        path: a folder, or `http://HOST:PORT` of a `chroma run` server; None keeps everything in
            this process, private to this object. Only one process at a time can open a folder: for
            several, start a server.
        embedding: the embedding model. Its identity is stored, and opening the memory with another
            one is an error. None opens a stored memory without a model, to read and withdraw edits
            but not to add or search.
        superseding: the rule that decides which of several edits of a (subject, relation) is
            current. A new memory stores it (default `arrival`); an existing one must have been
            created with the same rule. None accepts the stored rule.
        create: if False, a location without a memory is an error.
        name: the memory's name, to have several on one server.
        temporary: keep up to `EXACT_LIMIT` entries in this process, as with `path` None, and write
            to `path` only beyond that.

    As long as Chroma is not used, vectors are computed on first use and no index is built.

    Raises:
        MemoryMismatch: the stored memory uses another embedding model or another superseding rule.
        MissingData: there is no memory, and `create` is False.
        BadSettings: the folder cannot be used, or the server does not answer.
        MemoryUnavailable: another process uses the folder; or, in any later call, the server
            stopped answering.
    """

    def __init__(
        self,
        path: Path | str | None,
        embedding: Embedding | None,
        superseding: Superseding | None = None,
        create: bool = True,
        name: str = "",
        temporary: bool = False,
    ) -> None:
        self._path, self._name = path, name
        self.location = IN_PROCESS if path is None else str(path)
        self.embedding = embedding
        self._queries = QueryVectors(embedding) if embedding else None
        self._shared = is_url(self.location)  # other processes may write at the same time
        self._lock = threading.RLock()
        self._clock = 0
        self._database: ChromaDatabase | None = None
        self._stores: Mapping[str, MemoryCollection | LocalRows] = {}
        if path is not None and not temporary:
            self._database = ChromaDatabase(path, embedding, superseding, create, name)
            self._stores = self._database.collections
            self.identity, self.superseding = self._database.identity, self._database.superseding
        elif embedding is not None and create:
            self._stores = {name: LocalRows(embedding) for name in COLLECTIONS}
            self.identity, self.superseding = embedding.identity, superseding or "arrival"
        else:
            raise no_memory(self.location)

    def close(self) -> None:
        """Release the folder or connection; an in-process memory is deleted. Exact views keep
        working.
        """
        with self._lock:
            self._stores = {}
            if self._database is not None:
                self._database.close()

    def __enter__(self) -> "ChromaMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, edits: Sequence[Edit], on_progress: OnProgress = _ignore) -> None:
        """Store edits in order; a stored edit with the same id is replaced, which costs nothing if
        it is unchanged.

        An edit that is added again counts as arriving now if a later edit is about the same fact.
        An interrupted call can be repeated: nothing is stored twice.

        Args:
            edits: the new edits; the last of several with the same id is stored.
            on_progress: called with the number of entries embedded and written, after each batch.
        """
        latest: dict[str, Edit] = {}
        for edit in edits:
            latest.pop(edit.id, None)
            latest[edit.id] = edit
        with self._lock:
            self._clock = max(self._clock, time.time_ns())
            self._write(list(latest.values()), list(latest), on_progress)
            self._clock += len(latest)

    def withdraw(self, edit_ids: Sequence[str]) -> None:
        """Delete edits as if they had never been added; edits that they superseded become current
        again.

        Raises:
            BadData: an id does not exist; nothing is deleted.
        """
        with self._lock:
            stored = {row.entry.edit_id for row in self._rows(edit_ids)}
            if missing := [edit_id for edit_id in edit_ids if edit_id not in stored]:
                raise BadData(
                    f"no edit '{missing[0]}' in {self.location}: use an id that `emend memory "
                    "search` shows."
                )
            self._write([], list(dict.fromkeys(edit_ids)), _ignore)

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """Return a view of the current entries of these edits, or of all; edits added later are not
        included.

        The superseding rule is applied only among the chosen edits, with their position in
        `edit_ids` as the order of arrival. A view of chosen edits is always searched exactly; a
        view of all edits only up to `EXACT_LIMIT` entries. Above that, its vector search is live
        and also finds edits added later, while strategies that index the entries see those that
        existed when the strategy was created.
        """
        if self._queries is None:
            raise BadSettings(
                f"{self.location} was opened without an embedding: open it with one to search it."
            )
        if edit_ids is None and self.count() > EXACT_LIMIT:
            self._build_index()
            return _IndexedCorpus(self, self._queries)
        positions = (
            None
            if edit_ids is None
            else {edit_id: position for position, edit_id in enumerate(edit_ids)}
        )
        with self._database_errors():
            chosen = None if positions is None else list(positions)
            stored = [rows.rows_with_vectors(chosen) for rows in self._stores.values()]
        rows = [row for group in stored for row in group.rows]
        if positions is not None:
            claims = [row.claim._replace(order=positions[row.entry.edit_id]) for row in rows]
            old = superseded(claims, self.superseding)
            rows = [row._replace(current=row.entry.id not in old) for row in rows]
        entries = sorted((row.entry for row in rows if row.current), key=lambda entry: entry.id)
        return ExactCorpus(entries, lambda: _collect_vectors(entries, stored), self._queries)

    def edits(self, edit_ids: Sequence[str] | None = None, current: bool = False) -> list[Edit]:
        """Return these edits, or all, in order of arrival, including superseded ones unless
        `current`.
        """
        rows = sorted(self._rows(edit_ids), key=lambda row: (row.order, row.entry.id))
        chosen = {row.entry.edit_id for row in rows if row.current or not current}
        return [row.edit for row in rows if row.edit_json and row.entry.edit_id in chosen]

    def history(self, subject: str, relation: str) -> FactHistory:
        """Return all edits of one fact, oldest first; the history is empty if there are none."""
        rows = list(self._rows_about([fact_id(subject, relation)]))
        orders = {row.entry.edit_id: row.order for row in rows}
        edits = [(edit, orders[edit.id]) for edit in (self.edits(list(orders)) if orders else ())]
        return build_history(subject, relation, edits, self.superseding)

    def entries(self, edit_ids: Sequence[str]) -> dict[Entry, bool]:
        """Return the entries of these edits, each with whether it is current."""
        rows = sorted(self._rows(edit_ids), key=lambda row: row.entry.id)
        return {row.entry: row.current for row in rows}

    def stats(self) -> MemoryStats:
        """Return the counts of stored edits, entries and facts."""
        return compute_stats(self._rows(None), self.identity, self.superseding)

    def count(self) -> int:
        """Return the number of stored entries, including superseded ones."""
        with self._database_errors():
            return sum(stored.count() for stored in self._stores.values())

    def as_retriever(self, k: int = 5) -> "BaseRetriever":
        """Return a LangChain retriever over the current edits; see
        `emend.memory.tools.EditRetriever`.
        """
        from emend.memory.retrieval.default import Default
        from emend.memory.tools import EditRetriever

        return EditRetriever(strategy=Default(self.view()), k=k)

    def as_tools(self, k: int = 5) -> "list[BaseTool]":
        """Return a LangChain tool that searches the current edits; agents that write use a
        `FactMemory`.
        """
        from emend.memory.tools import search_tool

        return [search_tool(self.as_retriever(k))]

    def _write(
        self, edits: Sequence[Edit], edit_ids: Sequence[str], on_progress: OnProgress
    ) -> None:
        """Replace all rows of `edit_ids` by the rows of `edits`."""
        if not self._stores:
            raise BadSettings(f"{self.location} is closed: open it again to write to it.")
        # an interrupted call may leave an entry in both collections
        rows = self._rows(edit_ids)
        before = {row.entry.id: row for row in rows}
        changes = plan_changes(edits, before, self._rows_about, self.superseding, self._clock)
        if self._database is None and self.count() + len(changes.upsert) > EXACT_LIMIT:
            self._build_index()
        # order of writing: an interrupted call loses superseded edits, never current ones
        for current in (True, False):
            for name, stored in self._stores.items():
                new = [
                    r
                    for r in changes.upsert
                    if r.current == current and choose_collection(r.entry) == name
                ]
                for start in range(0, len(new), PAGE):
                    self._upsert(stored, new[start : start + PAGE], on_progress)
        self._update_flags(changes.update)
        for name, stored in self._stores.items():
            with self._database_errors():
                stored.delete(_to_delete(changes, rows, name))
        if self._shared:
            self._update_flags(find_conflicts(changes, rows, self._rows_about, self.superseding))

    def _update_flags(self, rows: Sequence[MemoryRow]) -> None:
        for name, stored in self._stores.items():
            with self._database_errors():
                stored.update_flags([row for row in rows if choose_collection(row.entry) == name])

    def _upsert(
        self,
        stored: MemoryCollection | LocalRows,
        rows: Sequence[MemoryRow],
        on_progress: OnProgress,
    ) -> None:
        if isinstance(stored, LocalRows):
            stored.upsert(rows)
        elif self.embedding is None:
            raise BadSettings(
                f"{self.location} was opened without an embedding: open it with one to add to it."
            )
        else:
            vectors = self.embedding.documents([row.entry.text for row in rows])
            with self._database_errors():
                stored.upsert(rows, vectors)
        on_progress(len(rows))

    def _build_index(self) -> None:
        """Move the rows of this process to Chroma, whose index is faster than exact search for many
        rows.
        """
        with self._lock:
            if self._database is not None:
                return
            database = ChromaDatabase(
                self._path, self.embedding, self.superseding, True, self._name
            )
            for name, stored in self._stores.items():
                rows = list(stored.rows())
                for start in range(0, len(rows), PAGE):
                    page = rows[start : start + PAGE]
                    vectors = stored.rows_with_vectors([]).vectors([row.entry for row in page])
                    with database.errors():
                        database.collections[name].upsert(page, vectors)
            self._database, self._stores = database, database.collections

    def _database_errors(self) -> AbstractContextManager[None]:
        return nullcontext() if self._database is None else self._database.errors()

    def _rows(self, edit_ids: Sequence[str] | None) -> list[MemoryRow]:
        with self._database_errors():
            return [row for stored in self._stores.values() for row in stored.rows(edit_ids)]

    def _nearest(self, vector: Vectors, k: int) -> list[Hit]:
        with self._database_errors():
            stores = self._database.collections if self._database is not None else {}
            return [hit for stored in stores.values() for hit in stored.nearest(vector, k)]

    def _rows_about(self, facts: Iterable[str]) -> Iterator[MemoryRow]:
        with self._database_errors():
            yield from [row for stored in self._stores.values() for row in stored.rows_about(facts)]


def _collect_vectors(entries: Sequence[Entry], stored: Iterable[RowsWithVectors]) -> Vectors:
    """Return the vectors of entries from several stores, in the order of the entries; shape
    (len(entries), dimensions).
    """
    if not entries:
        return np.zeros((0, 0), np.float32)
    ids, vectors = {entry.id for entry in entries}, dict[str, Vectors]()
    for group in stored:
        chosen = [row.entry for row in group.rows if row.entry.id in ids]
        if chosen:
            vectors |= zip((entry.id for entry in chosen), group.vectors(chosen), strict=True)
    return np.stack([vectors[entry.id] for entry in entries])


class _IndexedCorpus:
    """A corpus of all current entries, searched by Chroma's index; for memories too large for exact
    search.
    """

    def __init__(self, memory: ChromaMemory, queries: QueryVectors) -> None:
        self._memory = memory
        self._queries = queries

    @cached_property
    def _all(self) -> tuple[Entry, ...]:
        entries = (row.entry for row in self._memory._rows(None) if row.current)
        return tuple(sorted(entries, key=lambda entry: entry.id))

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


def _to_delete(changes: StoreChanges, rows: Sequence[MemoryRow], name: str) -> list[str]:
    """Return the ids to delete from a collection: deleted rows, and rows that moved to the other
    collection.
    """
    homes = {row.entry.id: choose_collection(row.entry) for row in (*rows, *changes.upsert)}
    ids = (row.entry.id for row in rows if choose_collection(row.entry) == name)
    return [id_ for id_ in ids if id_ in changes.delete or homes[id_] != name]
