"""The versions of a fact over time, and counts of the stored edits."""

from collections import Counter
from collections.abc import Iterable, Sequence

from emend.memory.edit import Edit, FrozenModel
from emend.memory.store.rows import MemoryRow
from emend.memory.store.superseding import (
    Claim,
    Superseding,
    current_edits,
    fact_id,
    in_order,
    parse_time,
)


class Version(FrozenModel):
    """An edit of a fact, the objects it gives, and whether it is current."""

    edit: Edit
    objects: tuple[str, ...]
    current: bool


class FactHistory(FrozenModel):
    """All versions of a fact, oldest first, with subject and relation in the spelling of its latest
    edit.
    """

    subject: str
    relation: str
    versions: tuple[Version, ...]


class MemoryStats(FrozenModel):
    """Counts of a memory.

    `superseded` is the number of edits without a current entry; `current` the number of entries
    that a search can return; `kinds` the number of entries by kind; `facts` the number of (subject,
    relation) pairs, and `changed_facts` of those with more than one edit.
    """

    embedding: str
    superseding: Superseding
    edits: int
    superseded: int
    entries: int
    current: int
    kinds: dict[str, int]
    facts: int
    changed_facts: int
    first: str | None = None
    last: str | None = None


def build_history(
    subject: str, relation: str, edits: Iterable[tuple[Edit, int]], rule: Superseding
) -> FactHistory:
    """Return the versions of one fact, oldest first.

    Args:
        subject: in any spelling.
        relation: in any spelling.
        edits: the edits of the fact with their order of arrival.
        rule: decides which one is current.
    """
    fact = fact_id(subject, relation)
    by_id = {edit.id: edit for edit, _ in edits}
    claims = [
        Claim(edit.id, edit.id, (fact,), parse_time(edit.time), order) for edit, order in edits
    ]
    latest = current_edits(claims, rule)
    versions = [
        _version(by_id[claim.edit_id], claim, fact, latest.get(fact), rule)
        for claim in in_order(claims)
    ]
    for triplet in reversed([t for version in versions for t in version.edit.triplets]):
        if fact_id(triplet.subject, triplet.relation) == fact:
            subject, relation = triplet.subject, triplet.relation
            break
    return FactHistory(subject=subject, relation=relation, versions=tuple(versions))


def _version(edit: Edit, claim: Claim, fact: str, latest: str | None, rule: Superseding) -> Version:
    objects = [t.object for t in edit.triplets if fact_id(t.subject, t.relation) == fact]
    undecided = rule == "never" or (rule == "time" and claim.time is None)
    return Version(
        edit=edit, objects=tuple(dict.fromkeys(objects)), current=undecided or edit.id == latest
    )


def compute_stats(rows: Sequence[MemoryRow], embedding: str, rule: Superseding) -> MemoryStats:
    """Return the counts over all rows of a memory."""
    edits_of: dict[str, set[str]] = {}
    for row in rows:
        for fact in row.facts:
            edits_of.setdefault(fact, set()).add(row.entry.edit_id)
    edits = {row.entry.edit_id for row in rows}
    times = sorted(
        {row.entry.time for row in rows if parse_time(row.entry.time)},
        key=lambda time: str(parse_time(time)),
    )
    return MemoryStats(
        embedding=embedding,
        superseding=rule,
        edits=len(edits),
        superseded=len(edits - {row.entry.edit_id for row in rows if row.current}),
        entries=len(rows),
        current=sum(row.current for row in rows),
        kinds=dict(sorted(Counter(row.entry.kind for row in rows).items())),
        facts=len(edits_of),
        changed_facts=sum(len(ids) > 1 for ids in edits_of.values()),
        first=times[0] if times else None,
        last=times[-1] if times else None,
    )
