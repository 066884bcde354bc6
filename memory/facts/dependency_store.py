"""The stored dependencies between facts, and the refusal of circles."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from emend.memory.errors import BadData
from emend.memory.facts.database import FactDatabase
from emend.memory.facts.fact import SHARED, Dependency
from emend.memory.facts.fact_store import fact_key, owner_key, subject_key
from emend.memory.store.superseding import fact_id


class Rule(NamedTuple):
    """A stored dependency with its number, which is in the order of statements, and when it was taken back."""

    number: int
    dependency: Dependency
    retracted_at: str


class DependencyStore:
    """Rows of dependencies.

    Args:
        database: the file.
    """

    def __init__(self, database: FactDatabase) -> None:
        self._database = database

    def add(self, dependency: Dependency) -> int:
        """Store a dependency and return its number.

        Raises:
            BadData: the derived fact would follow from itself.
        """
        fact = fact_id(dependency.subject, dependency.relation)
        base = fact_id(dependency.base_subject, dependency.base_relation)
        if fact == base or fact in self._bases(base, dependency.user):
            raise BadData(
                f"'{dependency.relation}' of '{dependency.subject}' would follow from itself by way of "
                f"'{dependency.base_relation}' of '{dependency.base_subject}': leave this dependency out, or forget "
                "the one that leads back."
            )
        number = self._database.add_text(dependency.model_dump(mode="json"))
        user, subject = dependency.user, dependency.subject
        keys = (fact_key(user, subject, dependency.relation), subject_key(user, subject), owner_key(user))
        insert = f"INSERT INTO dependencies VALUES ({', '.join('?' * 9)})"
        return self._database.insert(insert, number, dependency.id, *keys, fact, base, dependency.recorded_at, "")

    def rules(self, key: str) -> list[Rule]:
        """The dependencies by which a fact's key is derived, oldest first."""
        return self._rules("key = ?", key)

    def rules_about(self, user: str, subject: str) -> list[Rule]:
        """The dependencies of a user by which facts about a subject are derived, oldest first."""
        return self._rules("subject = ?", subject_key(user, subject))

    def rules_of(self, user: str) -> list[Rule]:
        """All dependencies of a user, oldest first."""
        return self._rules("owner = ?", owner_key(user))

    def find(self, id_: str) -> Rule | None:
        """The dependency of that id."""
        return next(iter(self._rules("id = ?", id_)), None)

    def numbered(self, numbers: Sequence[int]) -> list[Rule]:
        """The dependencies of these numbers."""
        return self._rules(f"number IN ({', '.join('?' * len(numbers))})", *numbers)

    def retract(self, number: int, recorded_at: str) -> None:
        """Mark a dependency as taken back."""
        self._database.rows("UPDATE dependencies SET retracted_at = ? WHERE number = ?", recorded_at, number)

    def drop(self, number: int) -> None:
        """Erase a dependency."""
        self._database.erase_text(number)
        self._database.rows("DELETE FROM dependencies WHERE number = ?", number)

    def _rules(self, condition: str, *values: Any) -> list[Rule]:
        rows = self._database.rows(
            "SELECT number, content, dependencies.retracted_at FROM dependencies JOIN texts USING (number) "
            f"WHERE {condition} ORDER BY number",
            *values,
        )
        return [Rule(number, Dependency.model_validate_json(content), at) for number, content, at in rows]

    def _bases(self, fact: str, user: str) -> set[str]:
        """The facts from which a fact follows, by rules of the user and of all; for a shared rule, of everybody."""
        reached: set[str] = set()
        waiting = [fact]
        while waiting:
            new = set(self._bases_of(waiting.pop(), user)) - reached
            reached |= new
            waiting += new
        return reached

    def _bases_of(self, fact: str, user: str) -> Iterator[str]:
        select, values = "SELECT base FROM dependencies WHERE fact = ? AND retracted_at = ''", [fact]
        if user != SHARED:
            select, values = f"{select} AND owner IN (?, ?)", [fact, owner_key(user), owner_key(SHARED)]
        return (base for (base,) in self._database.rows(select, *values))
