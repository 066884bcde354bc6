"""Edits in files of JSON lines, as commands read and write them."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from emend.memory.edit import Edit
from emend.memory.errors import BadData, BadSettings


def read_files(files: Sequence[str]) -> list[Edit]:
    """The edits of files of JSON lines; - is the input.

    Raises:
        BadData: a file cannot be read, or a line is no edit.
    """
    from emend.memory.jsonl import read_edits

    edits: list[Edit] = []
    for file in files:
        edits += read_edits(_text_of(file).split("\n"), "the input" if file == "-" else file)
    first: dict[str, Edit] = {}
    for edit in edits:
        if first.setdefault(edit.id, edit) != edit:
            raise BadData(f"two edits in {', '.join(files)} have the id '{edit.id}' and differ: give one another id.")
    return edits


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
