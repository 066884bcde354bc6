"""SQLite file of a memory of facts: tables, transactions and errors.

All texts are in the table `texts`. Its rows are appended, and overwritten in place when they are
forgotten, so that no page of the file keeps an old copy. The other tables hold only numbers, times,
and digests of names and words. The write-ahead log keeps old pages; they are erased after an
operation has forgotten something, and when the file is opened.
"""

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from emend.memory.errors import BadData, MemoryMismatch, MemoryUnavailable
from emend.memory.facts.log_frames import erase_former_frames, read_salt
from emend.memory.files import connect_database, use_write_ahead_log

FILE = "facts.sqlite3"
VERSION = 1
# Time that an operation waits for other processes.
WAIT_SECONDS = 30
RETRY_SECONDS = 0.005
# Largest log for which overwriting is faster than truncating.
WIPED_BYTES = 2**21
_SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE texts (number INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE statements (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, key TEXT NOT NULL, subject TEXT NOT NULL,
    owner TEXT NOT NULL,
    start TEXT NOT NULL, end TEXT NOT NULL, recorded_at TEXT NOT NULL, retracted_at TEXT NOT NULL,
    corrects INTEGER NOT NULL, replaces TEXT NOT NULL, operation INTEGER NOT NULL,
    erased INTEGER NOT NULL
);
CREATE INDEX statement_keys ON statements (key);
CREATE INDEX statement_subjects ON statements (subject);
CREATE INDEX statement_owners ON statements (owner);
CREATE TABLE dependencies (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, key TEXT NOT NULL, subject TEXT NOT NULL,
    owner TEXT NOT NULL,
    fact TEXT NOT NULL, base TEXT NOT NULL, recorded_at TEXT NOT NULL, retracted_at TEXT NOT NULL
);
CREATE INDEX dependency_keys ON dependencies (key);
CREATE INDEX dependency_subjects ON dependencies (subject);
CREATE INDEX dependency_facts ON dependencies (fact);
CREATE TABLE conflicts (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, owner TEXT NOT NULL, opened_at TEXT NOT NULL,
    resolved_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX conflict_keys ON conflicts (key);
CREATE INDEX conflict_owners ON conflicts (owner);
CREATE TABLE postings (term INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (term,
number)) WITHOUT ROWID;
CREATE TABLE operations (
    number INTEGER PRIMARY KEY, owner TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL,
    recorded_at TEXT NOT NULL,
    ids TEXT NOT NULL, UNIQUE (owner, id)
);
CREATE INDEX operation_times ON operations (owner, recorded_at);
"""


PRAGMAS = (
    "trusted_schema = OFF",
    "secure_delete = ON",
    "synchronous = FULL",
)
# Keeps the log's index in this process: on a full disk there is no room for its file.
ALONE = "locking_mode = EXCLUSIVE"


def _is_out_of_room(error: MemoryUnavailable) -> bool:
    """Return whether SQLite could not create or enlarge a file."""
    code = getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


class FactDatabase:
    """SQLite database that is safe to use from several threads and processes.

    Args:
        path: the file; None keeps everything in memory.

    Raises:
        BadData: the file was not written by Emend.
        MemoryMismatch: the file was written by another version.
        MemoryUnavailable: another process holds the file for longer than `WAIT_SECONDS`, or a new
            file does not fit on a full disk; an existing file on a full disk can be read by one
            process.
    """

    def __init__(self, path: Path | None) -> None:
        self.location = "in-process memory" if path is None else str(path)
        self._lock = threading.RLock()
        self._has_erased = False
        self._log = path.with_name(f"{path.name}-wal") if path else None
        try:
            self._open(path, PRAGMAS)
            self._empty_log()
        except MemoryUnavailable as error:
            if not _is_out_of_room(error):
                raise
            # No other process has the file open, or the index that processes share would exist.
            self._open(path, (ALONE, *PRAGMAS))
        self.salt = bytes(self.value("SELECT value FROM settings WHERE name = 'salt'"))

    def _open(self, path: Path | None, pragmas: Iterable[str]) -> None:
        """Connect to the file and create the tables of a new one."""
        options: dict[str, Any] = {
            "isolation_level": None,
            "check_same_thread": False,
            "timeout": WAIT_SECONDS,
        }
        with self._errors():
            self._connection = (
                connect_database(path, **options)
                if path
                else sqlite3.connect(":memory:", **options)
            )
        self._connection.row_factory = sqlite3.Row
        try:
            for pragma in pragmas:
                self.rows(f"PRAGMA {pragma}")
            with self._errors():
                use_write_ahead_log(self._connection, WAIT_SECONDS)
            self._create()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction, which is undone if the block raises; other writers wait.

        A nested transaction is part of the outer one, but can be undone alone.
        """
        with self._lock:
            begin, undo, commit = ("BEGIN IMMEDIATE", "ROLLBACK", "COMMIT")
            if self._connection.in_transaction:
                begin, undo, commit = ("SAVEPOINT inner", "ROLLBACK TO inner", "RELEASE inner")
            self.rows(begin)
            try:
                yield
            except BaseException:
                self.rows(undo)
                raise
            self.rows(commit)
            if self._has_erased and not self._connection.in_transaction:
                self._has_erased = False
                if not self._wipe_log():
                    raise MemoryUnavailable(
                        f"another process is reading from {self.location}, so its log cannot be "
                        "emptied: forgotten facts are in no answer, and are erased from the disk "
                        "when the file is next opened."
                    )

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        with self._lock, self._errors():
            return self._connection.execute(statement, values).fetchall()

    def value(self, statement: str, *values: Any) -> Any:
        """Return the first value of the first row; None if there is no row."""
        return next(iter(self.rows(statement, *values)), (None,))[0]

    def insert(self, statement: str, *values: Any) -> int:
        """Add a row and return its number."""
        with self._lock, self._errors():
            return int(self._connection.execute(statement, values).lastrowid or 0)

    def run_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run a statement once for each row of values."""
        with self._lock, self._errors():
            self._connection.executemany(statement, rows)

    def add_text(self, fields: dict[str, Any]) -> int:
        """Store texts and return their number."""
        return self.insert(
            "INSERT INTO texts (content) VALUES (?)",
            json.dumps(fields, ensure_ascii=False).encode(),
        )

    def erase_text(self, number: int) -> None:
        """Overwrite texts with zeros of the same length, so that their page keeps its layout."""
        self._has_erased = True
        self.rows("UPDATE texts SET content = zeroblob(length(content)) WHERE number = ?", number)

    def _wipe_log(self) -> bool:
        """Write the log's pages to the database and fill the log with zeros.

        Returns False if a reader blocks it. Overwriting takes half as long as truncating the log,
        after which each write has to allocate disk space again.
        """
        if self._log is None:
            return True
        if self._log.stat().st_size > WIPED_BYTES:
            return self._empty_log()
        salt = read_salt(self._log)
        if not self._checkpoint("RESTART"):
            return False
        self._begin_log()
        self.rows("BEGIN IMMEDIATE")  # no other process can write now
        try:
            is_new = read_salt(self._log) != salt
            if is_new:
                erase_former_frames(self._log)
        finally:
            self.rows("ROLLBACK")
        return is_new or self._empty_log()

    def _begin_log(self) -> None:
        """Write a harmless value, so that a log whose pages are all in the database restarts.

        The write is not synchronised to disk, so that nothing of value may depend on it.
        """
        self.rows("PRAGMA synchronous = OFF")
        try:
            self.rows(f"PRAGMA user_version = {VERSION}")
        finally:
            self.rows("PRAGMA synchronous = FULL")

    def _empty_log(self) -> bool:
        """Write the log's pages to the database and truncate the log; False if a reader blocks
        it.
        """
        return self._checkpoint("TRUNCATE")

    def _checkpoint(self, kind: str) -> bool:
        """Write the log's pages to the database; False after `WAIT_SECONDS` of blocking readers."""
        end = time.monotonic() + WAIT_SECONDS
        while self.rows(f"PRAGMA wal_checkpoint({kind})")[0][0]:
            if time.monotonic() >= end:
                return False
            time.sleep(RETRY_SECONDS)  # SQLite waits for readers, but not for other checkpoints
        return True

    def _create(self) -> None:
        """Create the tables of a new file, or check those of an existing one."""
        with self.transaction():
            version = self.value("PRAGMA user_version")
            if not version and not self.value("SELECT count(*) FROM sqlite_master"):
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self.rows(statement)
                self.rows("INSERT INTO settings VALUES ('salt', ?)", secrets.token_bytes(16))
                self.rows(f"PRAGMA user_version = {VERSION}")
            elif version != VERSION:
                raise MemoryMismatch(
                    f"{self.location} was written by another version of Emend ({version}, not "
                    f"{VERSION}), or by another program: use that version, or name another folder."
                )
            else:
                self._refuse_foreign_schema()

    def _refuse_foreign_schema(self) -> None:
        """Reject a file with unexpected tables, views or triggers, which could run foreign code.

        Raises:
            BadData: there is an unexpected one; the message names the first.
        """
        query = "SELECT type, name, sql FROM sqlite_master"
        with closing(sqlite3.connect(":memory:")) as plain:
            plain.executescript(_SCHEMA)
            expected = {tuple(row) for row in plain.execute(query)}
        foreign = [tuple(row) for row in self.rows(query) if tuple(row) not in expected]
        if foreign:
            kind, name, _ = foreign[0]
            raise BadData(
                f"{self.location} is not a memory of Emend: its {kind} '{name[:60]}' is "
                "different. Name another folder."
            )

    @contextmanager
    def reading_content(self) -> Iterator[None]:
        """Raise BadData if the block cannot parse stored content."""
        try:
            yield
        except (ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise BadData(f"{self.location} is damaged ({reason}): name another folder.") from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert database errors to errors that suggest a remedy."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise MemoryUnavailable(
                f"the memory {self.location} cannot be used now ({error}): check that its disk is "
                "not full and that no other program uses it, and repeat the operation with the "
                "same id."
            ) from error
        except sqlite3.DatabaseError as error:
            raise BadData(
                f"{self.location} is not a memory of facts, or is damaged ({error}): name another "
                "folder."
            ) from error
