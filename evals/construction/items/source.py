"""Items read from a construction's source, all or a seeded sample, with their provenance."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.items.line import BuildItem
from emend.evals.construction.kinds import build_kind
from emend.evals.construction.registry import CONSTRUCTIONS
from emend.memory.errors import BadData

# Length of the digest of the items in hex digits.
DIGEST = 16
# Maximum number of unreadable documents named in a message.
NAMED = 3


class ItemSource(NamedTuple):
    """Items to make, and the provenance: source, files and counts of what was left out."""

    items: Sequence[BuildItem]
    provenance: dict[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 digest of the item ids, truncated to 16 hex digits."""
        return hashlib.sha256("".join(item.id for item in self.items).encode()).hexdigest()[:DIGEST]


def read_item_source(kind: str, config: BuildConfig, source: str) -> ItemSource:
    """Read the items of a source in order; with a limit, return a seeded sample.

    Args:
        kind: kind of benchmark.
        config: build configuration with the limit and the seed.
        source: file, folder or benchmark.

    Raises:
        BadSettings: the kind is unknown.
        BadData: the source cannot be read, or has no items.
    """
    reader = build_kind(kind)
    with CONSTRUCTIONS.plugin_errors(kind):
        stream, notes = reader.read(source)
        items = [
            BuildItem(position=number, text=text, fields=in_order(fields))
            for number, (text, fields) in enumerate(stream)
        ]
    if not items:
        raise BadData(
            f"'{source}' has no item for kind {kind}{_why(notes.unread)}: see "
            "docs/how-to/build.md for its form."
        )
    files = {name: {"sha256": digest} for name, digest in notes.files.items()}
    provenance: dict[str, Any] = {
        "source": notes.name,
        "licence": notes.licence,
        "date": notes.date,
        "files": files,
        "items": len(items),
    }
    if notes.left_out:
        provenance["dropped"] = dict(notes.left_out)
    if notes.unread:
        provenance["unread"] = dict(notes.unread)
    return ItemSource(sample_in_order(items, config.limit, config.seed), provenance)


def _why(unread: Mapping[str, str]) -> str:
    """Return the end of an error message that names the first unreadable documents."""
    if not unread:
        return ""
    named = "; ".join(f"{name}: {reason}" for name, reason in islice(unread.items(), NAMED))
    return f"; {len(unread)} documents could not be read ({named})"


def in_order(value: Any) -> Any:
    """Return a JSON value with sorted keys, so that equal items have equal text."""
    if isinstance(value, dict):
        return {name: in_order(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [in_order(part) for part in value]
    return value


T = TypeVar("T")


def sample_in_order(items: Sequence[T], limit: int | None, seed: int) -> Sequence[T]:
    """Return a seeded sample of `limit` items in their original order, or all if it is None."""
    if limit is None or limit >= len(items):
        return items
    chosen = random.Random(seed).sample(range(len(items)), limit)
    return [items[position] for position in sorted(chosen)]
