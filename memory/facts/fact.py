"""Records that a memory of facts returns: facts, dependencies, conflicts and changes."""

from typing import Literal

from emend.memory.edit import FrozenModel, content_id
from emend.memory.store.superseding import fact_id
from emend.memory.typography import fold_text

# The pseudo-user whose facts all users can read.
SHARED = "*"

FactStatus = Literal[
    "current", "past", "future", "disputed", "corrected", "retracted", "derived", "forgotten"
]
Operation = Literal["remember", "update", "correct", "retract", "resolve", "depend", "forget"]


def fact_key(user: str, subject: str, relation: str) -> str:
    """Return the digest of a user's fact key: a subject and a relation."""
    return content_id("user's fact", user, fact_id(subject, relation))


def subject_key(user: str, subject: str) -> str:
    """Return the digest of a subject of a user."""
    return content_id("user's subject", user, fold_text(subject))


def owner_key(user: str) -> str:
    """Return the digest of a user."""
    return content_id("user", user)


class Provenance(FrozenModel):
    """The origin of a change.

    Attributes:
        user: owner of the fact; `SHARED` for facts of all users.
        source: the message, document or call that states the fact.
        recorded_at: time of the statement; the current time if empty.
        operation_id: operations of a user with the same id are done only once; a unique id is
            generated if empty.
    """

    user: str = ""
    source: str = ""
    recorded_at: str = ""
    operation_id: str = ""


class Fact(FrozenModel):
    """A statement with the period during which it holds.

    Attributes:
        object: the value; empty if the statement says that nothing holds any more.
        valid_from: instant in UTC; None if unknown.
        valid_to: the first instant at which the fact no longer holds; None if it has no end yet.
        recorded_at: time of the statement.
        corrects: id of the fact that this one corrects.
        derived_from: ids of the dependency and of the facts from which a derived fact follows.
    """

    id: str
    subject: str
    relation: str
    object: str
    user: str = ""
    valid_from: str | None = None
    valid_to: str | None = None
    recorded_at: str = ""
    source: str = ""
    status: FactStatus
    corrects: str = ""
    derived_from: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The subject, relation and object in one line."""
        return f"{self.subject} {self.relation} {self.object}"


class Lookup(FrozenModel):
    """The answer to a question about one relation of a subject.

    Attributes:
        facts: the facts that hold; all sides if they are disputed.
        disputed: whether the facts contradict each other and the conflict is unresolved.
        reason: why no fact is known; empty if nothing was ever stated.
    """

    subject: str
    relation: str
    facts: tuple[Fact, ...] = ()
    disputed: bool = False
    reason: str = ""


class FactHit(FrozenModel):
    """A search result with its score; a higher score means closer to the query."""

    fact: Fact
    score: float


class Dependency(FrozenModel):
    """A rule that derives a fact from a base fact, or makes it unknown when the base fact changes.

    Attributes:
        base_subject: subject of the base fact.
        base_relation: relation of the base fact.
        condition: objects of the base fact for which `value` holds; empty for any object.
        value: the derived object, in which `{object}` is replaced by the object of the base fact;
            None if a change of the base fact makes the dependent fact unknown.
    """

    id: str
    subject: str
    relation: str
    base_subject: str
    base_relation: str
    condition: tuple[str, ...] = ()
    value: str | None = None
    user: str = ""
    recorded_at: str = ""
    source: str = ""

    @property
    def text(self) -> str:
        """The text by which a search finds the rule: the fact that it derives."""
        return f"{self.subject} {self.relation} {self.value or ''}"


class Conflict(FrozenModel):
    """Contradicting facts that no rule decides between; `resolve` settles the conflict."""

    id: str
    subject: str
    relation: str
    facts: tuple[Fact, ...]
    user: str = ""


class Change(FrozenModel):
    """The result of an operation.

    Attributes:
        repeated: whether the operation had been done before, so that nothing changed now.
        facts: the facts that the operation stated, ended or decided, in their current state.
        dependency: the rule that the operation stated.
        conflicts: open conflicts about the same relation.
        forgotten: number of statements and rules whose text was erased.
        warning: names an impossible argument that a tool ignored; empty if there was none.
    """

    operation_id: str
    operation: Operation
    repeated: bool = False
    facts: tuple[Fact, ...] = ()
    dependency: Dependency | None = None
    conflicts: tuple[Conflict, ...] = ()
    forgotten: int = 0
    warning: str = ""


class JournalEntry(FrozenModel):
    """Journal entry of an operation, with the ids of its facts and rules but no texts."""

    number: int
    operation_id: str
    operation: Operation
    recorded_at: str
    ids: tuple[str, ...]
