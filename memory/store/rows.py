"""Rows of the memory's collections: an entry, the facts it is about, and the edit that it came from."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from emend.memory.edit import Edit
from emend.memory.errors import BadData
from emend.memory.json_files import parse_object
from emend.memory.retrieval.base import Entry
from emend.memory.store.superseding import Claim, compute_fact_ids, parse_time

NO_FACTS = ["-"]  # Chroma stores no empty list, and an upsert would leave the old value of a key that is left out


class MemoryRow(NamedTuple):
    """An entry with the ids of its facts, the arrival order of its edit, and whether it is current.

    `edit_json` is the edit as JSON without its id, and without its text where that is the entry's own; it is stored
    with the first row of an edit and is "" in the others.
    """

    entry: Entry
    facts: tuple[str, ...]
    order: int
    current: bool
    edit_json: str

    @property
    def claim(self) -> Claim:
        """The part that the superseding rule needs."""
        return Claim(self.entry.id, self.entry.edit_id, self.facts, parse_time(self.entry.time), self.order)

    @property
    def edit(self) -> Edit:
        """The edit of a first row.

        Raises:
            BadData: the stored edit is damaged.
        """
        where = f"stored edit '{self.entry.edit_id}'"
        fields = {"id": self.entry.edit_id, "text": self.entry.text} | parse_object(self.edit_json, where)
        try:
            return Edit.model_validate(fields)
        except ValidationError as error:
            raise BadData(f"{where}: {error.errors()[0]['msg']}: withdraw it and add it again.") from error

    def same_content(self, other: "MemoryRow | None") -> bool:
        """True if at most the order and the current flag differ."""
        return other is not None and self._replace(order=other.order, current=other.current) == other


def make_entries(edit: Edit) -> list[Entry]:
    """The entries that the memory stores for an edit: its text, or each of its triplets when its form is `triplets`.

    A blank text gives no entry: an edit from which nothing could be extracted cannot be retrieved.
    """
    return [row.entry for row in make_rows(edit)]


def make_rows(edit: Edit) -> list[MemoryRow]:
    """The entries of an edit as rows, current and with order 0 until `plan_changes` decides both."""
    many = edit.form == "triplets" and bool(edit.triplets)
    texts = [triplet.text for triplet in edit.triplets] if many else [edit.text]
    kind = "triplet" if edit.form == "triplets" else edit.form
    edit_json = edit.model_dump_json(exclude_defaults=True, exclude={"id"} if many else {"id", "text"})
    rows: list[MemoryRow] = []
    for index, text in enumerate(texts):
        if text.strip():
            entry = Entry(id=f"{edit.id}.{index:03d}", edit_id=edit.id, text=text, kind=kind, time=edit.time)
            facts = compute_fact_ids(edit, index if many else None)
            rows.append(MemoryRow(entry, facts, order=0, current=True, edit_json="" if rows else edit_json))
    return rows


def choose_collection(entry: Entry) -> str:
    """The name of the collection that holds an entry."""
    return "triplets" if entry.kind == "triplet" else "documents"


def metadata(row: MemoryRow) -> Mapping[str, Any]:
    """Chroma metadata of a row; every key always, because an upsert merges."""
    entry = row.entry
    fixed = {"edit_id": entry.edit_id, "kind": entry.kind, "time": entry.time or "", "edit": row.edit_json}
    return {**fixed, "facts": list(row.facts) or NO_FACTS, **flags(row)}


def flags(row: MemoryRow) -> Mapping[str, Any]:
    """The part of the metadata that changes when other edits are added or withdrawn."""
    return {"order": row.order, "current": row.current}


def row_from(id_: str, text: str, fields: Mapping[str, Any]) -> MemoryRow:
    """The row that `metadata` wrote."""
    entry = Entry(id=id_, edit_id=fields["edit_id"], text=text, kind=fields["kind"], time=fields["time"] or None)
    facts = () if fields["facts"] == NO_FACTS else tuple(fields["facts"])
    return MemoryRow(entry, facts, int(fields["order"]), bool(fields["current"]), fields["edit"])
