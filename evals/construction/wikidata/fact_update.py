"""Fact updates: rules that detect a changed object in timed statements, or give the reason why
there is no update.

Recipe `paper` is the rule of AKEW (section 4.2, appendix A); `best` also considers ranks, ends,
successors and the precision of dates.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Literal, NamedTuple, TypeGuard

from emend.evals.construction.wikidata.entities import (
    DEPRECATED,
    NONE,
    PREFERRED,
    VALUE,
    TimedStatement,
    WikiDate,
    WikiItem,
)
from emend.evals.data.facts.relation_tables import Relations
from emend.memory.edit import FrozenModel

Recipe = Literal["paper", "best"]


class SkipReason(StrEnum):
    """Reason why a subject and relation have no update since a given day."""

    MISSING_START = "missing_start"
    """The decisive start date is missing or unknown."""
    UNCHANGED = "unchanged"
    """The current object began before the day."""
    NO_PREDECESSOR = "no_predecessor"
    """No object began before the day."""
    SAME_OBJECT = "same_object"
    """Old and new object are the same, perhaps because their items were merged."""
    END_BEFORE_START = "end_before_start"
    DEPRECATED = "deprecated"
    """All statements are deprecated."""
    ENDED = "ended"
    """The last object has ended, and no unique successor is stated."""
    UNKNOWN_VALUE = "unknown_value"
    NO_VALUE = "no_value"
    """The statement says that there is no value, now or before the day, such as a vacant office."""
    SEVERAL_CURRENT = "several_current"
    SEVERAL_PREVIOUS = "several_previous"
    OTHER_SUCCESSOR = "other_successor"
    """The old object names a successor that has no statement of its own."""
    IMPRECISE_DATE = "imprecise_date"
    """A date is only known as a year or month that contains the day, so that the order is open."""
    NO_LABEL = "no_label"
    """Subject or object has no label in the language."""
    ABSENT_OBJECT = "absent_object"
    """An object was not found, since it was merged into another item or deleted."""


class ChangeRule(FrozenModel):
    """Rule for changes: recipe, earliest start date of a new object, and current date."""

    recipe: Recipe
    since: date
    today: date

    def apply(
        self, statements: Sequence[TimedStatement], by_successor: bool = False
    ) -> "ObjectChange | SkipReason":
        """Return the change in the statements of a subject and relation, or why there is none.

        Args:
            statements: all statements of the subject and relation.
            by_successor: whether P1366 (replaced by) names the next object of the same subject.
        """
        if self.recipe == "paper":
            return _latest_and_previous(statements, self.since)
        return _Group(statements, self, by_successor).change()


class ObjectChange(NamedTuple):
    """Statements of the old object, before the day, and of the new one."""

    old: TimedStatement
    new: TimedStatement


def _latest_and_previous(
    statements: Sequence[TimedStatement], since: date
) -> ObjectChange | SkipReason:
    """Compare the object with the latest start to the one with the last start before the day.

    Ties go to the first statement, and a year or month counts as its first day; the paper specifies
    neither.
    """
    dated = [statement for statement in statements if statement.object and statement.start]
    if not dated:
        return SkipReason.MISSING_START
    earlier = [
        statement for statement in dated if statement.start and not statement.start.follows(since)
    ]
    if not earlier:
        return SkipReason.NO_PREDECESSOR
    if len(earlier) == len(dated):
        return SkipReason.UNCHANGED
    return _checked(max(earlier, key=_first_day), max(dated, key=_first_day))


def _checked(old: TimedStatement, new: TimedStatement) -> ObjectChange | SkipReason:
    if old.object == new.object:
        return SkipReason.SAME_OBJECT
    if _is_reversed(old) or _is_reversed(new):
        return SkipReason.END_BEFORE_START
    return ObjectChange(old, new)


def _first_day(statement: TimedStatement) -> tuple[int, int, int]:
    return statement.start.first if statement.start else (0, 0, 0)


def _is_reversed(statement: TimedStatement) -> bool:
    return bool(statement.start and statement.end and statement.end.last < statement.start.first)


class _Group:
    """Non-deprecated statements of a subject and relation, to which recipe `best` is applied."""

    def __init__(
        self, statements: Sequence[TimedStatement], rule: ChangeRule, by_successor: bool
    ) -> None:
        self.statements = [statement for statement in statements if statement.rank != DEPRECATED]
        self.since, self.today, self.by_successor = rule.since, rule.today, by_successor

    def change(self) -> ObjectChange | SkipReason:
        """Return the change, or why there is none."""
        if not self.statements:
            return SkipReason.DEPRECATED
        if any(_is_reversed(statement) for statement in self.statements):
            return SkipReason.END_BEFORE_START
        new = self._present()
        if isinstance(new, SkipReason):
            return new
        old = self._former(new)
        if isinstance(old, SkipReason):
            return old
        if self._has_other_successor(old, new):
            return SkipReason.OTHER_SUCCESSOR
        return _checked(old, new)

    def _present(self) -> TimedStatement | SkipReason:
        """Return the current statement if it began since the day, or the reason for none."""
        objects = _objects(self.statements)
        running = [
            statement for statement in self.statements if self._is_running(statement, objects)
        ]
        present = [statement for statement in running if statement.rank == PREFERRED] or running
        if not present:
            return self._stated_successor()
        new = _single(present, SkipReason.SEVERAL_CURRENT)
        return self._begun_since(new, new.start) if isinstance(new, TimedStatement) else new

    def _begun_since(
        self, new: TimedStatement, start: WikiDate | None
    ) -> TimedStatement | SkipReason:
        if not start:
            return SkipReason.MISSING_START
        if start.precedes(self.since):
            return SkipReason.UNCHANGED
        return new if start.follows(self.since) else SkipReason.IMPRECISE_DATE

    def _is_running(self, statement: TimedStatement, objects: Set[str | None]) -> bool:
        """Return whether a statement is valid today; an end in the current month or year counts as
        past if the date is no more precise.
        """
        if statement.start and statement.start.first > _day(self.today):
            return False
        if statement.has_end and not (statement.end and statement.end.first > _day(self.today)):
            return False
        return not self._is_replaced(statement, objects)

    def _is_replaced(self, statement: TimedStatement, objects: Set[str | None]) -> bool:
        """Return whether a statement names one of the other objects as its successor, with or
        without an end.
        """
        others = set(statement.replaced_by) - {statement.object}
        return self.by_successor and not others.isdisjoint(objects)

    def _stated_successor(self) -> TimedStatement | SkipReason:
        """Return the successor named by the last, ended statement, with no statement of its own.

        Its start is taken from the end of that statement.
        """
        last = max(self.statements, key=_first_day)
        others = {statement.object for statement in self.statements}
        if (
            not self.by_successor
            or len(last.replaced_by) != 1
            or others.intersection(last.replaced_by)
        ):
            return SkipReason.ENDED
        return self._begun_since(TimedStatement(VALUE, last.replaced_by[0]), last.end)

    def _former(self, new: TimedStatement) -> TimedStatement | SkipReason:
        """Return the statement that was valid just before the day, or the last one before a gap."""
        others = [statement for statement in self.statements if statement is not new]
        dated = [(statement, statement.start) for statement in others if statement.start]
        if any(
            not start.precedes(self.since) and not start.follows(self.since) for _, start in dated
        ):
            return SkipReason.IMPRECISE_DATE
        earlier = [statement for statement, start in dated if start.precedes(self.since)]
        if not earlier:
            return (
                SkipReason.NO_PREDECESSOR if len(dated) == len(others) else SkipReason.MISSING_START
            )
        objects = _objects(earlier)
        held = [statement for statement in earlier if self._held(statement, objects)]
        return _single(held or _last_begun(earlier), SkipReason.SEVERAL_PREVIOUS)

    def _held(self, statement: TimedStatement, objects: Set[str | None]) -> bool:
        """Return whether a statement was certainly valid just before the day."""
        ended = statement.has_end and not (statement.end and statement.end.follows(self.since))
        return not ended and not self._is_replaced(statement, objects)

    def _has_other_successor(self, old: TimedStatement, new: TimedStatement) -> bool:
        objects = {statement.object for statement in (*self.statements, new)}
        return self.by_successor and bool(old.replaced_by) and objects.isdisjoint(old.replaced_by)


def _objects(statements: Sequence[TimedStatement]) -> Set[str | None]:
    return {statement.object for statement in statements}


def _day(day: date) -> tuple[int, int, int]:
    return day.year, day.month, day.day


def _last_begun(statements: Sequence[TimedStatement]) -> list[TimedStatement]:
    """Return the statements that may have the latest start; a year and a day in that year cannot be
    ordered.
    """
    latest = max(_first_day(statement) for statement in statements)
    return [
        statement for statement in statements if statement.start and statement.start.last >= latest
    ]


def _single(
    statements: Sequence[TimedStatement], several: SkipReason
) -> TimedStatement | SkipReason:
    """Return the statement with the latest start if all have the same object, else `several`.

    If that object is not an item, the reason is returned.
    """
    if len({(statement.kind, statement.object) for statement in statements}) > 1:
        return several
    latest = max(statements, key=_first_day)
    if latest.object:
        return latest
    return SkipReason.NO_VALUE if latest.kind == NONE else SkipReason.UNKNOWN_VALUE


# Maximum number of damaged lines whose offsets are stored.
EXAMPLES = 100


class FactUpdate(FrozenModel):
    """Subject and relation whose object changed, with ISO dates as precise as known: 2022-10-25,
    2022-10 or 2022.

    `old` and `new` are empty until the labels of the objects are known.
    """

    subject: str
    subject_id: str
    relation: str = ""
    relation_id: str
    old: str = ""
    old_id: str
    new: str = ""
    new_id: str
    old_start: str | None = None
    old_end: str | None = None
    new_start: str | None = None
    new_end: str | None = None
    aliases_old: tuple[str, ...] = ()
    aliases_new: tuple[str, ...] = ()
    subject_page: str = ""
    """Title of the subject's page in the language's Wikipedia; empty if it has none."""
    new_page: str = ""

    def complete(
        self, relations: Relations, objects: Mapping[str, WikiItem]
    ) -> "FactUpdate | SkipReason":
        """Return the update with the labels of its objects, or the reason why there is none.

        Args:
            relations: relations by which the update was found.
            objects: items by the ids of this update; the id of a merged item differs from its key.
        """
        old, new = objects.get(self.old_id), objects.get(self.new_id)
        if not old or not new:
            return SkipReason.ABSENT_OBJECT
        if old.id == new.id:
            return SkipReason.SAME_OBJECT
        if not (old.label and new.label and self.subject):
            return SkipReason.NO_LABEL
        labels = {
            "relation": relations.by_id[self.relation_id].name,
            "old": old.label,
            "new": new.label,
        }
        ids = {"old_id": old.id, "new_id": new.id, "new_page": new.page}
        return self.model_copy(
            update=labels | ids | {"aliases_old": old.aliases, "aliases_new": new.aliases}
        )


@dataclass
class UpdateCounts:
    """Counts of a scan or query, updated in place."""

    lines: int = 0
    """Number of lines of the dump."""
    candidates: int = 0
    """Number of pairs of subject and relation."""
    updates: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Number of candidates without an update, by `SkipReason`."""
    damaged: int = 0
    """Number of lines that cannot be read."""
    damaged_at: list[int] = field(default_factory=list)
    """Byte offsets of the first damaged lines in the decompressed dump."""

    def __post_init__(self) -> None:
        self.reasons = Counter(self.reasons)  # a plain dict if read from JSON

    def add(self, other: "UpdateCounts") -> None:
        """Add other counts, such as those of a block."""
        self.lines += other.lines
        self.candidates += other.candidates
        self.updates += other.updates
        self.reasons.update(other.reasons)
        self.damaged += other.damaged
        self.damaged_at += other.damaged_at[: EXAMPLES - len(self.damaged_at)]

    def add_damaged(self, offset: int) -> None:
        """Count a damaged line."""
        self.damaged += 1
        if len(self.damaged_at) < EXAMPLES:
            self.damaged_at.append(offset)

    def add_result(self, result: FactUpdate | SkipReason) -> TypeGuard[FactUpdate]:
        """Count an update or a skip reason, and return whether it is an update."""
        if isinstance(result, SkipReason):
            self.reasons[result] += 1
            return False
        self.updates += 1
        return True


def changes_of(
    item: WikiItem, rule: ChangeRule, relations: Relations, counts: UpdateCounts
) -> list[FactUpdate]:
    """Return the changes in an item's statements, and count the reasons of unchanged relations."""
    changes = []
    for relation, statements in item.statements.items():
        counts.candidates += 1
        change = rule.apply(statements, relations.by_id[relation].replaced_by)
        if isinstance(change, SkipReason):
            counts.reasons[change] += 1
            continue
        old, new = change
        changes.append(
            FactUpdate(
                subject=item.label,
                subject_id=item.id,
                subject_page=item.page,
                relation_id=relation,
                old_id=old.object or "",
                new_id=new.object or "",
                old_start=old.start and old.start.iso,
                old_end=old.end and old.end.iso,
                new_start=new.start and new.start.iso,
                new_end=new.end and new.end.iso,
            )
        )
    return changes
