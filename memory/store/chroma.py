"""The memory in Chroma: two collections, documents and triplets, in a folder, on a server, or in this process."""

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from filelock import FileLock

from emend.memory.edit import Edit
from emend.memory.embeddings.embed import Embedding, Vectors
from emend.memory.errors import BadData, BadSettings
from emend.memory.retrieval.base import Corpus, Entry, Hit
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.store.changes import StoreChanges, find_conflicts, plan_changes
from emend.memory.store.collection import PAGE, MemoryCollection
from emend.memory.store.connection import (
    close_client,
    connect,
    database_errors,
    is_url,
    lock_folder,
    open_collection,
    refuse_other,
)
from emend.memory.store.history import FactHistory, MemoryStats, build_history, compute_stats
from emend.memory.store.index_files import IndexFiles
from emend.memory.store.rows import MemoryRow, choose_collection
from emend.memory.store.superseding import Superseding, fact_id, superseded

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool

COLLECTIONS = ("documents", "triplets")
EXACT_LIMIT = 20_000
"""Up to this many entries a view of everything is searched exactly, above it by the index (approximate)."""

_files: WeakKeyDictionary[FileLock, IndexFiles] = WeakKeyDictionary()
"""The index files of each folder that this process has locked; its memories share them, and the lock."""

OnProgress = Callable[[int], None]


def _ignore(entries: int) -> None:
    """Report no progress."""


class ChromaMemory:
    """Stores edits with their embeddings and returns views to search; safe to use from several threads of one process.

    Args:
        path: a folder; `http://HOST:PORT` of a `chroma run` server; None keeps everything in this process, private
            to this object. A folder can be open in one process at a time: for more, start a server.
        embedding: turns texts into vectors. Its identity is stored, and another one is refused later. None opens a
            stored memory without a model: to read and withdraw edits, not to add or search.
        superseding: which of several edits of a (subject, relation) is current; a new memory stores it (default
            `arrival`), and an existing one must have been created with it. None accepts the stored rule.
        create: False refuses a location without a memory.
        name: keeps this memory apart from others on a server.

    Raises:
        MemoryMismatch: the stored memory was embedded by another model, or has another superseding rule.
        MissingData: there is no memory, and `create` is False.
        BadSettings: the folder cannot be used, or the server does not answer.
        MemoryUnavailable: another process uses the folder; from any later call: the server stopped answering.
    """

    def __init__(
        self,
        path: Path | str | None,
        embedding: Embedding | None,
        superseding: Superseding | None = None,
        create: bool = True,
        name: str = "",
    ) -> None:
        self.location = location = "in-process memory" if path is None else str(path)
        self.embedding = embedding
        self._queries = QueryVectors(embedding) if embedding else None
        self._shared = is_url(location)  # other processes may write too
        self._lock = threading.Lock()
        self._clock = 0
        create_with = (embedding.identity, superseding or "arrival") if create and embedding else None
        self._lock_file = lock_folder(path, create_with is not None)
        self._client: Client | None = None
        self._private = path is None
        # In-process clients share their collections: a unique name keeps this memory apart.
        self._suffix = "".join(f"-{part}" for part in (uuid.uuid4().hex if path is None else "", name) if part)
        files = _files.setdefault(self._lock_file, IndexFiles(Path(location).resolve())) if self._lock_file else None
        self._database_errors = partial(database_errors, location, files)
        try:
            self._client = connect(path)
            with self._database_errors():
                stores = {
                    name: open_collection(self._client, name + self._suffix, location, create_with)
                    for name in COLLECTIONS
                }
                for store in stores.values():
                    refuse_other(store, location, embedding, superseding)
            self._collections = {name: MemoryCollection(store, self._batch_limit) for name, store in stores.items()}
        except BaseException:
            self._release()
            raise
        fields = dict(stores[COLLECTIONS[0]].metadata or {})
        self.identity: str = fields["embedding"]
        self.superseding: Superseding = fields["superseding"]

    def close(self) -> None:
        """Release the folder or connection; an in-process memory is deleted. Exact views go on working."""
        if self._private and self._client is not None:
            for stored in self._collections.values():
                self._client.delete_collection(stored.collection.name)
        self._release()

    def _release(self) -> None:
        if self._client is not None:
            close_client(self._client)
        if self._lock_file is not None:
            self._lock_file.release()
        self._client = self._lock_file = None

    def _batch_limit(self) -> int:
        return self._client.get_max_batch_size() if self._client is not None else 1

    def __enter__(self) -> "ChromaMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, edits: Sequence[Edit], on_progress: OnProgress = _ignore) -> None:
        """Store edits in their order; a stored edit with the same id is replaced, which costs nothing if unchanged.

        An edit that is added again counts as arriving now if a later edit is about the same fact. An interrupted call
        can be repeated: nothing is stored twice.

        Args:
            edits: new facts; of two with the same id the last counts.
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
        """Delete edits as if they had never been added: edits that they had superseded are current again.

        Raises:
            BadData: there is no edit of that id; nothing is deleted then.
        """
        with self._lock:
            stored = {row.entry.edit_id for row in self._rows(edit_ids)}
            if missing := [edit_id for edit_id in edit_ids if edit_id not in stored]:
                raise BadData(
                    f"no edit '{missing[0]}' in {self.location}: take an id that `emend memory search` shows."
                )
            self._write([], list(dict.fromkeys(edit_ids)), _ignore)

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """The current entries of these edits alone, or of all; edits added later are not in it.

        The superseding rule is applied to the chosen edits alone, and takes their position in `edit_ids` for the order
        of arrival. A view of chosen edits is always searched exactly; a view of everything up to `EXACT_LIMIT` entries.
        Above that its vector search is live and finds edits that are added later; strategies that index its entries
        know those of the time when they were made.
        """
        if self._queries is None:
            raise BadSettings(f"{self.location} was opened without an embedding: open it with one to search it.")
        if edit_ids is None and self.count() > EXACT_LIMIT:
            return _IndexedCorpus(self, self._queries)
        places = None if edit_ids is None else {edit_id: place for place, edit_id in enumerate(edit_ids)}
        with self._database_errors():
            chosen = None if places is None else list(places)
            pairs = [pair for stored in self._collections.values() for pair in stored.rows_with_vectors(chosen)]
        if places is not None:
            claims = [row.claim._replace(order=places[row.entry.edit_id]) for row, _ in pairs]
            old = superseded(claims, self.superseding)
            pairs = [(row._replace(current=row.entry.id not in old), vector) for row, vector in pairs]
        pairs = sorted((pair for pair in pairs if pair[0].current), key=lambda pair: pair[0].entry.id)
        vectors = np.stack([vector for _, vector in pairs]) if pairs else np.zeros((0, 0), np.float32)
        return ExactCorpus([row.entry for row, _ in pairs], vectors, self._queries)

    def edits(self, edit_ids: Sequence[str] | None = None, current: bool = False) -> list[Edit]:
        """These edits, or all, in the order in which they arrived; superseded ones too, unless `current`."""
        rows = sorted(self._rows(edit_ids), key=lambda row: (row.order, row.entry.id))
        chosen = {row.entry.edit_id for row in rows if row.current or not current}
        return [row.edit for row in rows if row.edit_json and row.entry.edit_id in chosen]

    def history(self, subject: str, relation: str) -> FactHistory:
        """All edits of one fact, oldest first; no versions if there are none."""
        rows = list(self._rows_about([fact_id(subject, relation)]))
        orders = {row.entry.edit_id: row.order for row in rows}
        edits = [(edit, orders[edit.id]) for edit in (self.edits(list(orders)) if orders else ())]
        return build_history(subject, relation, edits, self.superseding)

    def entries(self, edit_ids: Sequence[str]) -> dict[Entry, bool]:
        """The entries of these edits, and whether each is current."""
        rows = sorted(self._rows(edit_ids), key=lambda row: row.entry.id)
        return {row.entry: row.current for row in rows}

    def stats(self) -> MemoryStats:
        """Counts of the stored edits, entries and facts."""
        return compute_stats(self._rows(None), self.identity, self.superseding)

    def count(self) -> int:
        """Number of stored entries, superseded ones included."""
        with self._database_errors():
            return sum(stored.count() for stored in self._collections.values())

    def as_retriever(self, k: int = 5) -> "BaseRetriever":
        """Search of the current edits as a retriever of LangChain; see `emend.memory.tools.EditRetriever`."""
        from emend.memory.retrieval.default import Default
        from emend.memory.tools import EditRetriever

        return EditRetriever(strategy=Default(self.view()), k=k)

    def as_tools(self, k: int = 5) -> "list[BaseTool]":
        """Search of the current edits as a tool; agents that write use a `FactMemory`."""
        from langchain_core.tools import create_retriever_tool

        description = "Find the edits whose wording or meaning is nearest to a question."
        return [create_retriever_tool(self.as_retriever(k), "search_memory", description)]

    def _write(self, edits: Sequence[Edit], edit_ids: Sequence[str], on_progress: OnProgress) -> None:
        """Put `edits` in place of all rows of `edit_ids`."""
        rows = self._rows(edit_ids)  # an interrupted call may have left an entry in both collections
        before = {row.entry.id: row for row in rows}
        changes = plan_changes(edits, before, self._rows_about, self.superseding, self._clock)
        for current in (True, False):  # if interrupted, the memory lacks superseded edits and never current ones
            for name, stored in self._collections.items():
                new = [r for r in changes.upsert if r.current == current and choose_collection(r.entry) == name]
                for start in range(0, len(new), PAGE):
                    self._upsert(stored, new[start : start + PAGE], on_progress)
        self._update_flags(changes.update)
        for name, stored in self._collections.items():
            with self._database_errors():
                stored.delete(_to_delete(changes, rows, name))
        if self._shared:
            self._update_flags(find_conflicts(changes, rows, self._rows_about, self.superseding))

    def _update_flags(self, rows: Sequence[MemoryRow]) -> None:
        for name, stored in self._collections.items():
            with self._database_errors():
                stored.update_flags([row for row in rows if choose_collection(row.entry) == name])

    def _upsert(self, stored: MemoryCollection, rows: Sequence[MemoryRow], on_progress: OnProgress) -> None:
        if self.embedding is None:
            raise BadSettings(f"{self.location} was opened without an embedding: open it with one to add to it.")
        vectors = self.embedding.documents([row.entry.text for row in rows])
        with self._database_errors():
            stored.upsert(rows, vectors)
        on_progress(len(rows))

    def _rows(self, edit_ids: Sequence[str] | None) -> list[MemoryRow]:
        with self._database_errors():
            return [row for stored in self._collections.values() for row in stored.rows(edit_ids)]

    def _nearest(self, vector: Vectors, k: int) -> list[Hit]:
        with self._database_errors():
            return [hit for stored in self._collections.values() for hit in stored.nearest(vector, k)]

    def _rows_about(self, facts: Iterable[str]) -> Iterator[MemoryRow]:
        with self._database_errors():
            yield from [row for stored in self._collections.values() for row in stored.rows_about(facts)]


class _IndexedCorpus:
    """All current entries, searched by the collections' own index; for memories too big for exact search."""

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
    """Ids to delete from a collection: deleted rows, and rows that are now stored in the other one."""
    homes = {row.entry.id: choose_collection(row.entry) for row in (*rows, *changes.upsert)}
    ids = (row.entry.id for row in rows if choose_collection(row.entry) == name)
    return [id_ for id_ in ids if id_ in changes.delete or homes[id_] != name]
