"""What must be written when edits come or go: new rows, changed ones, and those that have had their day."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from emend.memory.edit import Edit
from emend.memory.store.rows import Stored, rows_of
from emend.memory.store.superseding import Superseding, superseded


class Change(NamedTuple):
    """Rows to be written with vectors, rows whose order or standing changes, and ids of rows to be deleted."""

    put: list[Stored]
    mark: list[Stored]
    drop: list[str]


class About(Protocol):
    """Finds the stored rows that speak of any of these facts."""

    def __call__(self, facts: Iterable[str]) -> Iterable[Stored]:
        """Each row once."""
        ...


def settle(edits: Sequence[Edit], before: Mapping[str, Stored], about: About, rule: Superseding, clock: int) -> Change:
    """The change that puts `edits` in place of the rows `before`.

    An edit that is said again after another edit of the same fact counts as arriving now; else it keeps its order, and
    costs nothing.

    Args:
        edits: distinct, in order of arrival.
        before: the rows that these edits have now, and rows that are to go, by entry id.
        about: looks facts up.
        rule: of superseding.
        clock: the order of the first edit, unless what is stored came later by the clock of who stored it.
    """
    drafts = [row for place, edit in enumerate(edits) for row in rows_of(edit, clock + place)]
    touched = _decided([*drafts, *before.values()], rule)
    others = {row.entry.id: row for row in about(touched) if row.entry.id not in before}
    latest = max((row.order for row in (*before.values(), *others.values())), default=0)
    if latest >= clock:
        drafts = [row for place, edit in enumerate(edits) for row in rows_of(edit, latest + 1 + place)]
    drafts = _keep_order(drafts, before, others.values())
    standing = {row.entry.id: row for row in drafts} | others
    # What else the others speak of decides with whether they stand.
    beyond = [row for row in about(_decided(others.values(), rule) - touched) if row.entry.id not in before]
    claims = {row.entry.id: row.claim for row in beyond} | {id_: row.claim for id_, row in standing.items()}
    old = superseded(list(claims.values()), rule)
    settled = [row._replace(current=id_ not in old) for id_, row in standing.items()]
    stored = {**others, **before}
    put = [row for row in settled if not row.same_content(stored.get(row.entry.id))]
    fresh = {row.entry.id for row in put}
    mark = [row for row in settled if row.entry.id not in fresh and row != stored[row.entry.id]]
    return Change(put, mark, sorted(before.keys() - standing.keys()))


def unsettled(change: Change, before: Iterable[Stored], about: About, rule: Superseding) -> list[Stored]:
    """What stands otherwise than it should after the change was written: another process wrote about the same facts.

    Of two processes that write at once, the one that looks last sees what both have written. `before` are the rows that
    were there, some of which are gone.
    """
    touched = _decided([*change.put, *change.mark, *before], rule)
    stored = {row.entry.id: row for row in about(touched)}
    beyond = {row.entry.id: row for row in about(_decided(stored.values(), rule) - touched)}
    old = superseded([row.claim for row in (beyond | stored).values()], rule)
    return [row._replace(current=id_ not in old) for id_, row in stored.items() if row.current == (id_ in old)]


def _decided(rows: Iterable[Stored], rule: Superseding) -> set[str]:
    """The facts on which the rule may have a say."""
    if rule == "never":
        return set()
    return {fact for row in rows if rule == "arrival" or row.claim.time is not None for fact in row.facts}


def _keep_order(drafts: Sequence[Stored], before: Mapping[str, Stored], others: Iterable[Stored]) -> list[Stored]:
    """The drafts; those of stored edits keep the order that they had where the last word on their facts is the same."""
    arrived = {row.entry.edit_id: row.order for row in drafts}  # in order
    orders = arrived | {row.entry.edit_id: row.order for row in before.values() if row.entry.edit_id in arrived}
    said: dict[str, dict[str, None]] = {}
    for row in drafts:
        for fact in row.facts:
            said.setdefault(fact, {})[row.entry.edit_id] = None
    floor: dict[str, int] = {}
    for row in others:
        floor |= {fact: max(floor.get(fact, 0), row.order) for fact in row.facts}
    late = set(arrived)
    while late:  # an edit that moves because of one fact may have to draw others along
        late = set()
        for fact, edit_ids in said.items():
            now = [floor.get(fact, 0), *(orders[edit_id] for edit_id in edit_ids)]
            if any(earlier >= later for earlier, later in pairwise(now)):
                late |= {edit_id for edit_id in edit_ids if orders[edit_id] != arrived[edit_id]}
        orders |= {edit_id: arrived[edit_id] for edit_id in late}
    return [row._replace(order=orders[row.entry.edit_id]) for row in drafts]
