"""AKEW's MQuAKE-CF from chains of facts, with a paragraph per edit and multi-hop questions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emend.evals.construction.sources.chains import FILE
from emend.evals.construction.sources.stored_items import (
    KeptItem,
    SourceItem,
    SourceNotes,
    write_json,
)
from emend.evals.data.benchmarks.mquake import ChainRewrite, ChainRow
from emend.evals.data.benchmarks.registry import PLACES, BenchmarkFiles, read_places
from emend.evals.data.benchmarks.rows import read_numbered, sha256
from emend.memory.edit import Edit
from emend.memory.errors import BadData

# Field of an edit with the rows of the chains whose first edit it is, perhaps empty; items of other
# sources lack the field.
CHAINS = "chains"
# Function that returns the graph's input fields for an edit and the aliases of its object.
EditFields = Callable[[Edit, Sequence[str]], dict[str, Any]]


def find_chains(source: str) -> Path | None:
    """Return the file of chains in a folder of `emend build chains` or of MQuAKE; None for other
    sources.
    """
    path = Path(source).expanduser() / FILE
    return path if path.is_file() else None


def read_chains(path: Path, edit_fields: EditFields) -> tuple[Iterator[SourceItem], SourceNotes]:
    """Return an item for each distinct edit of the chains, and notes on their file.

    Raises:
        BadData: a row is malformed; the message names row and field.
    """
    notes = SourceNotes(str(path.parent), files={path.name: sha256(path)})
    rows = list(read_numbered(path, ChainRow).values())
    if (path.parent / PLACES).is_file():
        rows = [rows[position] for position in read_places(path.parent)]
    chains: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    edits: dict[tuple[str, ...], tuple[Edit, list[str]]] = {}
    for row in rows:
        keys = [edit_key(rewrite.model_dump(by_alias=False)) for rewrite in row.requested_rewrite]
        for key, rewrite in zip(keys, row.requested_rewrite, strict=True):
            edits.setdefault(key, (rewrite.edit, _aliases(row, rewrite)))
        chains.setdefault(keys[0], []).append({"edits": keys, **_questions(row)})
    items = (
        SourceItem(edit.text, {**edit_fields(edit, aliases), CHAINS: chains.get(key, [])})
        for key, (edit, aliases) in edits.items()
    )
    return items, notes


def edit_key(rewrite: Mapping[str, Any]) -> tuple[str, ...]:
    """Return subject, relation id and new object of an edit, the key under which chains name it."""
    return rewrite["subject"], rewrite["relation_id"], rewrite["target_new"]["label"]


def _aliases(row: ChainRow, rewrite: ChainRewrite) -> list[str]:
    """Return the aliases of an edit's object, including those of the hop that asks for it."""
    names = dict.fromkeys(rewrite.answer_new_alias)
    for hop in row.new_single_hops:
        if hop.cloze == rewrite.cloze or hop.question == rewrite.question:
            names |= dict.fromkeys(hop.answer_alias)
    return list(names)


def _questions(row: ChainRow) -> dict[str, Any]:
    """Return the question and answer fields of a chain with their names in MQuAKE's files."""
    names = ("questions", "answer", "answer_alias", "new_answer", "new_answer_alias")
    return row.model_dump(mode="json", include={*names, "single_hops", "new_single_hops", "orig"})


def write_chains(
    items: Sequence[KeptItem], folder: Path, rewrite_of: Callable[[KeptItem], dict[str, Any]]
) -> BenchmarkFiles:
    """Write the records in the format of AKEW's MQuAKE-CF.json.

    A chain is left out if the paragraph of one of its edits was not kept.

    Raises:
        BadData: no chain is left.
    """
    rewrites = {_key_of(item): rewrite_of(item) for item in items}
    chains = [chain for item in items for chain in item.fields[CHAINS]]
    rows = []
    for chain in chains:
        keys = [tuple(key) for key in chain["edits"]]
        if all(key in rewrites for key in keys):
            fields = {name: value for name, value in chain.items() if name != "edits"}
            rows.append({"requested_rewrite": [rewrites[key] for key in keys], **fields})
    if not rows:
        raise BadData(
            "no chain has a kept paragraph for each of its edits: take more of them (--limit "
            "counts edits), or another author."
        )
    numbered = [{"case_id": number, **row} for number, row in enumerate(rows, 1)]
    write_json(folder / FILE, numbered)
    return BenchmarkFiles(benchmark="akew", options={"dataset": "mquake_cf"}, files=(FILE,))


def _key_of(item: KeptItem) -> tuple[str, ...]:
    fields = item.fields
    return fields["subject"], fields["relation_id"], fields["object"]
