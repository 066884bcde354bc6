"""Edits in JSON Lines files, as commands read them."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from emend.memory.edit import Edit
from emend.memory.errors import BadData
from emend.memory.files import read_input


def read_files(files: Sequence[str]) -> list[Edit]:
    """Return the edits of JSON Lines files, or of one JSON array; - is standard input.

    Raises:
        BadData: a file cannot be read, or a line is not an edit.
    """
    from emend.memory.store.jsonl import read_text

    edits: list[Edit] = []
    for file in files:
        edits += read_text(_text_of(file), "the input" if file == "-" else file)
    first: dict[str, Edit] = {}
    for edit in edits:
        if first.setdefault(edit.id, edit) != edit:
            raise BadData(
                f"two different edits in {', '.join(files)} have the id '{edit.id}': change one "
                "of the ids."
            )
    return edits


def distinct(edits: Sequence[Edit]) -> list[Edit]:
    """Return the edits with each id once, in their order, and log the number of repetitions."""
    unique = list({edit.id: edit for edit in edits}.values())
    if len(unique) < len(edits):
        repeated = len(edits) - len(unique)
        logging.getLogger(__name__).warning(
            "%s of %s duplicate edits left out", repeated, len(edits)
        )
    return unique


def warn_of_contradictions(edits: Sequence[Edit]) -> None:
    """Log a warning if edits give different targets for one subject and prompt or relation."""
    first: dict[tuple[str, ...], Edit] = {}
    contradictions: dict[str, str] = {}
    for edit in edits:
        for key, target in _targets(edit):
            other = first.setdefault(key, edit)
            if target not in [
                other_target for other_key, other_target in _targets(other) if other_key == key
            ]:
                both = f"'{other.id}' ({other.text[:60]!r}) and '{edit.id}' ({edit.text[:60]!r})"
                contradictions.setdefault(edit.id, both)
    if contradictions:
        example, count = next(iter(contradictions.values())), len(contradictions) - 1
        others = f", and {count} more" if count else ""
        logging.getLogger(__name__).warning(
            "edits contradict each other: %s%s: leave out outdated ones", example, others
        )


def _targets(edit: Edit) -> list[tuple[tuple[str, ...], str]]:
    """Return the edit's targets with their keys (subject with relation, or with prompt)."""
    if len(edit.triplets) > 1:
        return []
    targets: list[tuple[tuple[str, ...], str]] = [
        (("relation", triplet.subject, triplet.relation), triplet.object)
        for triplet in edit.triplets
        if triplet.relation
    ]
    if edit.prompt and edit.target_new:
        targets.append((("prompt", edit.subject, edit.prompt), edit.target_new))
    return targets


def _text_of(file: str) -> str:
    name = "the input" if file == "-" else f"'{file}'"
    try:
        if file == "-":
            content = sys.stdin.buffer.read()
        else:
            content = read_input(Path(file))
        return content.decode("utf-8-sig")
    except OSError as error:
        raise BadData(f"cannot read {name}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadData(
            f"{name}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8: save the file "
            "as UTF-8."
        ) from error
