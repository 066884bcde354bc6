"""Notes on a run that was merged from shares: which there are, and where their versions or machines differ."""

from collections.abc import Iterator, Sequence
from typing import Any

from emend.evals.log.manifest import Manifest


def merge_notes(manifest: Manifest) -> tuple[str, ...]:
    """Return what a reader of the merged run should know; nothing for a run that was not merged."""
    return tuple(_notes(manifest)) if manifest.merged else ()


def _notes(manifest: Manifest) -> Iterator[str]:
    there = [each.number for each in manifest.merged]
    missing = sorted(set(range(1, manifest.shares + 1)).difference(there))
    yield f"merged from {len(there)} of {manifest.shares} shares" + (f"; missing: {_list(missing)}" if missing else "")
    for part in manifest.merged:
        if unfinished := part.units - part.finished - part.failed:
            yield f"share {part.number} was merged with {unfinished} of {part.units} units unfinished"
    for name in ("versions", "platform", "git"):
        yield from _differences(manifest, name)
    if manifest.mode == "all" and len(there) > 1:
        yield f"each share applied all edits: costs of editing and times have that {len(there)} times"


def _differences(manifest: Manifest, name: str) -> Iterator[str]:
    """Yield a line per field in which shares differ, with each value and who has it."""
    kind = "" if name == "versions" else f"{name} "
    fields = {each.number: dict(getattr(each, name) or {}) for each in manifest.merged}
    for field in sorted({field for values in fields.values() for field in values}):
        shares: dict[str, list[int]] = {}
        for number, values in fields.items():
            shares.setdefault(str(values.get(field, "none")), []).append(number)
        if len(shares) > 1:
            values_shown = (f"{value} (share {_list(on)})" for value, on in shares.items())
            yield f"shares differ in {kind}{field}: " + ", ".join(values_shown)


def _list(numbers: Sequence[Any]) -> str:
    rest = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    return ", ".join(map(str, numbers[:10])) + rest
