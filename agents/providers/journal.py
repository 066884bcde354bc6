"""SQLite journal of providers' replies, which keeps replies that were paid for from being asked for again.

Two uses of one class: the journal of a run holds the replies of unfinished units, so that a resumed run repeats none of
their calls; the cache (`--cache FOLDER`) is shared by runs and answers equal calls of any unit.
"""

import json
import sqlite3
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from langchain_core.messages import AIMessage, message_to_dict, messages_from_dict

from emend.memory.edit import content_id
from emend.memory.errors import BadData, BadSettings
from emend.memory.files import connect_database
from emend.memory.redaction import hide_keys

FILE = "replies.sqlite"
VERSION = 1
"""Version of the file's schema; another one is refused."""
UNIT = "substr(key, 1, instr(key, '/') - 1)"
"""SQL for the unit in a key of the form `UNIT/CALL/NTH`."""


class ReplyStore(Protocol):
    """Replies by key, as JSON with API keys hidden; a subclass says where that JSON is."""

    def find(self, key: str) -> AIMessage | None:
        """Return the reply as it came; None without a readable one."""
        reply = self.read(key)
        if reply is None:
            return None
        try:
            (message,) = messages_from_dict([json.loads(reply)])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self.warn(error)
            return None
        return message if isinstance(message, AIMessage) else None

    def add(self, key: str, message: AIMessage) -> None:
        """Store a reply; an earlier reply under the same key stays."""
        # ASCII, since SQLite refuses the lone surrogates that some replies hold.
        self.write(key, hide_keys(json.dumps(message_to_dict(message), default=str)))

    def read(self, key: str) -> str | None:
        """Return the JSON of a reply."""

    def write(self, key: str, reply: str) -> None:
        """Store the JSON of a reply, unless there is one."""

    def forget(self, unit: str) -> None:
        """Delete the replies of a unit."""

    def warn(self, error: Exception) -> None:
        """Say, once, that a reply cannot be read or stored."""


class CallJournal(ReplyStore):
    """Replies by key in one SQLite file; safe for many threads and processes.

    Each reply is committed when it comes, so a killed process loses none. The file holds JSON with API keys hidden, and
    no prompts. After opening, no failure of the file raises: a full disk or a damaged page gives a warning, once, and
    calls are made as without a journal.

    Args:
        folder: where the file is, or is created.
        remedy: last sentence of the error message when the file cannot be used.

    Raises:
        BadSettings: the folder cannot be written, or the file is no regular file, no database or has another schema.
    """

    def __init__(self, folder: Path, remedy: str = "Give another --cache.") -> None:
        self.path = folder / FILE
        self._lock, self._warned = threading.Lock(), False
        try:
            self._database = connect_database(self.path, timeout=30, check_same_thread=False, isolation_level=None)
            version = self._prepare()
        except (BadData, OSError, sqlite3.Error, UnicodeDecodeError) as error:
            reason = str(error).rstrip(".")
            raise BadSettings(f"the file of replies '{self.path}' cannot be used: {reason}. {remedy}") from error
        if version not in (0, VERSION):
            self._database.close()
            raise BadSettings(
                f"the file of replies '{self.path}' has version {version}, this Emend reads version {VERSION}. {remedy}"
            )

    def _prepare(self) -> int:
        """Create the table of a new file; return the version that the file had, 0 for a new one."""
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
            self._database.execute(f"PRAGMA user_version={VERSION}")
        self._database.execute("PRAGMA synchronous=NORMAL")
        return int(version)

    def read(self, key: str) -> str | None:
        """Return the JSON of a reply."""
        rows = self._execute("SELECT reply FROM replies WHERE key = ?", key)
        return rows[0][0] if rows else None

    def write(self, key: str, reply: str) -> None:
        """Store the JSON of a reply, unless there is one."""
        self._execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", key, reply)

    def forget(self, unit: str) -> None:
        """Delete the replies of a unit."""
        self._execute("DELETE FROM replies WHERE key >= ? AND key < ?", f"{unit}/", f"{unit}0")  # "0" follows "/"

    def units(self) -> set[str]:
        """Return the units with stored replies."""
        return {str(row[0]) for row in self._execute(f"SELECT DISTINCT {UNIT} FROM replies") or ()}  # noqa: S608

    def _execute(self, command: str, *values: str) -> list[Any] | None:
        """Return all rows of a command; None when the file fails."""
        try:
            with self._lock:
                return self._database.execute(command, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.warn(error)
            return None

    def warn(self, error: Exception) -> None:
        """Say, once, that a reply cannot be read or stored."""
        if not self._warned:
            self._warned = True
            warnings.warn(f"the file of replies '{self.path}' cannot be used now: {error}.", stacklevel=4)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


@contextmanager
def run_journal(folder: Path, finished: Collection[str] = ()) -> Iterator[CallJournal]:
    """Open the journal of a run; its file is deleted at the end when no unit in progress is left.

    Args:
        folder: run folder.
        finished: keys of finished units, whose replies a killed process may have left behind.

    Raises:
        BadSettings: the file cannot be used.
    """
    journal = CallJournal(folder, "Delete it and resume the run: the calls of unfinished units are then made again.")
    rows: list[Any] | None = None
    try:
        for unit in journal.units().intersection(finished):
            journal.forget(unit)
        yield journal
    finally:
        rows = journal._execute("SELECT 1 FROM replies LIMIT 1")
        journal.close()
        if rows == []:
            journal.path.unlink(missing_ok=True)


class UnitCalls:
    """Calls of one unit, numbered among equal ones."""

    def __init__(self, journal: ReplyStore, unit: str) -> None:
        self.journal, self.unit = journal, unit
        self.counts = Counter[str]()
        self._lock = threading.Lock()

    def next_key(self, call: str) -> str:
        """Return the key of the unit's next call of this content."""
        with self._lock:
            self.counts[call] += 1
            return f"{self.unit}/{call}/{self.counts[call]}"


_UNIT: ContextVar[UnitCalls | None] = ContextVar("unit", default=None)


@contextmanager
def unit_scope(journal: ReplyStore | None, unit: str) -> Iterator[None]:
    """Journal the calls made inside as those of a unit, and forget them when it ends without an error.

    Args:
        journal: the run's; None journals nothing.
        unit: key of the unit.
    """
    if journal is None:
        yield
        return
    calls = UnitCalls(journal, unit)
    with calls_scope(calls):
        yield
    if calls.counts:
        journal.forget(unit)


@contextmanager
def calls_scope(calls: UnitCalls | None) -> Iterator[None]:
    """Journal the calls made inside as further ones of a unit; None journals nothing."""
    token = _UNIT.set(calls)
    try:
        yield
    finally:
        _UNIT.reset(token)


def in_unit() -> bool:
    """Return whether calls made now are journaled, see `unit_scope`."""
    return _UNIT.get() is not None


def replay_or_call(call_id: str, call: Callable[[], AIMessage]) -> AIMessage:
    """Return the reply that this call of the unit had before the run was interrupted, else that of `call`."""
    calls = _UNIT.get()
    if calls is None:
        return call()
    key = calls.next_key(call_id)
    reply = calls.journal.find(key)
    if reply is None:
        reply = call()
        calls.journal.add(key, reply)
    return reply


def call_key(spec: str, address: str, payload: Any, repeat: int) -> str:
    """Return the digest of all that decides a reply: model, address, whole request, number of the repeat."""
    return content_id("reply", VERSION, spec, address, payload, repeat)
