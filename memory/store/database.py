"""The Chroma database of a memory: its location, lock and two collections."""

import uuid
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from filelock import FileLock

from emend.memory.embeddings.embed import Embedding
from emend.memory.store.collection import MemoryCollection
from emend.memory.store.connection import (
    close_client,
    connect,
    database_errors,
    lock_folder,
    open_collection,
    refuse_other,
)
from emend.memory.store.index_files import IndexFiles
from emend.memory.store.superseding import Superseding

if TYPE_CHECKING:
    from chromadb.api.client import Client

COLLECTIONS = ("documents", "triplets")
IN_PROCESS = "in-process memory"

# Index files by folder that this process has locked; the memories of a folder share them and the
# lock.
_files: WeakKeyDictionary[FileLock, IndexFiles] = WeakKeyDictionary()


class ChromaDatabase:
    """An open database; takes the arguments and raises the errors of `ChromaMemory`."""

    def __init__(
        self,
        path: Path | str | None,
        embedding: Embedding | None,
        superseding: Superseding | None,
        create: bool,
        name: str,
    ) -> None:
        self._location = IN_PROCESS if path is None else str(path)
        self._private = path is None
        create_with = (
            (embedding.identity, superseding or "arrival") if create and embedding else None
        )
        self._lock_file = lock_folder(path, create_with is not None)
        self.client: Client | None = None
        self._files: IndexFiles | None = None
        if self._lock_file:
            self._files = _files.setdefault(
                self._lock_file, IndexFiles(Path(self._location).resolve())
            )
        # In-process clients share their collections: a unique name keeps this memory apart.
        suffix = "".join(
            f"-{word}" for word in (uuid.uuid4().hex if path is None else "", name) if word
        )
        self.collections: dict[str, MemoryCollection] = {}
        try:
            self.client = connect(path)
            with self.errors():
                names = {name: name + suffix for name in COLLECTIONS}
                stores = {
                    name: open_collection(self.client, full, self._location, create_with)
                    for name, full in names.items()
                }
                for store in stores.values():
                    refuse_other(store, self._location, embedding, superseding)
            self.collections = {
                name: MemoryCollection(store, self._batch_limit) for name, store in stores.items()
            }
        except BaseException:
            self._release()
            raise
        fields = dict(stores[COLLECTIONS[0]].metadata or {})
        self.identity: str = fields["embedding"]
        self.superseding: Superseding = fields["superseding"]

    def errors(self) -> AbstractContextManager[None]:
        """Return a context that converts errors of the collections into errors that name a
        remedy.
        """
        return database_errors(self._location, self._files)

    def close(self) -> None:
        """Release the folder or connection; the collections of this process are deleted."""
        if self._private and self.client is not None:
            for stored in self.collections.values():
                self.client.delete_collection(stored.collection.name)
        self._release()

    def _release(self) -> None:
        if self.client is not None:
            close_client(self.client)
        if self._lock_file is not None:
            self._lock_file.release()
        self.client = self._lock_file = None

    def _batch_limit(self) -> int:
        return self.client.get_max_batch_size() if self.client is not None else 1
