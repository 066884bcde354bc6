"""What stands in the memory's collections: rows that hold an entry, what it speaks of, and the edit it came from."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from emend.memory.edit import Edit
from emend.memory.retrieval.base import Entry
from emend.memory.store.superseding import Claim, facts_of, moment

NO_FACTS = ["-"]  # Chroma keeps no empty list, and an upsert would leave the old value of a key that is left out


class Stored(NamedTuple):
    """One row: an entry, the facts that it speaks of, when its edit arrived, and whether it is current.

    `told` is the edit as JSON without its id, and without its text where that is the entry's own; it stands in the
    first row of an edit and is "" in the others.
    """

    entry: Entry
    facts: tuple[str, ...]
    order: int
    current: bool
    told: str

    @property
    def claim(self) -> Claim:
        """What the rule of superseding sees of it."""
        return Claim(self.entry.id, self.entry.edit_id, self.facts, moment(self.entry.time), self.order)

    @property
    def edit(self) -> Edit:
        """The edit of a first row."""
        told = {"id": self.entry.edit_id, "text": self.entry.text} | json.loads(self.told)
        return Edit.model_validate(told)

    def same_content(self, other: "Stored | None") -> bool:
        """True if nothing but order and standing may differ."""
        return other is not None and self._replace(order=other.order, current=other.current) == other


def entries_of(edit: Edit) -> list[Entry]:
    """What the memory holds of an edit: its text, or each of its triplets when its form is `triplets`.

    A blank text gives no entry: an edit from which nothing could be extracted cannot be found.
    """
    return [row.entry for row in rows_of(edit, 0)]


def rows_of(edit: Edit, order: int) -> list[Stored]:
    """The entries of an edit as rows, current until they are found to be superseded."""
    many = edit.form == "triplets" and bool(edit.triplets)
    texts = [triplet.text for triplet in edit.triplets] if many else [edit.text]
    kind = "triplet" if edit.form == "triplets" else edit.form
    told = edit.model_dump_json(exclude_defaults=True, exclude={"id"} if many else {"id", "text"})
    rows: list[Stored] = []
    for place, text in enumerate(texts):
        if text.strip():
            entry = Entry(id=f"{edit.id}.{place:03d}", edit_id=edit.id, text=text, kind=kind, time=edit.time)
            facts = facts_of(edit, place if many else None)
            rows.append(Stored(entry, facts, order, current=True, told="" if rows else told))
    return rows


def collection_of(entry: Entry) -> str:
    """The name of the collection that holds it."""
    return "triplets" if entry.kind == "triplet" else "documents"


def metadata(row: Stored) -> Mapping[str, Any]:
    """What Chroma keeps beside text and vector; every key always, because an upsert merges."""
    entry = row.entry
    told = {"edit_id": entry.edit_id, "kind": entry.kind, "time": entry.time or "", "edit": row.told}
    return {**told, "facts": list(row.facts) or NO_FACTS, **standing(row)}


def standing(row: Stored) -> Mapping[str, Any]:
    """The part of the metadata that changes when other edits come and go."""
    return {"order": row.order, "current": row.current}


def row_from(id_: str, text: str, told: Mapping[str, Any]) -> Stored:
    """The row that `metadata` wrote."""
    entry = Entry(id=id_, edit_id=told["edit_id"], text=text, kind=told["kind"], time=told["time"] or None)
    facts = () if told["facts"] == NO_FACTS else tuple(told["facts"])
    return Stored(entry, facts, int(told["order"]), bool(told["current"]), told["edit"])
