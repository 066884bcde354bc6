"""Source items, kept items, and storage of rule-composed items in the benchmark folder."""

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from emend.evals.data.benchmarks.rows import read_text, sha256
from emend.evals.data.facts.fact_formats import HUB
from emend.memory.errors import BadData, RunRefused
from emend.memory.files import private_folder, read_file, replace_file
from emend.memory.json_files import read_json, value_lines


class SourceItem(NamedTuple):
    """Item to construct: a human-readable line, and the input fields of the graph."""

    text: str
    fields: dict[str, Any]


class KeptItem(NamedTuple):
    """Item that passed all filters: its input fields, and the result of the graph."""

    fields: dict[str, Any]
    result: dict[str, Any]


@dataclass
class SourceNotes:
    """Notes on a source: name, licence, date, digests of its files, counts of left-out rows by
    reason, and reasons by unreadable document.
    """

    name: str
    licence: str = "not stated by the source"
    date: str = ""
    files: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_facts(cls, source: str) -> Self:
        """Return notes on a file of facts; a file on the Hugging Face hub has no digest."""
        path = Path(source).expanduser()
        return cls(source, files={} if source.startswith(HUB) else {path.name: sha256(path)})

    def leave_out(self, reason: str) -> None:
        """Count a row that is left out for a reason."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


def write_json(path: Path, rows: Any) -> None:
    """Write rows as an indented JSON file."""
    replace_file(path, (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode())


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write rows as JSON lines."""
    replace_file(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


ITEMS, NOTES = "items.jsonl", "items-source.json"
# Field with the human-readable line of an item.
TEXT = "text"


def store_items(items: Sequence[Mapping[str, Any]], notes: SourceNotes, out: Path) -> Path:
    """Write the items and the notes on their source, and return the item file; idempotent.

    Raises:
        RunRefused: the folder holds other items.
    """
    content = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items).encode()
    private_folder(out, links=True)
    if os.path.lexists(out / ITEMS) and read_file(out / ITEMS) != content:
        raise RunRefused(
            f"'{out}' contains items of other facts or options: give another --out folder."
        )
    replace_file(out / NOTES, json.dumps(asdict(notes), ensure_ascii=False, indent=1).encode())
    replace_file(out / ITEMS, content)
    return out / ITEMS


def read_items(source: str) -> tuple[Iterator[SourceItem], SourceNotes]:
    """Return the items of a file written by `store_items`, and the notes on their source.

    Raises:
        BadData: the file cannot be read.
    """
    path = Path(source)
    text = read_text(path, "Repeat the emend build that made it.")
    items = [item for _, item in value_lines(text, str(path))]
    if not all(isinstance(item, dict) and TEXT in item for item in items):
        raise BadData(f"{path} has no items: repeat the emend build that made it.")
    stored = read_json(path.with_name(NOTES))
    try:
        notes = SourceNotes(**stored | {"files": {**stored["files"], path.name: sha256(path)}})
    except (KeyError, TypeError) as error:
        raise BadData(
            f"{path.with_name(NOTES)} is damaged ({error}): repeat the emend build that made it."
        ) from error
    return (SourceItem(item[TEXT], item) for item in items), notes


T = TypeVar("T")


def in_turn(iterators: Iterable[Iterator[T]]) -> Iterator[T]:
    """Yield the items of all iterators in round-robin order until all are exhausted."""
    turns = deque(iterators)
    while turns:
        iterator = turns.popleft()
        for item in islice(iterator, 1):
            yield item
            turns.append(iterator)


def take_turns(iterators: Iterable[Iterator[T]], count: int) -> list[T]:
    """Return at most `count` items of the iterators in round-robin order."""
    return list(islice(in_turn(iterators), count))
