"""Parts of a run's tables in the user's cache folder: a Parquet file for each stretch of a file.

They are no part of the run, which may be a stranger's. A part is written under another name and renamed, and its name
says what it is of, so that processes read and write without locks and a kill spoils nothing. One that is damaged, or
of another file, is deleted.
"""

import hashlib
import os
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from emend.memory.errors import BadData
from emend.memory.files import FILE_MODE, open_file, private_folder
from emend.memory.json_files import BEGINNING, LinePlace
from emend.memory.paths import cache_folder

LARGE = 16 * 2**20
"""Size in bytes of a file from which on its parts are kept; a smaller one is read again faster than that is worth."""
NUMBER = 40
"""Runs in the cache folder; the parts of the one that was not used for the longest time are deleted."""
WINDOW = 2**16
"""Bytes at the beginning and before the end of a stretch by which a file is recognised."""
DRAFT_SECONDS = 3600
"""Age from which on a draft is one that a killed process left."""
FOLDER, VERSION = "tables", 2


class Part(NamedTuple):
    """A Parquet file, and the stretch that it is of: the place where this ends, and the offset where it starts."""

    path: Path
    start: int
    end: LinePlace


class PartName(NamedTuple):
    """The name of a part: its table, the stretch, when the file had been changed, and digests of file and part."""

    table: str
    start: int
    end: int
    lines: int
    changed: int
    source: str
    content: str

    @classmethod
    def parse(cls, path: Path) -> Self | None:
        """The name as parsed; None for another file."""
        try:
            table, start, end, lines, changed, source, content = path.name.removesuffix(".parquet").split("-")
            return cls(table, int(start), int(end), int(lines), int(changed), source, content)
        except ValueError:
            return None

    def __str__(self) -> str:
        return "-".join(map(str, self)) + ".parquet"


def is_large(path: Path, large: int | None = None) -> bool:
    """True for a file whose lines are read from its table: one of that size in bytes, by default of `LARGE`."""
    return path.exists() and path.stat().st_size >= (LARGE if large is None else large)


def parts_folder(run: Path) -> Path:
    """The folder for the parts of a run."""
    return cache_folder(FOLDER) / hashlib.blake2b(os.fsencode(run.resolve()), digest_size=16).hexdigest()


def find_parts(folder: Path, table: str, source: Path) -> list[Part]:
    """The parts that follow each other from the beginning of a file; others of the table are deleted.

    Args:
        folder: of the parts.
        table: name of the table.
        source: the run's file.
    """
    named = sorted((name, path) for path in folder.glob(f"{table}-*.parquet") if (name := PartName.parse(path)))
    parts, end = list[Part](), BEGINNING
    with suppress(OSError, BadData), open_file(source) as file:
        status = os.fstat(file.fileno())
        # A change in place keeps the size: not only the last part may be of what is there no more.
        changed = any(name.end == status.st_size and name.changed != status.st_mtime_ns for name, _ in named)
        for name, path in [] if changed else named:
            is_next = name.start == end.offset and name.end <= status.st_size
            if is_next and name.source == source_digest(file, name.start, name.end) and name.content == _digest(path):
                end = LinePlace(name.end, name.lines)
                parts.append(Part(path, name.start, end))
        if named:
            os.utime(folder)
    valid = {part.path for part in parts}
    for _, path in named:
        if path not in valid:
            path.unlink(missing_ok=True)
    return parts


def keep_part(draft: Path, table: str, source: Path, start: int, end: LinePlace, changed: int) -> Part:
    """Give a draft, a Parquet file in its folder, its name.

    Args:
        draft: the file.
        table: name of the table.
        source: the run's file.
        start: offset where the stretch starts.
        end: place where it ends.
        changed: time at which the run's file had been changed before it was read.

    Raises:
        OSError: it cannot be written.
    """
    draft.chmod(FILE_MODE)
    with open_file(source) as file:
        name = PartName(table, start, *end, changed, source_digest(file, start, end.offset), _digest(draft))
    path = draft.rename(draft.with_name(str(name)))
    return Part(path, start, end)


def draft_in(folder: Path) -> Path:
    """The path of a new draft.

    Raises:
        OSError: the folder cannot be made.
    """
    private_folder(folder.parent, links=True)
    for left in private_folder(folder).glob("draft *"):  # by a killed process, unless another one writes it now
        if left.stat().st_mtime < time.time() - DRAFT_SECONDS:
            left.unlink(missing_ok=True)
    return folder / f"draft {secrets.token_hex(8)}"


def remove_oldest(folder: Path) -> None:
    """Delete the parts of runs that were not used for the longest time."""
    with suppress(OSError):
        for old in sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-NUMBER]:
            shutil.rmtree(old, ignore_errors=True)


def source_digest(file: BinaryIO, start: int, end: int) -> str:
    """Digest of a file's identity and of what is at its beginning and before the end of a stretch."""
    status = os.fstat(file.fileno())
    digest = hashlib.blake2b(f"{VERSION} {status.st_dev} {status.st_ino} {start} {end}".encode(), digest_size=16)
    for offset in (0, max(0, end - WINDOW)):
        file.seek(offset)
        digest.update(file.read(min(WINDOW, end - offset)))
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
