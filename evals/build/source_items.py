"""Items of a source before and after construction, and notes on the source."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class SourceItem(NamedTuple):
    """An item to construct: a line for people, and the fields that its graph reads."""

    text: str
    fields: dict[str, Any]


class KeptItem(NamedTuple):
    """An item that passed all filters: the fields of its source, and the result of its graph."""

    fields: dict[str, Any]
    result: dict[str, Any]


@dataclass
class SourceNotes:
    """Notes on a source: its files or address with digests, licence, date, and counts of what was left out of it."""

    name: str
    licence: str = "not stated by the source"
    date: str = ""
    files: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
