"""An SQLite journal of providers' replies, so that no reply is paid for twice.

Two uses of one class: the journal of a run holds the replies of unfinished units, so that a resumed
run repeats none of their calls; the cache (`--cache FOLDER`) is shared by runs and answers equal
calls of any unit.
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
from emend.memory.errors import BadData, BadSettings, RejectedAgain, RunRefused, UnclearRejection
from emend.memory.files import connect_database, use_write_ahead_log
from emend.memory.redaction import hide_keys

FILE = "replies.sqlite"
# Version of the file's schema; files with another version are rejected.
VERSION = 1
# Time to wait for other processes that write to the file.
WAIT_SECONDS = 30
# Key suffix that marks a call rejected for an unknown reason.
REJECTED = "/rejected"
# Key suffix that marks its second rejection.
FINALLY_REJECTED = "/rejected-again"


class ReplyStore(Protocol):
    """Replies by key, as JSON without API keys; subclasses implement the storage."""

    def find(self, key: str) -> AIMessage | None:
        """Return the original reply, or None if there is no readable one."""
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
        """Store a reply, unless there already is one under the key."""
        # ASCII, since SQLite refuses the lone surrogates that some replies hold.
        self.write(key, hide_keys(json.dumps(message_to_dict(message), default=str)))

    def read(self, key: str) -> str | None:
        """Return the JSON of a reply."""

    def write(self, key: str, reply: str) -> None:
        """Store the JSON of a reply, unless there is one."""

    def forget(self, unit: str) -> None:
        """Delete the replies of a unit."""

    def warn(self, error: Exception) -> None:
        """Warn once that a reply cannot be read or stored."""

    def require_room(self) -> None:
        """Raise an error before a further call if an earlier reply could not be stored.

        Raises:
            RunRefused: a reply could not be stored; continuing would pay for replies that are lost
                if the run is killed.
        """


class CallJournal(ReplyStore):
    """Replies by key in one SQLite file; safe for concurrent threads and processes.

    Each reply is committed immediately, so a killed process loses none. The file contains JSON
    without API keys, and no prompts. After opening, a failure of the file never loses the current
    reply: a full disk or a damaged page gives one warning. A cache is then no longer used; within a
    unit of a run no further call is made, see `require_room`.

    Args:
        folder: the folder of the file, which is created if necessary.
        remedy: last sentence of the error message when the file cannot be used.

    Raises:
        BadSettings: the folder cannot be written, or the file is not a regular file, not a database
            or has another schema.
    """

    def __init__(self, folder: Path, remedy: str = "Give another --cache.") -> None:
        self.path = folder / FILE
        self._lock, self._warned, self._is_full = threading.Lock(), False, False
        try:
            self._database = connect_database(
                self.path, timeout=WAIT_SECONDS, check_same_thread=False, isolation_level=None
            )
            version = self._prepare()
        except (BadData, OSError, sqlite3.Error, UnicodeDecodeError) as error:
            reason = str(error).rstrip(".")
            raise BadSettings(
                f"the file of replies '{self.path}' cannot be used: {reason}. {remedy}"
            ) from error
        if version not in (0, VERSION):
            self._database.close()
            raise BadSettings(
                f"the file of replies '{self.path}' has version {version}, but this Emend reads "
                f"version {VERSION}. {remedy}"
            )

    def _prepare(self) -> int:
        """Create the table of a new file; return the version that the file had, 0 for a new one."""
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            use_write_ahead_log(self._database, WAIT_SECONDS)
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)"
            )
            self._database.execute(f"PRAGMA user_version={VERSION}")
        self._database.execute("PRAGMA synchronous=NORMAL")
        return int(version)

    def read(self, key: str) -> str | None:
        """Return the JSON of a reply."""
        rows = self._execute("SELECT reply FROM replies WHERE key = ?", key)
        return rows[0][0] if rows else None

    def write(self, key: str, reply: str) -> None:
        """Store the JSON of a reply, unless there is one."""
        if self._execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", key, reply) is None:
            self._is_full = True

    def require_room(self) -> None:
        """Raise an error before a further call if an earlier reply could not be stored.

        Raises:
            RunRefused: a reply could not be stored.
        """
        if self._is_full:
            raise RunRefused(
                f"a reply could not be stored in '{self.path}', so no further calls are made: "
                "free space on its disk, then try again."
            )

    def forget(self, unit: str) -> None:
        """Delete the replies of a unit."""
        # "0" follows "/"
        self._execute("DELETE FROM replies WHERE key >= ? AND key < ?", f"{unit}/", f"{unit}0")

    def _execute(self, command: str, *values: str) -> list[Any] | None:
        """Return all rows of a command; None when the file fails."""
        try:
            with self._lock:
                return self._database.execute(command, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.warn(error)
            return None

    def warn(self, error: Exception) -> None:
        """Warn once that a reply cannot be read or stored."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the file of replies '{self.path}' cannot be used now: {error}.", stacklevel=4
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


class RunJournal(CallJournal):
    """The journal of a run, which keeps the keys of its replies, since no other process writes it:
    a call without a stored reply needs no query.
    """

    def __init__(self, folder: Path, remedy: str) -> None:
        super().__init__(folder, remedy)
        self._keys: dict[str, set[str]] = {}
        # a damaged file may have keys of other types, or only some of its replies may be readable
        rows = self._execute("SELECT key FROM replies WHERE typeof(key) = 'text'")
        self._knows_all = rows is not None
        for (key,) in rows or ():
            self._keys.setdefault(_unit_of(key), set()).add(key)

    def read(self, key: str) -> str | None:
        """Return the JSON of a reply."""
        if self._knows_all and key not in self._keys.get(_unit_of(key), ()):
            return None
        return super().read(key)

    def write(self, key: str, reply: str) -> None:
        """Store the JSON of a reply, unless there is one."""
        super().write(key, reply)
        self._keys.setdefault(_unit_of(key), set()).add(key)

    def forget(self, unit: str) -> None:
        """Delete the replies of a unit."""
        if self._keys.pop(unit, None):
            super().forget(unit)

    def units(self) -> set[str]:
        """Return the units with stored replies."""
        return set(self._keys)


def _unit_of(key: str) -> str:
    """Return the unit in a key of the form `UNIT/CALL/NTH`."""
    return key.partition("/")[0]


@contextmanager
def run_journal(folder: Path, finished: Collection[str] = ()) -> Iterator[RunJournal]:
    """Open the journal of a run; its file is deleted at the end if no unit is in progress.

    Args:
        folder: run folder.
        finished: keys of finished units, whose replies a killed process may have left behind.

    Raises:
        BadSettings: the file cannot be used.
    """
    journal = RunJournal(
        folder, "Delete it and try again: the calls of unfinished units are then repeated."
    )
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
    """The calls of one unit; equal calls are numbered."""

    def __init__(self, journal: ReplyStore, unit: str) -> None:
        self.journal, self.unit = journal, unit
        self.counts = Counter[str]()
        self._lock = threading.Lock()

    def next_key(self, call: str) -> str:
        """Return the key of the unit's next call with this content."""
        with self._lock:
            self.counts[call] += 1
            return f"{self.unit}/{call}/{self.counts[call]}"


_UNIT: ContextVar[UnitCalls | None] = ContextVar("unit", default=None)


@contextmanager
def unit_scope(journal: ReplyStore | None, unit: str) -> Iterator[None]:
    """Journal the calls made inside as calls of a unit, and delete them when it ends without an
    error.

    Args:
        journal: journal of the run; None journals nothing.
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
    """Journal the calls made inside as further calls of a unit; None journals nothing."""
    token = _UNIT.set(calls)
    try:
        yield
    finally:
        _UNIT.reset(token)


def in_unit() -> bool:
    """Return whether calls made now are journaled, see `unit_scope`."""
    return _UNIT.get() is not None


def replay_or_call(call_id: str, call: Callable[[], AIMessage]) -> AIMessage:
    """Return the journaled reply to this call of the unit, or else make the call.

    Raises:
        RejectedAgain: the call is rejected for an unknown reason for the second time, so that
            further resumes will not repeat it.
        RunRefused: an earlier reply could not be stored.
    """
    calls = _UNIT.get()
    if calls is None:
        return call()
    key = calls.next_key(call_id)
    reply = calls.journal.find(key)
    if reply is None:
        reply = _call_unless_rejected(calls.journal, key, call)
        calls.journal.add(key, reply)
    return reply


def _call_unless_rejected(
    journal: ReplyStore, key: str, call: Callable[[], AIMessage]
) -> AIMessage:
    """Return the reply; a call that is rejected for an unknown reason is made at most twice, in two
    runs.
    """
    final = journal.read(key + FINALLY_REJECTED)
    if final is not None:
        raise RejectedAgain(json.loads(final))
    journal.require_room()
    try:
        return call()
    except UnclearRejection as error:
        message = hide_keys(str(error))
        if journal.read(key + REJECTED) is None:
            journal.write(key + REJECTED, json.dumps(message))
            raise
        message = f"{message} It was rejected again."
        journal.write(key + FINALLY_REJECTED, json.dumps(message))
        raise RejectedAgain(message) from error


def call_key(spec: str, address: str, payload: Any, repeat: int) -> str:
    """Return a digest of everything that determines a reply: model, address, request, and number of
    the repeat.
    """
    return content_id("reply", VERSION, spec, address, payload, repeat)
