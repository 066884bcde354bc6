"""Storage of the statements, dependencies, conflicts and journal of a memory of facts."""

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from emend.memory.errors import BadData
from emend.memory.facts.database import FactDatabase
from emend.memory.facts.fact import (
    SHARED,
    Dependency,
    JournalEntry,
    Operation,
    fact_key,
    owner_key,
    subject_key,
)
from emend.memory.facts.timeline import Statement
from emend.memory.facts.word_index import WordIndex
from emend.memory.store.superseding import fact_id

Table = Literal["statements", "dependencies"]
_SELECT = (
    "SELECT number, id, start, end, recorded_at, retracted_at, corrects, replaces, operation, "
    "erased, content FROM statements JOIN texts USING (number) "
)
# Text fields of a statement.
_TEXTS = ("subject", "relation", "object", "user", "source")


class ConflictRow(NamedTuple):
    """A stored conflict; `resolved_at` is empty while the conflict is open."""

    id: str
    key: str
    owner: str
    opened_at: str
    resolved_at: str


class Rule(NamedTuple):
    """A stored dependency, with its number among all texts and its time of retraction."""

    number: int
    dependency: Dependency
    retracted_at: str


class FactStore:
    """Access to the tables of statements, dependencies, conflicts and operations.

    Args:
        database: the SQLite file.
    """

    def __init__(self, database: FactDatabase) -> None:
        self._database = database
        self.words = WordIndex(database)

    def add_operation(self, user: str, id_: str, kind: Operation, recorded_at: str) -> int:
        """Add a row to the journal and return its number."""
        insert = (
            "INSERT INTO operations (owner, id, kind, recorded_at, ids) VALUES (?, ?, ?, ?, '[]')"
        )
        return self._database.insert(insert, owner_key(user), id_, kind, recorded_at)

    def finish_operation(self, number: int, ids: Sequence[str]) -> None:
        """Record the ids of the facts and rules that an operation stated or changed."""
        self._database.rows(
            "UPDATE operations SET ids = ? WHERE number = ?", json.dumps(list(ids)), number
        )

    def find_operation(self, user: str, id_: str) -> JournalEntry | None:
        """Return a user's operation with that id, or None."""
        return next(iter(self._journal("WHERE owner = ? AND id = ?", owner_key(user), id_)), None)

    def journal(self, after: int = 0) -> list[JournalEntry]:
        """Return the operations with a number above `after`, in order."""
        return self._journal("WHERE number > ? ORDER BY number", after)

    def count_operations(self) -> int:
        """Return the number of operations of all users."""
        return int(self._database.value("SELECT count(*) FROM operations") or 0)

    def last_recorded(self, user: str) -> str:
        """Return the time of the user's latest operation; empty if there is none."""
        return (
            self._database.value(
                "SELECT max(recorded_at) FROM operations WHERE owner = ?", owner_key(user)
            )
            or ""
        )

    def add_statement(self, statement: Statement) -> Statement:
        """Store a statement under the number of its text and return it with that number."""
        number = self._database.add_text({name: getattr(statement, name) for name in _TEXTS})
        keys = _keys(statement)
        times = (statement.start, statement.end, statement.recorded_at, "")
        links = (statement.corrects, json.dumps(statement.replaces), statement.operation, 0)
        insert = f"INSERT INTO statements VALUES ({', '.join('?' * 13)})"
        self._database.rows(insert, number, statement.id, *keys, *times, *links)
        self.words.add(number, statement.user, statement.text)
        return statement._replace(number=number)

    def statements(self, key: str) -> list[Statement]:
        """Return the statements of a fact key in the order in which they were made."""
        return self._statements("WHERE key = ? ORDER BY number", key)

    def find_statement(self, id_: str) -> Statement | None:
        """Return the statement with that id, whose text may be erased, or None."""
        return next(iter(self._statements("WHERE id = ?", id_)), None)

    def numbered(self, numbers: Sequence[int]) -> list[Statement]:
        """Return the statements with these numbers."""
        marks = ", ".join("?" * len(numbers))
        return self._statements(f"WHERE number IN ({marks}) ORDER BY number", *numbers)

    def statements_about(self, user: str, subject: str) -> list[Statement]:
        """Return a user's statements about a subject in the order in which they were made."""
        return self._statements("WHERE subject = ? ORDER BY number", subject_key(user, subject))

    def statements_of(self, user: str) -> list[Statement]:
        """Return all statements of a user in the order in which they were made."""
        return self._statements("WHERE owner = ? ORDER BY number", owner_key(user))

    def add_rule(self, dependency: Dependency) -> None:
        """Store a dependency.

        Raises:
            BadData: the derived fact would depend on itself.
        """
        fact = fact_id(dependency.subject, dependency.relation)
        base = fact_id(dependency.base_subject, dependency.base_relation)
        if fact in self._bases(base, dependency.user):
            raise BadData(
                f"'{dependency.relation}' of '{dependency.subject}' would follow from itself by "
                f"way of '{dependency.base_relation}' of '{dependency.base_subject}': leave this "
                "dependency out, or forget the one that leads back."
            )
        number = self._database.add_text(dependency.model_dump(mode="json"))
        keys = _keys(dependency)
        insert = f"INSERT INTO dependencies VALUES ({', '.join('?' * 9)})"
        self._database.rows(
            insert, number, dependency.id, *keys, fact, base, dependency.recorded_at, ""
        )
        self.words.add(number, dependency.user, dependency.text)

    def rules(self, key: str) -> list[Rule]:
        """Return the dependencies that derive a fact key, oldest first."""
        return self._rules("key = ?", key)

    def rules_about(self, user: str, subject: str) -> list[Rule]:
        """Return a user's dependencies that derive facts about a subject, oldest first."""
        return self._rules("subject = ?", subject_key(user, subject))

    def rules_of(self, user: str) -> list[Rule]:
        """Return all dependencies of a user, oldest first."""
        return self._rules("owner = ?", owner_key(user))

    def find_rule(self, id_: str) -> Rule | None:
        """Return the dependency with that id, or None."""
        return next(iter(self._rules("id = ?", id_)), None)

    def rules_numbered(self, numbers: Sequence[int]) -> list[Rule]:
        """Return the dependencies with these numbers."""
        return self._rules(f"number IN ({', '.join('?' * len(numbers))})", *numbers)

    def retract(self, table: Table, number: int, recorded_at: str) -> None:
        """Mark a statement or dependency as retracted."""
        self._database.rows(
            f"UPDATE {table} SET retracted_at = ? WHERE number = ?", recorded_at, number
        )

    def erase(self, statement: Statement, operation: int) -> None:
        """Erase the text of a statement; its period stays occupied, without a value."""
        self.words.remove(statement.number, statement.user, statement.text)
        self._database.erase_text(statement.number)
        self._database.rows(
            "UPDATE statements SET erased = ? WHERE number = ?", operation, statement.number
        )

    def drop(self, table: Table, number: int, record: Statement | Dependency) -> None:
        """Remove a statement or dependency as if it had never been made."""
        self.words.remove(number, record.user, record.text)
        self._database.erase_text(number)
        self._database.rows(f"DELETE FROM {table} WHERE number = ?", number)

    def count(self) -> int:
        """Return the number of statements."""
        return int(self._database.value("SELECT count(*) FROM statements"))

    def add_conflict(self, id_: str, key: str, user: str, opened_at: str) -> None:
        """Open a conflict about a fact key."""
        insert = "INSERT INTO conflicts VALUES (?, ?, ?, ?, '')"
        self._database.rows(insert, id_, key, owner_key(user), opened_at)

    def resolve_conflict(self, id_: str, resolved_at: str) -> None:
        """Close a conflict."""
        self._database.rows("UPDATE conflicts SET resolved_at = ? WHERE id = ?", resolved_at, id_)

    def conflicts(self, key: str) -> list[ConflictRow]:
        """Return the conflicts about a fact key."""
        return self._conflicts("key = ?", key)

    def find_conflict(self, id_: str) -> ConflictRow | None:
        """Return the conflict with that id, or None."""
        return next(iter(self._conflicts("id = ?", id_)), None)

    def open_conflicts(self, user: str) -> list[ConflictRow]:
        """Return the unresolved conflicts of a user."""
        return self._conflicts("owner = ? AND resolved_at = ''", owner_key(user))

    def drop_conflicts(self, key: str) -> None:
        """Remove all conflicts about a fact key."""
        self._database.rows("DELETE FROM conflicts WHERE key = ?", key)

    def _statements(self, condition: str, *values: Any) -> list[Statement]:
        rows = self._database.rows(_SELECT + condition, *values)
        with self._database.reading_content():
            return [_statement(dict(row)) for row in rows]

    def _rules(self, condition: str, *values: Any) -> list[Rule]:
        rows = self._database.rows(
            "SELECT number, content, dependencies.retracted_at FROM dependencies JOIN texts USING "
            f"(number) WHERE {condition} ORDER BY number",
            *values,
        )
        with self._database.reading_content():
            return [
                Rule(number, Dependency.model_validate_json(content), at)
                for number, content, at in rows
            ]

    def _bases(self, fact: str, user: str) -> set[str]:
        """Return a fact and all facts it depends on, by rules of the user and shared rules.

        For `SHARED`, the rules of all users are followed.
        """
        owners = () if user == SHARED else (owner_key(user), owner_key(SHARED))
        condition = "retracted_at = ''" + (" AND owner IN (?, ?)" if owners else "")
        select = (
            "WITH RECURSIVE reached (fact) AS (VALUES (?) UNION "
            f"SELECT base FROM dependencies JOIN reached USING (fact) WHERE {condition}) SELECT "
            "fact FROM reached"
        )
        return {base for (base,) in self._database.rows(select, fact, *owners)}

    def _conflicts(self, condition: str, value: str) -> list[ConflictRow]:
        select = (
            f"SELECT id, key, owner, opened_at, resolved_at FROM conflicts WHERE {condition} ORDER "
            "BY opened_at, id"
        )
        return [ConflictRow(*row) for row in self._database.rows(select, value)]

    def _journal(self, condition: str, *values: Any) -> list[JournalEntry]:
        select = (
            "SELECT number, id AS operation_id, kind AS operation, recorded_at, ids FROM "
            "operations "
        )
        rows = [dict(row) for row in self._database.rows(select + condition, *values)]
        with self._database.reading_content():
            return [JournalEntry(**row | {"ids": json.loads(row["ids"])}) for row in rows]


def _keys(record: Statement | Dependency) -> tuple[str, str, str]:
    """Return the digests of a record's fact key, subject and user."""
    user, subject = record.user, record.subject
    return fact_key(user, subject, record.relation), subject_key(user, subject), owner_key(user)


def _statement(row: dict[str, Any]) -> Statement:
    content = row.pop("content")
    texts: dict[str, str] = dict.fromkeys(_TEXTS, "") if row["erased"] else json.loads(content)
    return Statement(**row | texts | {"replaces": tuple(json.loads(row["replaces"]))})
