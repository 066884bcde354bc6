"""What the memory has known: the edits of a fact in order, and counts of what is stored."""

from collections.abc import Iterable, Sequence

from emend.memory.edit import Edit, Word
from emend.memory.store.rows import Stored
from emend.memory.store.superseding import Claim, Superseding, current_edits, fact_id, in_order, moment


class Version(Word):
    """One edit of a fact, what it makes of it, and whether its word is the one that counts."""

    edit: Edit
    objects: tuple[str, ...]
    current: bool


class Fact(Word):
    """A subject and relation as its latest edit spells them, with all its versions, oldest first."""

    subject: str
    relation: str
    versions: tuple[Version, ...]


class MemoryStats(Word):
    """What is in a memory, counted.

    `superseded` counts edits without a current entry; `current` entries that are returned; `kinds` entries by kind;
    `facts` the (subject, relation) pairs that edits speak of, and `changed_facts` those with more than one edit.
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


def fact_of(subject: str, relation: str, edits: Iterable[tuple[Edit, int]], rule: Superseding) -> Fact:
    """The versions of one fact, oldest first.

    Args:
        subject: as it is spelled anyhow.
        relation: likewise.
        edits: those that speak of it, with the order in which they arrived.
        rule: says which one is current.
    """
    fact = fact_id(subject, relation)
    told = {edit.id: edit for edit, _ in edits}
    claims = [Claim(edit.id, edit.id, (fact,), moment(edit.time), order) for edit, order in edits]
    latest = current_edits(claims, rule)
    versions = [_version(told[claim.edit_id], claim, fact, latest.get(fact), rule) for claim in in_order(claims)]
    for triplet in reversed([t for version in versions for t in version.edit.triplets]):
        if fact_id(triplet.subject, triplet.relation) == fact:
            subject, relation = triplet.subject, triplet.relation
            break
    return Fact(subject=subject, relation=relation, versions=tuple(versions))


def _version(edit: Edit, claim: Claim, fact: str, latest: str | None, rule: Superseding) -> Version:
    said = [t.object for t in edit.triplets if fact_id(t.subject, t.relation) == fact]
    undecided = rule == "never" or (rule == "time" and claim.time is None)
    return Version(edit=edit, objects=tuple(dict.fromkeys(said)), current=undecided or edit.id == latest)


def stats_of(rows: Sequence[Stored], embedding: str, rule: Superseding) -> MemoryStats:
    """The counts over all rows of a memory."""
    said: dict[str, set[str]] = {}
    kinds: dict[str, int] = {}
    for row in rows:
        kinds[row.entry.kind] = kinds.get(row.entry.kind, 0) + 1
        for fact in row.facts:
            said.setdefault(fact, set()).add(row.entry.edit_id)
    edits = {row.entry.edit_id for row in rows}
    times = sorted({row.entry.time for row in rows if moment(row.entry.time)}, key=lambda time: str(moment(time)))
    return MemoryStats(
        embedding=embedding,
        superseding=rule,
        edits=len(edits),
        superseded=len(edits - {row.entry.edit_id for row in rows if row.current}),
        entries=len(rows),
        current=sum(row.current for row in rows),
        kinds=dict(sorted(kinds.items())),
        facts=len(said),
        changed_facts=sum(len(who) > 1 for who in said.values()),
        first=times[0] if times else None,
        last=times[-1] if times else None,
    )
