"""Updates of facts: relations whose object changes, what shows a change, or why a statement shows none.

`paper` is the rule of AKEW (section 4.2, appendix A); `best` adds ranks, ends, successors and the precision of dates.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeGuard

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from emend.evals.data.wikidata.entities import DEPRECATED, NONE, PREFERRED, VALUE, TimedStatement, WikiDate, WikiItem
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.files import read_input

SHIPPED = Path(__file__).with_name("relations.toml")
EXAMPLE = """[P6]
name = "head of government"
cloze = "The head of government of {} is"
question = "Who is the head of government of {}?"
replaced_by = true"""


def _with_one_slot(template: str) -> str:
    if template.count("{}") != 1 or template.replace("{}", "").strip("{} ") == "":
        raise ValueError("a text with {} once, for the subject, is expected")
    return template


Template = Annotated[str, AfterValidator(_with_one_slot)]


class TimedRelation(FrozenModel):
    """A property of Wikidata; `{}` in its templates stands for the subject."""

    id: str = ""
    """Name of its table in the file."""
    name: Annotated[str, Field(min_length=1)]
    cloze: Template
    """Text that the object continues."""
    question: Template
    replaced_by: bool = False
    """Whether the qualifier P1366 names the next object of the same subject."""


class Relations(FrozenModel):
    """Relations in the order of their file."""

    relations: Annotated[tuple[TimedRelation, ...], Field(min_length=1)]

    @cached_property
    def by_id(self) -> dict[str, TimedRelation]:
        """The relations by the ids of their properties."""
        return {relation.id: relation for relation in self.relations}

    @classmethod
    def read(cls, path: Path = SHIPPED) -> Self:
        """Read a TOML file of relations.

        Raises:
            BadData: see `read_tables`.
        """
        tables: dict[str, TimedRelation] = read_tables(path, _TABLES, "the relations", f"A relation is\n{EXAMPLE}")
        return cls(relations=tuple(each.model_copy(update={"id": name}) for name, each in tables.items()))


_PROPERTY = Annotated[str, Field(pattern=r"^P[1-9][0-9]{0,9}$")]
_TABLES = Annotated[dict[_PROPERTY, TimedRelation], Field(min_length=1)]


def read_tables(path: Path, form: Any, what: str, remedy: str) -> Any:
    """The tables of a TOML file in a form that pydantic checks.

    Args:
        path: the file.
        form: the type of the tables.
        what: a name of the tables for errors, such as `the relations`.
        remedy: the last sentence of an error.

    Raises:
        BadData: the file cannot be read, is no TOML, or has a wrong table; names table and field.
    """
    try:
        return TypeAdapter(form).validate_python(tomllib.loads(read_input(path).decode("utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ", ".join(f"'{part}'" for part in first["loc"])
        raise BadData(f"{path}, {place or what}: {first['msg']}. {remedy}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadData(f"cannot read {what} '{path}': {error}. {remedy}") from error


Recipe = Literal["paper", "best"]


class SkipReason(StrEnum):
    """SkipReason why a subject and relation have no update."""

    MISSING_START = "missing_start"
    """The start that would decide is not stated, or unknown."""
    UNCHANGED = "unchanged"
    """The present object began before the day."""
    NO_PREDECESSOR = "no_predecessor"
    """No object began before the day."""
    SAME_OBJECT = "same_object"
    """The object before the day and the present one are the same, also after a merge of items."""
    END_BEFORE_START = "end_before_start"
    DEPRECATED = "deprecated"
    """All statements are deprecated."""
    ENDED = "ended"
    """The last object has ended, and no other is stated."""
    UNKNOWN_VALUE = "unknown_value"
    NO_VALUE = "no_value"
    """The place is stated to be vacant, now or before the day."""
    SEVERAL_CURRENT = "several_current"
    SEVERAL_PREVIOUS = "several_previous"
    OTHER_SUCCESSOR = "other_successor"
    """The former object is stated to be replaced by one that has no statement here."""
    IMPRECISE_DATE = "imprecise_date"
    """A date is known to a year or month that contains the day, so that the order is undecided."""
    NO_LABEL = "no_label"
    """Subject or object has no label in the language."""
    ABSENT_OBJECT = "absent_object"
    """The object was not found: it was merged into another item, or deleted."""


class ChangeRule(FrozenModel):
    """A recipe, the day since which an object must have begun, and the day that counts as today."""

    recipe: Recipe
    since: date
    today: date

    def apply(self, statements: Sequence[TimedStatement], by_successor: bool = False) -> "ObjectChange | SkipReason":
        """Return the change that statements of a subject and relation show, or why they show none.

        Args:
            statements: all of the subject and relation.
            by_successor: P1366 (replaced by) names the next object of the same subject.
        """
        if self.recipe == "paper":
            return _latest_and_previous(statements, self.since)
        return _Group(statements, self, by_successor).change()


class ObjectChange(NamedTuple):
    """Statements of the object before the day and of the present one."""

    old: TimedStatement
    new: TimedStatement


def _latest_and_previous(statements: Sequence[TimedStatement], since: date) -> ObjectChange | SkipReason:
    """Compare the object with the latest start with the one whose start immediately precedes the day.

    Of equal starts the first statement counts, and a year or month as its first day; the paper says neither.
    """
    dated = [statement for statement in statements if statement.object and statement.start]
    if not dated:
        return SkipReason.MISSING_START
    earlier = [statement for statement in dated if statement.start and not statement.start.follows(since)]
    if not earlier:
        return SkipReason.NO_PREDECESSOR
    if len(earlier) == len(dated):
        return SkipReason.UNCHANGED
    return _checked(max(earlier, key=_first_day), max(dated, key=_first_day))


def _checked(old: TimedStatement, new: TimedStatement) -> ObjectChange | SkipReason:
    if old.object == new.object:
        return SkipReason.SAME_OBJECT
    return SkipReason.END_BEFORE_START if _is_reversed(old) or _is_reversed(new) else ObjectChange(old, new)


def _first_day(statement: TimedStatement) -> tuple[int, int, int]:
    return statement.start.first if statement.start else (0, 0, 0)


def _is_reversed(statement: TimedStatement) -> bool:
    return bool(statement.start and statement.end and statement.end.last < statement.start.first)


class _Group:
    """The statements of a subject and relation that are not deprecated, and the rule that is applied to them."""

    def __init__(self, statements: Sequence[TimedStatement], rule: ChangeRule, by_successor: bool) -> None:
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
        """Return the statement that holds today and began since the day."""
        running = [statement for statement in self.statements if self._is_running(statement)]
        present = [statement for statement in running if statement.rank == PREFERRED] or running
        if not present:
            return self._stated_successor()
        new = _single(present, SkipReason.SEVERAL_CURRENT)
        return self._begun_since(new, new.start) if isinstance(new, TimedStatement) else new

    def _begun_since(self, new: TimedStatement, start: WikiDate | None) -> TimedStatement | SkipReason:
        if not start:
            return SkipReason.MISSING_START
        if start.precedes(self.since):
            return SkipReason.UNCHANGED
        return new if start.follows(self.since) else SkipReason.IMPRECISE_DATE

    def _is_running(self, statement: TimedStatement) -> bool:
        """Return whether a statement holds today; one that ends later this month or year counts as ended."""
        if statement.start and statement.start.first > _day(self.today):
            return False
        if statement.has_end and not (statement.end and statement.end.first > _day(self.today)):
            return False
        return not self._is_replaced(statement, self.statements)

    def _is_replaced(self, statement: TimedStatement, others: Sequence[TimedStatement]) -> bool:
        """Return whether a statement names one of the others as its successor, though perhaps it has no end."""
        objects = {other.object for other in others if other.object != statement.object}
        return self.by_successor and not objects.isdisjoint(statement.replaced_by)

    def _stated_successor(self) -> TimedStatement | SkipReason:
        """Return the object that the last one, which has ended, names as its successor; its start is not stated."""
        last = max(self.statements, key=_first_day)
        others = {statement.object for statement in self.statements}
        if not self.by_successor or len(last.replaced_by) != 1 or others.intersection(last.replaced_by):
            return SkipReason.ENDED
        return self._begun_since(TimedStatement(VALUE, last.replaced_by[0]), last.end)

    def _former(self, new: TimedStatement) -> TimedStatement | SkipReason:
        """Return the statement that held just before the day, or the last one before a vacancy."""
        others = [statement for statement in self.statements if statement is not new]
        dated = [(statement, statement.start) for statement in others if statement.start]
        if any(not start.precedes(self.since) and not start.follows(self.since) for _, start in dated):
            return SkipReason.IMPRECISE_DATE
        earlier = [statement for statement, start in dated if start.precedes(self.since)]
        if not earlier:
            return SkipReason.NO_PREDECESSOR if len(dated) == len(others) else SkipReason.MISSING_START
        held = [statement for statement in earlier if self._held(statement, earlier)]
        return _single(held or _last_begun(earlier), SkipReason.SEVERAL_PREVIOUS)

    def _held(self, statement: TimedStatement, earlier: Sequence[TimedStatement]) -> bool:
        """Return whether a statement certainly held just before the day."""
        ended = statement.has_end and not (statement.end and statement.end.follows(self.since))
        return not ended and not self._is_replaced(statement, earlier)

    def _has_other_successor(self, old: TimedStatement, new: TimedStatement) -> bool:
        objects = {statement.object for statement in (*self.statements, new)}
        return self.by_successor and bool(old.replaced_by) and objects.isdisjoint(old.replaced_by)


def _day(day: date) -> tuple[int, int, int]:
    return day.year, day.month, day.day


def _last_begun(statements: Sequence[TimedStatement]) -> list[TimedStatement]:
    """Return the statements that may be the last to have begun: a year and a day in it have no order."""
    latest = max(_first_day(statement) for statement in statements)
    return [statement for statement in statements if statement.start and statement.start.last >= latest]


def _single(statements: Sequence[TimedStatement], several: SkipReason) -> TimedStatement | SkipReason:
    """Return the statement with the latest start if all have the same object, else the reason."""
    if len({(statement.kind, statement.object) for statement in statements}) > 1:
        return several
    latest = max(statements, key=_first_day)
    if latest.object:
        return latest
    return SkipReason.NO_VALUE if latest.kind == NONE else SkipReason.UNKNOWN_VALUE


EXAMPLES = 100
"""Number of damaged lines whose offsets are kept."""


class FactUpdate(FrozenModel):
    """A subject and relation whose object changed, with dates as precise as known: 2022-10-25, 2022-10 or 2022.

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
    """Title of the subject's page in the language's Wikipedia; "" if it has none."""
    new_page: str = ""

    def complete(self, relations: Relations, objects: Mapping[str, WikiItem]) -> "FactUpdate | SkipReason":
        """Return the update with the labels of its objects, or why there is none.

        Args:
            relations: by which it was found.
            objects: by the ids of this change; one that was merged into another item has that item's id.
        """
        old, new = objects.get(self.old_id), objects.get(self.new_id)
        if not old or not new:
            return SkipReason.ABSENT_OBJECT
        if old.id == new.id:
            return SkipReason.SAME_OBJECT
        if not (old.label and new.label and self.subject):
            return SkipReason.NO_LABEL
        labels = {"relation": relations.by_id[self.relation_id].name, "old": old.label, "new": new.label}
        ids = {"old_id": old.id, "new_id": new.id, "new_page": new.page}
        return self.model_copy(update=labels | ids | {"aliases_old": old.aliases, "aliases_new": new.aliases})


@dataclass
class UpdateCounts:
    """Counts of a reading; a caller who gives one finds them in it."""

    lines: int = 0
    """Of the dump."""
    candidates: int = 0
    """Pairs of subject and relation."""
    updates: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Number of candidates that are no update, by `SkipReason`."""
    damaged: int = 0
    """Lines that cannot be read."""
    damaged_at: list[int] = field(default_factory=list)
    """Offsets of the first of these lines in the decompressed dump, in bytes."""

    def __post_init__(self) -> None:
        self.reasons = Counter(self.reasons)  # which JSON has as an object

    def add(self, other: "UpdateCounts") -> None:
        """Add the counts of a part."""
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
        """Count an update, or why there is none; return whether it is one."""
        if isinstance(result, SkipReason):
            self.reasons[result] += 1
            return False
        self.updates += 1
        return True


def changes_of(item: WikiItem, rule: ChangeRule, relations: Relations, counts: UpdateCounts) -> list[FactUpdate]:
    """Return the changes that an item's statements show, and count the relations that show none."""
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
