"""The records that a memory of facts returns: facts, dependencies, conflicts and changes."""

from typing import Literal

from emend.memory.edit import FrozenModel, content_id
from emend.memory.store.superseding import fact_id
from emend.memory.typography import fold_text

SHARED = "*"
"""The user whose facts everybody reads."""

FactStatus = Literal["current", "past", "future", "disputed", "corrected", "retracted", "derived", "forgotten"]
Operation = Literal["remember", "update", "correct", "retract", "resolve", "depend", "forget"]


def fact_key(user: str, subject: str, relation: str) -> str:
    """The digest of one relation of one subject of one user."""
    return content_id("user's fact", user, fact_id(subject, relation))


def subject_key(user: str, subject: str) -> str:
    """The digest of one subject of one user."""
    return content_id("user's subject", user, fold_text(subject))


def owner_key(user: str) -> str:
    """The digest of a user."""
    return content_id("user", user)


class Provenance(FrozenModel):
    """Where a change comes from.

    Attributes:
        user: whose fact it is; `SHARED` for everybody's.
        source: the message, document or call that says so.
        recorded_at: when it was said; now if empty.
        operation_id: two operations of the same id are one; never the same as another's if empty.
    """

    user: str = ""
    source: str = ""
    recorded_at: str = ""
    operation_id: str = ""


class Fact(FrozenModel):
    """A statement with the time during which it holds.

    Attributes:
        object: empty if the statement says that nothing holds any more.
        valid_from: instant in UTC; None if unknown.
        valid_to: the first instant at which it no longer holds; None if it holds until further notice.
        recorded_at: when it was said.
        corrects: id of the fact that it corrects.
        derived_from: ids of the dependency and of the facts that a derived fact follows from.
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
        """The three parts in one line."""
        return f"{self.subject} {self.relation} {self.object}"


class Lookup(FrozenModel):
    """The answer to a question about one relation of one subject.

    Attributes:
        facts: those that hold; of a disputed relation all sides.
        disputed: whether they contradict each other and nobody has decided.
        reason: why nothing is known, where there is more to say than that nothing was said.
    """

    subject: str
    relation: str
    facts: tuple[Fact, ...] = ()
    disputed: bool = False
    reason: str = ""


class FactHit(FrozenModel):
    """A fact that a search found, with its score: higher is nearer to the query."""

    fact: Fact
    score: float


class Dependency(FrozenModel):
    """A rule: the derived fact follows from another one, and is unknown when that changes otherwise.

    Attributes:
        base_subject: subject of the fact that it follows from.
        base_relation: relation of that fact.
        condition: the objects of that fact for which `value` holds; any if empty.
        value: the derived object, in which `{object}` stands for the object of that fact; None if a change makes
            the derived fact unknown.
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
        """The text by which the rule is found: what it derives."""
        return f"{self.subject} {self.relation} {self.value or ''}"


class Conflict(FrozenModel):
    """Facts that contradict each other by no rule; `resolve` decides."""

    id: str
    subject: str
    relation: str
    facts: tuple[Fact, ...]
    user: str = ""


class Change(FrozenModel):
    """The result of an operation.

    Attributes:
        repeated: whether the operation had been done before, and nothing was changed now.
        facts: the facts that it stated, ended or decided, as they are now.
        dependency: the rule that it stated.
        conflicts: open contradictions about the same relation.
        forgotten: number of statements and rules whose text was erased.
        warning: an impossible argument that a tool left out; empty if there was none.
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
    """One operation in the journal, with the ids of the facts and rules that it stated or changed; it has no texts."""

    number: int
    operation_id: str
    operation: Operation
    recorded_at: str
    ids: tuple[str, ...]
