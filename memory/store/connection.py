"""Connections to Chroma: the folder lock, the client, and errors that name a remedy."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from emend.memory.embeddings.embed import Embedding
from emend.memory.errors import (
    BadData,
    BadSettings,
    EmendError,
    MemoryMismatch,
    MemoryUnavailable,
    MissingData,
)
from emend.memory.escape import one_line
from emend.memory.files import FILE_MODE, open_file, private_folder
from emend.memory.store.collection import choose_space
from emend.memory.store.index_files import IndexFiles
from emend.memory.store.superseding import Superseding

if TYPE_CHECKING:
    from chromadb.api.client import Client

# HNSW settings: twice Chroma's default search width and neighbours, for better recall (measured in
# scripts/benchmarks).
INDEX = {"space": "cosine", "ef_construction": 200, "max_neighbors": 32, "ef_search": 200}
LOCK = "emend.lock"
# File name of Chroma's database in a folder.
DATABASE = "chroma.sqlite3"
HOST_PORT = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d+")


def open_collection(
    client: "Client", name: str, location: str, create_with: tuple[str, str] | None
) -> Any:
    """Return the collection of that name; create it if `create_with` gives an embedding identity
    and a superseding rule.
    """
    from chromadb.errors import NotFoundError

    try:
        return client.get_collection(name, embedding_function=None)
    except NotFoundError as error:
        if create_with is None:
            raise no_memory(location) from error
    return client.get_or_create_collection(
        name,
        embedding_function=None,
        configuration={"hnsw": cast(Any, INDEX | {"space": choose_space(create_with[0])})},
        metadata={"embedding": create_with[0], "superseding": create_with[1]},
    )


def refuse_other(
    store: Any, location: str, embedding: Embedding | None, rule: Superseding | None
) -> None:
    """Raise an error for a collection with another embedding or superseding rule."""
    fields = dict(store.metadata or {})
    stored, here = fields.get("embedding"), embedding.identity if embedding else None
    if stored is None or here not in (None, stored):
        raise MemoryMismatch(
            f"collection '{store.name}' in {location} was embedded by "
            f"'{stored or 'an unnamed model'}', but this is '{here}': open it with that embedding "
            f"({_find_option(stored)}), or choose another folder."
        )
    stored_rule = fields.get("superseding")
    if stored_rule is None or rule not in (None, stored_rule):
        raise MemoryMismatch(
            f"collection '{store.name}' in {location} supersedes by '{stored_rule or 'no rule'}', "
            f"not by '{rule}': leave the rule out, or choose another folder."
        )


def _find_option(identity: str | None) -> str:
    """Return the command-line option that selects the embedding with this identity."""
    name = (identity or "").partition("/")[0]
    known = {"lexical-1": "--embedding lexical", "all-MiniLM-L6-v2": "--embedding minilm"}
    if ":" in name:
        return f"--embedding {name}"
    name, plus, adapter = name.partition("+")
    if plus:
        return f"{known.get(name, f'--embedding {name}')}+FOLDER, the folder of '{adapter}'"
    return known.get(name, f"--embedding with the name or folder of {name or 'its model'}")


def no_memory(location: str) -> MissingData:
    """Return the error for a location without a memory that must not be created."""
    return MissingData(
        f"no memory in {location}: create one with `emend memory add`, or name another location."
    )


def is_url(path: Path | str | None) -> bool:
    """Return whether a path is the address of a server."""
    return str(path).lower().startswith(("http://", "https://"))


def lock_folder(path: Path | str | None, create: bool) -> FileLock | None:
    """Acquire the lock of a folder; objects of one process share it, and a killed process releases
    it.
    """
    if path is None or is_url(path):
        return None
    # for an empty path, Chroma would create the database in the root of the file system
    if not str(path):
        raise BadSettings(
            "the memory's name is empty: name a folder, or http://HOST:PORT of a server."
        )
    folder = Path(path)
    if HOST_PORT.fullmatch(str(path)) and not folder.exists():
        raise BadSettings(
            f"the memory '{path}' looks like a server's address: write http://{path}."
        )
    if not create and not (folder / DATABASE).exists():
        raise no_memory(str(path))
    try:
        private_folder(folder, links=True)
        lock = FileLock(
            folder.resolve() / LOCK,
            timeout=0,
            mode=FILE_MODE,
            is_singleton=True,
            thread_local=False,
        )
        lock.acquire()
    except Timeout as error:
        raise MemoryUnavailable(
            f"another process is using the memory folder '{path}' (it holds {LOCK}): wait for it, "
            f"or let both share a server: `chroma run --path {path} --host 127.0.0.1 --port "
            "8000`, and name http://127.0.0.1:8000."
        ) from error
    except (OSError, BadData) as error:
        raise _unusable(path, error) from error
    return lock


def _unusable(path: Path | str, error: Exception) -> BadSettings:
    return BadSettings(
        f"memory folder '{path}' cannot be used: {error}. Name a folder that can be written to."
    )


@contextmanager
def database_errors(location: str, files: IndexFiles | None) -> Iterator[None]:
    """Convert errors of the database into errors that name a remedy."""
    import httpx
    from chromadb.errors import ChromaError, InternalError

    try:
        with files.used() if files else nullcontext():
            yield
    except (httpx.HTTPError, ConnectionError, InternalError, OSError) as error:
        again = (
            "start it again (`chroma run`)"
            if is_url(location)
            else ("check that its disk is not full")
        )
        raise MemoryUnavailable(
            f"the memory {location} stopped answering ({type(error).__name__}: "
            f"{error or 'no reason given'}): {again}, and repeat the command; stored edits are "
            "kept and not stored twice."
        ) from error
    except ChromaError as error:
        raise BadSettings(
            f"the memory {location} rejected the operation ({type(error).__name__}): {error}"
        ) from error
    except EmendError:
        raise
    except Exception as error:
        # For a reply from another server Chroma's client raises anything; for one that it cannot
        # parse, Exception.
        if type(error) is not Exception and not is_url(location):
            raise
        raise MemoryUnavailable(
            f"the memory {location} rejected the operation: {error}. Stored edits are kept."
        ) from error


def connect(path: Path | str | None) -> "Client":
    """Return a client for a folder, a server, or this process (None).

    Raises:
        BadSettings: the folder cannot be used, or the server does not answer.
    """
    import chromadb
    from chromadb.config import Settings
    from chromadb.errors import ChromaError

    # Use the same settings everywhere: Chroma refuses to open a folder twice with different ones.
    settings = Settings(anonymized_telemetry=False)
    if path is None:
        return cast("Client", chromadb.EphemeralClient(settings=settings))
    if is_url(path):
        return _server(str(path), settings)
    try:
        folder = Path(path).resolve()  # Chroma treats two spellings of one folder as two databases
        open_file(folder / DATABASE, "ab").close()  # private if new; a link is refused
        _refuse_triggers(folder / DATABASE)
        return cast("Client", chromadb.PersistentClient(str(folder), settings=settings))
    except (BadData, ChromaError, OSError, ValueError) as error:
        raise _unusable(path, error) from error


def _refuse_triggers(file: Path) -> None:
    """Refuse a database with triggers or views: Chroma makes none, and they change what it reads
    and writes.

    Raises:
        BadData: the database has a trigger or a view.
    """
    query = "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    with suppress(sqlite3.Error), closing(sqlite3.connect(file)) as database:  # Chroma says why
        for (name,) in database.execute(query).fetchmany(1):
            raise BadData(
                f"its {DATABASE} has a trigger or view '{one_line(str(name), 80)}', which another "
                "program made"
            )


def _server(url: str, settings: Any) -> "Client":
    from emend.memory.store.server import bounded_client

    try:
        parts = urlsplit(url)
        port = parts.port or 8000
        host, ssl = parts.hostname or "127.0.0.1", parts.scheme == "https"
        host = f"[{host}]" if ":" in host else host
        return cast("Client", bounded_client(host, port, ssl, settings))
    except Exception as error:  # chromadb may raise anything for a reply from another server
        raise BadSettings(
            f"no Chroma server at '{url}' ({error or type(error).__name__}): start one with "
            "`chroma run --host 127.0.0.1 --port 8000 --path FOLDER`, or name a folder."
        ) from error


def close_client(client: "Client") -> None:
    """Close a client, and its connections and those of its admin client, which chromadb 1.5 leaves
    open.
    """
    parts = (client, getattr(client, "_admin_client", None))
    sessions = [getattr(getattr(part, "_server", None), "_session", None) for part in parts]
    client.close()
    for session in sessions:
        if session is not None:
            session.close()
