"""A cache of vectors on disk, keyed by model and text, so that each text is embedded once."""

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emend.memory.edit import content_id
from emend.memory.errors import BadData
from emend.memory.files import connect_database, empty_database

# texts embedded per write, so that an interrupted run keeps most of its vectors
CHUNK = 256
# Time that an operation waits for other processes.
WAIT_SECONDS = 30

_Vectors = NDArray[np.float32]


class VectorCache:
    """A cache in one SQLite file per model; threads and processes may share it.

    A cache that cannot be read or written (full disk, read-only folder) is skipped with a warning,
    and a damaged one is recreated, so that the cache never ends a run.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self._file = Path(folder).expanduser() / f"vectors-{content_id('vectors', identity)}.sqlite"

    def get_or_embed(
        self, role: str, texts: Sequence[str], embed: Callable[[Sequence[str]], _Vectors]
    ) -> _Vectors:
        """Return cached vectors, embedding the texts that are missing; shape (len(texts),
        dimensions).

        Args:
            role: `document` or `query`; a model may embed a text differently in each role.
            texts: at least one.
            embed: embeds the distinct texts that are not cached.
        """
        keys = {text: hashlib.sha256(f"{role}\0{text}".encode()).digest() for text in texts}
        cached = self._read(keys)
        missing = [text for text in keys if text not in cached]
        for start in range(0, len(missing), CHUNK):
            part = missing[start : start + CHUNK]
            new = dict(zip(part, embed(part), strict=True))
            self._write({keys[text]: vector for text, vector in new.items()})
            cached |= new
        return np.stack([cached[text] for text in texts])

    def _read(self, keys: dict[str, bytes]) -> dict[str, _Vectors]:
        vectors: dict[str, _Vectors] = {}
        with _errors_as_warnings(self._file), self._transaction("DEFERRED") as table:
            if not table.execute("SELECT 1 FROM sqlite_master WHERE name = 'vectors'").fetchone():
                return vectors
            for text, key in keys.items():
                row = table.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
                if row:
                    vectors[text] = np.frombuffer(row[0], dtype="<f4").astype(np.float32)
        return vectors

    def _write(self, vectors: dict[bytes, _Vectors]) -> None:
        rows = [(key, vector.astype("<f4").tobytes()) for key, vector in vectors.items()]
        with _errors_as_warnings(self._file), self._transaction("IMMEDIATE") as table:
            table.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")
            table.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Hold one transaction, during which no other process can empty the file.

        Args:
            mode: of SQLite; `IMMEDIATE` if the transaction writes.
        """
        options: dict[str, Any] = {"timeout": WAIT_SECONDS, "isolation_level": None}
        with closing(connect_database(self._file, **options)) as table, table:
            table.execute(f"BEGIN {mode}")
            yield table


@contextmanager
def _errors_as_warnings(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.OperationalError, BadData) as error:
        _warn_once(f"vector cache {file} is skipped: {error}")
    except sqlite3.DatabaseError as error:  # any other database error: the file is damaged
        _warn_once(f"vector cache {file} is damaged ({error}) and is rebuilt")
        try:
            empty_database(file, WAIT_SECONDS, only_damaged=True)
        except (OSError, sqlite3.Error, BadData) as problem:
            _warn_once(f"vector cache {file} cannot be rebuilt: {problem}")


@cache
def _warn_once(message: str) -> None:
    logging.getLogger(__name__).warning("%s", message)
