"""An update of a fact: what both ways of reading Wikidata return, and their count of what is none."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeGuard

from emend.evals.data.wikidata.changes import ChangeRule, SkipReason
from emend.evals.data.wikidata.entities import WikiItem
from emend.evals.data.wikidata.relations import Relations
from emend.memory.edit import FrozenModel

EXAMPLES = 100
"""Number of damaged lines whose offsets are kept."""


class FactUpdate(FrozenModel):
    """A subject and relation whose object changed, with dates as precise as known: 2022-10-25, 2022-10 or 2022."""

    subject: str
    subject_id: str
    relation: str
    relation_id: str
    old: str
    old_id: str
    new: str
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


class ChangeIds(FrozenModel):
    """A change whose objects are known by their ids alone."""

    subject: str
    subject_id: str
    subject_page: str
    relation_id: str
    old_id: str
    new_id: str
    old_start: str | None
    old_end: str | None
    new_start: str | None
    new_end: str | None

    def complete(self, relations: Relations, objects: Mapping[str, WikiItem]) -> FactUpdate | SkipReason:
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
        return FactUpdate(
            **self.model_dump(exclude={"old_id", "new_id"}),
            relation=relations.by_id[self.relation_id].name,
            old=old.label,
            old_id=old.id,
            new=new.label,
            new_id=new.id,
            aliases_old=old.aliases,
            aliases_new=new.aliases,
            new_page=new.page,
        )


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

    def as_fields(self) -> dict[str, Any]:
        """Return the counts as JSON has them."""
        return {**vars(self), "reasons": dict(self.reasons)}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the counts of `as_fields`."""
        return cls(**{**fields, "reasons": Counter(fields["reasons"])})


def changes_of(item: WikiItem, rule: ChangeRule, relations: Relations, counts: UpdateCounts) -> list[ChangeIds]:
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
            ChangeIds(
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
