"""The memory: two Chroma collections, documents and triplets, that hold what edits say."""

import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import numpy as np

from emend.memory.edit import Edit
from emend.memory.embed import Embedding, Vectors
from emend.memory.errors import BadSettings, MemoryMismatch
from emend.memory.exact import DECIMALS, ExactCorpus, QueryVectors
from emend.memory.retrieval.base import Corpus, Entry, Hit

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection

COLLECTIONS = ("documents", "triplets")
EXACT_LIMIT = 20_000
"""Up to this many entries a view of everything is searched exactly, above it by Chroma's HNSW index (approximate)."""
PAGE = 2_000  # entries read at once: Chroma hands vectors out in double precision
IDS = 500  # edit ids in one filter: SQLite bounds the variables of a statement


class ChromaMemory:
    """Stores what edits say, embedded, and lends views of it; safe to use from several threads of one process.

    Args:
        path: a folder; `http://HOST:PORT` of a `chroma run` server; None keeps everything in this process and alone
            to this object. A folder takes one process at a time: for more, start a server.
        embedding: turns texts into vectors. Its identity is stored, and another one is refused later.

    Raises:
        MemoryMismatch: what is stored there was embedded by another model.
        BadSettings: the folder cannot be used, or the server does not answer.
    """

    def __init__(self, path: Path | str | None, embedding: Embedding) -> None:
        self._where = "in-process memory" if path is None else str(path)
        self._client = _client(path)
        self._embedding = embedding
        self._queries = QueryVectors(embedding)
        self._lock = threading.Lock()
        # In-process clients share their collections: a name of its own keeps this memory apart.
        self._suffix = f"-{uuid.uuid4().hex}" if path is None else ""
        try:
            self._stores = {name: self._open(name) for name in COLLECTIONS}
        except BaseException:
            _close(self._client)
            raise

    def add(self, edits: Sequence[Edit]) -> None:
        """Store the edits; one stored before under the same id is replaced, one that is unchanged costs nothing."""
        wanted: dict[str, dict[str, Entry]] = {name: {} for name in COLLECTIONS}
        known = {edit.id: edit for edit in edits}
        for edit in known.values():
            for entry in entries_of(edit):
                wanted[_collection(entry)][entry.id] = entry
        with self._lock:
            for name, store in self._stores.items():
                stored = {e.id: e for e in _entries(store, list(known))}
                changed = [e for e in wanted[name].values() if stored.get(e.id) != e]
                self._upsert(store, changed)
                stale = sorted(stored.keys() - wanted[name].keys())
                for start in range(0, len(stale), IDS):
                    store.delete(ids=stale[start : start + IDS])

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """The entries of these edits alone, or of all, as they are now; what is added later is not in it.

        A view of chosen edits is always searched exactly; one of everything up to `EXACT_LIMIT` entries.
        """
        if edit_ids is None and self.count() > EXACT_LIMIT:
            return _HnswCorpus(list(self._stores.values()), self._queries)
        chosen = None if edit_ids is None else sorted(set(edit_ids))
        found = [pair for store in self._stores.values() for pair in _embedded(store, chosen)]
        found.sort(key=lambda pair: pair[0].id)  # by content, not by the order in which threads stored it
        vectors = np.stack([vector for _, vector in found]) if found else np.zeros((0, 0), np.float32)
        return ExactCorpus([entry for entry, _ in found], vectors, self._queries)

    def count(self) -> int:
        """Number of entries stored."""
        return sum(store.count() for store in self._stores.values())

    def close(self) -> None:
        """Let go of folder or connection; an in-process memory is gone. Exact views go on working."""
        if self._suffix:
            for store in self._stores.values():
                self._client.delete_collection(store.name)
        _close(self._client)

    def _open(self, name: str) -> "Collection":
        from chromadb.errors import NotFoundError

        try:
            store = self._client.get_collection(name + self._suffix, embedding_function=None)
        except NotFoundError:
            store = self._client.get_or_create_collection(
                name + self._suffix,
                embedding_function=None,
                configuration={"hnsw": {"space": "cosine"}},
                metadata={"embedding": self._embedding.identity},
            )
        stored = (store.metadata or {}).get("embedding")
        if stored != self._embedding.identity:
            raise MemoryMismatch(
                f"collection '{name}' in {self._where} was embedded by '{stored or 'an unnamed model'}', this is "
                f"'{self._embedding.identity}': open it with that embedding, or choose another folder."
            )
        return store

    def _upsert(self, store: "Collection", entries: Sequence[Entry]) -> None:
        if not entries:
            return
        vectors = self._embedding.documents([entry.text for entry in entries])
        size = min(PAGE, self._client.get_max_batch_size())
        for start in range(0, len(entries), size):
            part = entries[start : start + size]
            store.upsert(
                ids=[entry.id for entry in part],
                embeddings=vectors[start : start + size],
                documents=[entry.text for entry in part],
                metadatas=[_metadata(entry) for entry in part],
            )

    def __enter__(self) -> "ChromaMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _HnswCorpus:
    """All entries of the collections, searched by Chroma's own index; for memories too big for exact search."""

    def __init__(self, stores: Sequence["Collection"], queries: QueryVectors) -> None:
        self._stores = stores
        self._queries = queries

    @cached_property
    def _all(self) -> tuple[Entry, ...]:
        found = (entry for store in self._stores for entry in _entries(store, None))
        return tuple(sorted(found, key=lambda entry: entry.id))

    def entries(self) -> Sequence[Entry]:
        return self._all

    def embed(self, queries: Sequence[str]) -> Vectors:
        return self._queries(queries)

    def nearest(self, query: str, k: int) -> list[Hit]:
        if k <= 0:
            return []
        vector = self._queries([query])
        hits = [hit for store in self._stores for hit in _query(store, vector, k)]
        return sorted(hits, key=lambda hit: (-hit.score, hit.entry.id))[:k]


def entries_of(edit: Edit) -> list[Entry]:
    """What the memory holds of an edit: its text, or each of its triplets when its form is `triplets`.

    A blank text gives no entry: an edit from which nothing could be extracted cannot be found.
    """
    many = edit.form == "triplets" and edit.triplets
    texts = [triplet.text for triplet in edit.triplets] if many else [edit.text]
    kind = "triplet" if edit.form == "triplets" else edit.form
    return [
        Entry(id=f"{edit.id}.{place:03d}", edit_id=edit.id, text=text, kind=kind, time=edit.time)
        for place, text in enumerate(texts)
        if text.strip()
    ]


def _collection(entry: Entry) -> str:
    return "triplets" if entry.kind == "triplet" else "documents"


def _metadata(entry: Entry) -> Mapping[str, str]:
    # Upsert merges metadata, so that a key left out would keep its old value: no time is written as "".
    return {"edit_id": entry.edit_id, "kind": entry.kind, "time": entry.time or ""}


def _entry(id_: str, text: str, told: Mapping[str, Any]) -> Entry:
    return Entry(id=id_, edit_id=told["edit_id"], text=text, kind=told["kind"], time=told["time"] or None)


def _pages(store: "Collection", edit_ids: list[str] | None, include: list[Any]) -> Iterator[Any]:
    if edit_ids is None:
        for offset in range(0, store.count(), PAGE):
            yield store.get(limit=PAGE, offset=offset, include=include)
        return
    for start in range(0, len(edit_ids), IDS):
        chosen: Any = {"edit_id": {"$in": edit_ids[start : start + IDS]}}
        yield store.get(where=chosen, include=include)


def _entries(store: "Collection", edit_ids: list[str] | None) -> Iterator[Entry]:
    for page in _pages(store, edit_ids, ["documents", "metadatas"]):
        yield from map(_entry, page["ids"], page["documents"], page["metadatas"])


def _embedded(store: "Collection", edit_ids: list[str] | None) -> Iterable[tuple[Entry, Vectors]]:
    for page in _pages(store, edit_ids, ["documents", "metadatas", "embeddings"]):
        entries = map(_entry, page["ids"], page["documents"], page["metadatas"])
        yield from zip(entries, np.asarray(page["embeddings"], dtype=np.float32), strict=True)


def _query(store: "Collection", vector: Vectors, k: int) -> Iterator[Hit]:
    found: Any = store.query(query_embeddings=vector, n_results=k)
    if not found["ids"]:
        return
    columns = (found[part][0] for part in ("ids", "documents", "metadatas", "distances"))
    for id_, text, told, distance in zip(*columns, strict=True):
        score = round(max(-1.0, min(1.0, 1.0 - distance)), DECIMALS)
        yield Hit(entry=_entry(id_, text, told), score=score)


def _client(path: Path | str | None) -> "Client":
    import chromadb
    from chromadb.config import Settings
    from chromadb.errors import ChromaError

    # The same settings everywhere: Chroma refuses to open one folder twice with different ones.
    settings = Settings(anonymized_telemetry=False)
    if path is None:
        return cast("Client", chromadb.EphemeralClient(settings=settings))
    if str(path).startswith(("http://", "https://")):
        return _server(str(path), settings)
    try:
        return cast("Client", chromadb.PersistentClient(str(path), settings=settings))
    except (ChromaError, OSError, ValueError) as error:
        raise BadSettings(
            f"memory folder '{path}' cannot be used: {error}. Name a folder that can be written to."
        ) from error


def _server(url: str, settings: Any) -> "Client":
    import chromadb

    try:
        parts = urlsplit(url)
        port = parts.port or 8000
        host, ssl = parts.hostname or "127.0.0.1", parts.scheme == "https"
        return cast("Client", chromadb.HttpClient(host, port, ssl=ssl, settings=settings))
    except ValueError as error:
        raise BadSettings(
            f"no Chroma server at '{url}': {error} Start one with "
            "`chroma run --host 127.0.0.1 --port 8000 --path FOLDER`, or name a folder."
        ) from error


def _close(client: "Client") -> None:
    # Closing a client of a server leaves its connections open (chromadb 1.5), and those of the admin client inside it.
    parts = (client, getattr(client, "_admin_client", None))
    sessions = [getattr(getattr(part, "_server", None), "_session", None) for part in parts]
    client.close()
    for session in sessions:
        if session is not None:
            session.close()
