"""Planning of the writes that add or withdraw edits: rows to insert, rows whose flags change, rows
to delete.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from emend.memory.edit import Edit
from emend.memory.store.rows import MemoryRow, make_rows
from emend.memory.store.superseding import Superseding, superseded


class StoreChanges(NamedTuple):
    """Rows to write with their vectors, rows whose order or current flag changes, and ids of rows
    to delete.
    """

    upsert: list[MemoryRow]
    update: list[MemoryRow]
    delete: list[str]


# Looks up the stored rows about any of these facts, each once.
FactLookup = Callable[[Iterable[str]], Iterable[MemoryRow]]


def plan_changes(
    edits: Sequence[Edit],
    before: Mapping[str, MemoryRow],
    lookup: FactLookup,
    rule: Superseding,
    clock: int,
) -> StoreChanges:
    """Return the changes that replace the rows `before` by `edits`.

    Args:
        edits: distinct, in order of arrival.
        before: the stored rows of these edits, and rows to delete, by entry id.
        lookup: finds stored rows by fact.
        rule: the superseding rule.
        clock: the order of the first edit, unless a stored row has a later one (written by a host
            with another clock).
    """
    new = [row for edit in edits for row in make_rows(edit)]
    facts = _decided_facts([*new, *before.values()], rule)
    others = {row.entry.id: row for row in lookup(facts) if row.entry.id not in before}
    first = max([clock, *(row.order + 1 for row in (*before.values(), *others.values()))])
    arrivals = {edit.id: first + index for index, edit in enumerate(edits)}
    planned = {
        row.entry.id: row for row in _with_orders(new, arrivals, before.values(), others.values())
    } | others
    # The other rows may have further facts, whose edits also affect whether those rows are current.
    distant = lookup(_decided_facts(others.values(), rule) - facts)
    claims = {row.entry.id: row.claim for row in distant if row.entry.id not in before}
    old = superseded(
        list((claims | {id_: row.claim for id_, row in planned.items()}).values()), rule
    )
    stored = {**others, **before}
    upsert, update = [], []
    for row in (row._replace(current=id_ not in old) for id_, row in planned.items()):
        if not row.same_content(stored.get(row.entry.id)):
            upsert.append(row)
        elif row != stored[row.entry.id]:
            update.append(row)
    return StoreChanges(upsert, update, sorted(before.keys() - planned.keys()))


def find_conflicts(
    changes: StoreChanges, before: Iterable[MemoryRow], lookup: FactLookup, rule: Superseding
) -> list[MemoryRow]:
    """Return rows whose current flag is wrong after the changes because another process wrote about
    the same facts.

    When two processes write at once, the one that checks last sees both writes. `before` are the
    rows stored before the changes, some of which have been deleted.
    """
    facts = _decided_facts([*changes.upsert, *changes.update, *before], rule)
    stored = {row.entry.id: row for row in lookup(facts)}
    distant = {row.entry.id: row for row in lookup(_decided_facts(stored.values(), rule) - facts)}
    old = superseded([row.claim for row in (distant | stored).values()], rule)
    return [
        row._replace(current=id_ not in old)
        for id_, row in stored.items()
        if row.current == (id_ in old)
    ]


def _decided_facts(rows: Iterable[MemoryRow], rule: Superseding) -> set[str]:
    """Return the facts of rows to which the rule applies."""
    if rule == "never":
        return set()
    return {
        fact
        for row in rows
        if rule == "arrival" or row.claim.time is not None
        for fact in row.facts
    }


def _with_orders(
    new: Sequence[MemoryRow],
    arrivals: Mapping[str, int],
    before: Iterable[MemoryRow],
    others: Iterable[MemoryRow],
) -> list[MemoryRow]:
    """Return the new rows with the order of their edit.

    A stored edit keeps its order, so that adding it again costs nothing. If a later edit of one of
    its facts is stored or precedes it in this batch, it counts as arriving now.
    """
    orders = {row.entry.edit_id: row.order for row in before}
    latest: dict[str, int] = {}  # the highest order of each fact so far
    for row in others:
        latest |= {fact: max(latest.get(fact, 0), row.order) for fact in row.facts}
    facts: dict[str, list[str]] = {edit_id: [] for edit_id in arrivals}
    for row in new:
        facts[row.entry.edit_id] += row.facts
    for edit_id, arrival in arrivals.items():
        order = orders.get(edit_id, arrival)
        if any(latest.get(fact, 0) >= order for fact in facts[edit_id]):
            order = arrival
        orders[edit_id] = order
        latest |= dict.fromkeys(facts[edit_id], order)
    return [row._replace(order=orders[row.entry.edit_id]) for row in new]
