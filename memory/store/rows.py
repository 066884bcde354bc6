"""Rows of the memory's collections: an entry with its facts and its edit."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from emend.memory.edit import Edit
from emend.memory.errors import BadData, problem_of
from emend.memory.escape import one_line
from emend.memory.json_files import parse_object
from emend.memory.retrieval.base import Entry
from emend.memory.store.superseding import Claim, compute_fact_ids, parse_time

# Chroma cannot store an empty list, and an upsert keeps the old value of a missing key
NO_FACTS = ["-"]
# Maximum length of a row's id in a message.
ID_LIMIT = 80


class MemoryRow(NamedTuple):
    """An entry with the ids of its facts, the arrival order of its edit, and whether it is current.

    `edit_json` is the edit as JSON without its id, and without its text if that is the entry's
    text; it is stored with the first row of an edit and is "" in the others.
    """

    entry: Entry
    facts: tuple[str, ...]
    order: int
    current: bool
    edit_json: str

    @property
    def claim(self) -> Claim:
        """The row's claim, the input of the superseding rule."""
        return Claim(
            self.entry.id, self.entry.edit_id, self.facts, parse_time(self.entry.time), self.order
        )

    @property
    def edit(self) -> Edit:
        """Return the edit stored with a first row.

        Raises:
            BadData: the stored edit is damaged.
        """
        where = f"stored edit '{self.entry.edit_id}'"
        fields = {"id": self.entry.edit_id, "text": self.entry.text} | parse_object(
            self.edit_json, where
        )
        try:
            return Edit.model_validate(fields)
        except ValidationError as error:
            raise BadData(
                f"{where}: {problem_of(error.errors()[0])}: withdraw it and add it again."
            ) from error

    def same_content(self, other: "MemoryRow | None") -> bool:
        """Return whether two rows are equal apart from the order and the current flag."""
        return (
            other is not None and self._replace(order=other.order, current=other.current) == other
        )


def make_entries(edit: Edit) -> list[Entry]:
    """Return the entries that the memory stores for an edit: its text, or each triplet of an edit
    of the form `triplets`.

    A blank text gives no entry: an edit from which nothing could be extracted cannot be retrieved.
    """
    return [row.entry for row in make_rows(edit)]


def make_rows(edit: Edit) -> list[MemoryRow]:
    """Return the entries of an edit as rows, current and with order 0 until `plan_changes` sets
    both.
    """
    many = edit.form == "triplets" and bool(edit.triplets)
    texts = [triplet.text for triplet in edit.triplets] if many else [edit.text]
    kind = "triplet" if edit.form == "triplets" else edit.form
    edit_json = edit.model_dump_json(
        exclude_defaults=True, exclude={"id"} if many else {"id", "text"}
    )
    rows: list[MemoryRow] = []
    for index, text in enumerate(texts):
        if text.strip():
            entry = Entry(
                id=f"{edit.id}.{index:03d}", edit_id=edit.id, text=text, kind=kind, time=edit.time
            )
            facts = compute_fact_ids(edit, index if many else None)
            rows.append(
                MemoryRow(entry, facts, order=0, current=True, edit_json="" if rows else edit_json)
            )
    return rows


def choose_collection(entry: Entry) -> str:
    """Return the name of the collection for an entry."""
    return "triplets" if entry.kind == "triplet" else "documents"


def metadata(row: MemoryRow) -> Mapping[str, Any]:
    """Return the Chroma metadata of a row, always with every key, because an upsert merges."""
    entry = row.entry
    fixed = {
        "edit_id": entry.edit_id,
        "kind": entry.kind,
        "time": entry.time or "",
        "edit": row.edit_json,
    }
    return {**fixed, "facts": list(row.facts) or NO_FACTS, **flags(row)}


def flags(row: MemoryRow) -> Mapping[str, Any]:
    """Return the metadata that changes when other edits are added or withdrawn."""
    return {"order": row.order, "current": row.current}


def row_from(id_: str, text: str, fields: Mapping[str, Any]) -> MemoryRow:
    """Return the row of a Chroma id, text and metadata.

    Raises:
        BadData: the metadata is not that of a row, as in a damaged folder or another program's.
    """
    try:
        entry = Entry(
            id=id_,
            edit_id=fields["edit_id"],
            text=text,
            kind=fields["kind"],
            time=fields["time"] or None,
        )
        facts = () if fields["facts"] == NO_FACTS else tuple(map(str, fields["facts"]))
        edit_json = str(fields["edit"])
        return MemoryRow(entry, facts, int(fields["order"]), bool(fields["current"]), edit_json)
    except (KeyError, TypeError, ValueError) as error:
        raise BadData(
            f"the stored row '{one_line(id_, ID_LIMIT)}' is damaged: its metadata is not of "
            "`emend memory`. Copy the memory's folder again, or add its edits to a new one."
        ) from error
