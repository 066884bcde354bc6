"""Edits in files of JSON lines, as commands read and write them."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from emend.memory.edit import Edit
from emend.memory.errors import BadData, BadSettings


def read_files(files: Sequence[str]) -> list[Edit]:
    """The edits of files of JSON lines, or of one JSON array; - is the input.

    Raises:
        BadData: a file cannot be read, or a line is no edit.
    """
    from emend.memory.store.jsonl import read_text

    edits: list[Edit] = []
    for file in files:
        edits += read_text(_text_of(file), "the input" if file == "-" else file)
    first: dict[str, Edit] = {}
    for edit in edits:
        if first.setdefault(edit.id, edit) != edit:
            raise BadData(f"two edits in {', '.join(files)} have the id '{edit.id}' and differ: give one another id.")
    return edits


def distinct(edits: Sequence[Edit]) -> list[Edit]:
    """One edit for each id, in their order; a line in the log says how many were left out."""
    kept = list({edit.id: edit for edit in edits}.values())
    if len(kept) < len(edits):
        left = len(edits) - len(kept)
        logging.getLogger(__name__).warning("%s of %s edits left out, which repeat another", left, len(edits))
    return kept


def warn_of_contradictions(edits: Sequence[Edit]) -> None:
    """A line in the log where edits give one subject and prompt, or one subject and relation, different targets."""
    first: dict[tuple[str, ...], Edit] = {}
    found: dict[str, str] = {}
    for edit in edits:
        for asked, target in _told(edit):
            other = first.setdefault(asked, edit)
            if target not in [told for key, told in _told(other) if key == asked]:
                found.setdefault(edit.id, f"'{other.id}' ({other.text[:60]!r}) and '{edit.id}' ({edit.text[:60]!r})")
    if found:
        pair, more = next(iter(found.values())), f", and {len(found) - 1} more" if len(found) > 1 else ""
        logging.getLogger(__name__).warning(
            "edits contradict each other: %s%s: leave out what no longer holds", pair, more
        )


def _told(edit: Edit) -> list[tuple[tuple[str, ...], str]]:
    """What an edit gives a target to, and the target."""
    if len(edit.triplets) > 1:
        return []
    told: list[tuple[tuple[str, ...], str]] = [
        (("relation", one.subject, one.relation), one.object) for one in edit.triplets if one.relation
    ]
    if edit.prompt and edit.target_new:
        told.append((("prompt", edit.subject, edit.prompt), edit.target_new))
    return told


def _text_of(file: str) -> str:
    name = "the input" if file == "-" else f"'{file}'"
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise BadData(f"cannot read {name}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadData(
            f"{name}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8: save the file as UTF-8."
        ) from error


def write_whole(file: str, lines: Iterator[str]) -> None:
    """A file that is there whole or as before; what is no plain file, such as a pipe, is written to as it is.

    Raises:
        BadSettings: it cannot be written.
    """
    path = Path(file).resolve()  # a link stays one
    plain = path.is_file() or not path.exists()
    draft = path.with_name(f"{path.name}.{os.getpid()}.part") if plain else path
    try:
        if not file or path.is_dir():
            raise IsADirectoryError(f"'{file}' is no name of a file")
        with draft.open("w", encoding="utf-8") as out:
            out.writelines(lines)
        if plain:
            draft.replace(path)
    except OSError as error:
        raise BadSettings(f"cannot write '{file}': {error.strerror or error}.") from error
