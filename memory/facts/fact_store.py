"""The stored statements, conflicts and journal of a memory of facts."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from emend.memory.edit import content_id
from emend.memory.facts.database import FactDatabase
from emend.memory.facts.fact import JournalEntry, Operation
from emend.memory.facts.timeline import Statement
from emend.memory.store.superseding import fact_id
from emend.memory.typography import fold_text

_SELECT = (
    "SELECT number, id, start, end, recorded_at, retracted_at, corrects, replaces, operation, erased, content "
    "FROM statements JOIN texts USING (number) "
)
_TEXTS = ("subject", "relation", "object", "user", "source")
"""The texts of a statement."""


class ConflictRow(NamedTuple):
    """A stored conflict; `resolved_at` is empty while it is open."""

    id: str
    key: str
    owner: str
    opened_at: str
    resolved_at: str


def fact_key(user: str, subject: str, relation: str) -> str:
    """The digest of one relation of one subject of one user."""
    return content_id("user's fact", user, fact_id(subject, relation))


def subject_key(user: str, subject: str) -> str:
    """The digest of one subject of one user."""
    return content_id("user's subject", user, fold_text(subject))


def owner_key(user: str) -> str:
    """The digest of a user."""
    return content_id("user", user)


class FactStore:
    """Rows of statements, conflicts and operations; each method is one statement of SQL.

    Args:
        database: the file.
    """

    def __init__(self, database: FactDatabase) -> None:
        self._database = database

    def add_operation(self, user: str, id_: str, kind: Operation, recorded_at: str) -> int:
        """Add a row to the journal and return its number."""
        insert = "INSERT INTO operations (owner, id, kind, recorded_at, ids) VALUES (?, ?, ?, ?, '[]')"
        return self._database.insert(insert, owner_key(user), id_, kind, recorded_at)

    def finish_operation(self, number: int, ids: Sequence[str]) -> None:
        """Note the facts and rules that an operation stated or changed."""
        self._database.rows("UPDATE operations SET ids = ? WHERE number = ?", json.dumps(list(ids)), number)

    def find_operation(self, user: str, id_: str) -> JournalEntry | None:
        """The operation of a user with that id."""
        return next(iter(self._journal("WHERE owner = ? AND id = ?", owner_key(user), id_)), None)

    def journal(self, after: int = 0) -> list[JournalEntry]:
        """The operations after that number, in order."""
        return self._journal("WHERE number > ? ORDER BY number", after)

    def last_recorded(self, user: str) -> str:
        """The latest time at which a user said something; empty if there is none."""
        return self._database.value("SELECT max(recorded_at) FROM operations WHERE owner = ?", owner_key(user)) or ""

    def add_statement(self, statement: Statement) -> int:
        """Store a statement and return its number, which is that of its text; its own counts for nothing."""
        number = self._database.add_text({name: getattr(statement, name) for name in _TEXTS})
        user, subject = statement.user, statement.subject
        keys = (fact_key(user, subject, statement.relation), subject_key(user, subject), owner_key(user))
        times = (statement.start, statement.end, statement.recorded_at, "")
        links = (statement.corrects, json.dumps(statement.replaces), statement.operation, 0)
        insert = f"INSERT INTO statements VALUES ({', '.join('?' * 13)})"
        return self._database.insert(insert, number, statement.id, *keys, *times, *links)

    def statements(self, key: str) -> list[Statement]:
        """The statements of a fact's key, in the order in which they were made."""
        return self._statements("WHERE key = ? ORDER BY number", key)

    def find_statement(self, id_: str) -> Statement | None:
        """The statement of that id; its text may be erased."""
        return next(iter(self._statements("WHERE id = ?", id_)), None)

    def numbered(self, numbers: Sequence[int]) -> list[Statement]:
        """The statements of these numbers."""
        marks = ", ".join("?" * len(numbers))
        return self._statements(f"WHERE number IN ({marks}) ORDER BY number", *numbers)

    def statements_about(self, user: str, subject: str) -> list[Statement]:
        """The statements of a user about a subject, in the order in which they were made."""
        return self._statements("WHERE subject = ? ORDER BY number", subject_key(user, subject))

    def statements_of(self, user: str) -> list[Statement]:
        """All statements of a user, in the order in which they were made."""
        return self._statements("WHERE owner = ? ORDER BY number", owner_key(user))

    def retract(self, number: int, recorded_at: str) -> None:
        """Mark a statement as taken back."""
        self._database.rows("UPDATE statements SET retracted_at = ? WHERE number = ?", recorded_at, number)

    def erase(self, number: int, operation: int) -> None:
        """Erase the text of a statement; the place that it has in time stays empty."""
        self._database.erase_text(number)
        self._database.rows("UPDATE statements SET erased = ? WHERE number = ?", operation, number)

    def drop(self, number: int) -> None:
        """Remove a statement as if it had never been made."""
        self._database.erase_text(number)
        self._database.rows("DELETE FROM statements WHERE number = ?", number)

    def count(self) -> int:
        """Number of statements."""
        return int(self._database.value("SELECT count(*) FROM statements"))

    def add_conflict(self, id_: str, key: str, user: str, opened_at: str) -> None:
        """Open a conflict about a fact's key."""
        insert = "INSERT INTO conflicts VALUES (?, ?, ?, ?, '')"
        self._database.rows(insert, id_, key, owner_key(user), opened_at)

    def resolve_conflict(self, id_: str, resolved_at: str) -> None:
        """Close a conflict."""
        self._database.rows("UPDATE conflicts SET resolved_at = ? WHERE id = ?", resolved_at, id_)

    def conflicts(self, key: str) -> list[ConflictRow]:
        """The conflicts about a fact's key."""
        return self._conflicts("key = ?", key)

    def find_conflict(self, id_: str) -> ConflictRow | None:
        """The conflict of that id."""
        return next(iter(self._conflicts("id = ?", id_)), None)

    def open_conflicts(self, user: str) -> list[ConflictRow]:
        """The conflicts of a user that nobody has resolved."""
        return self._conflicts("owner = ? AND resolved_at = ''", owner_key(user))

    def drop_conflicts(self, key: str) -> None:
        """Remove all conflicts about a fact's key."""
        self._database.rows("DELETE FROM conflicts WHERE key = ?", key)

    def _statements(self, condition: str, *values: Any) -> list[Statement]:
        return [_statement(*row) for row in self._database.rows(_SELECT + condition, *values)]

    def _conflicts(self, condition: str, value: str) -> list[ConflictRow]:
        select = (
            f"SELECT id, key, owner, opened_at, resolved_at FROM conflicts WHERE {condition} ORDER BY opened_at, id"
        )
        return [ConflictRow(*row) for row in self._database.rows(select, value)]

    def _journal(self, condition: str, *values: Any) -> list[JournalEntry]:
        names = ("number", "operation_id", "operation", "recorded_at")
        rows = self._database.rows(f"SELECT number, id, kind, recorded_at, ids FROM operations {condition}", *values)
        return [JournalEntry(**dict(zip(names, row, strict=False)), ids=json.loads(row[4])) for row in rows]


def _statement(*row: Any) -> Statement:
    number, id_, start, end, recorded_at, retracted_at, corrects, replaces, operation, erased, content = row
    texts: dict[str, str] = dict.fromkeys(_TEXTS, "") if erased else json.loads(content)
    return Statement(
        **texts,
        number=number,
        id=id_,
        start=start,
        end=end,
        recorded_at=recorded_at,
        retracted_at=retracted_at,
        corrects=corrects,
        replaces=tuple(json.loads(replaces)),
        operation=operation,
        erased=erased,
    )
