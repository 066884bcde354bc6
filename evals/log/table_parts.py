"""Cached parts of a run's tables: one Parquet file per section of a file, in the user's cache
folder.

They are not stored in the run folder, which may come from a stranger. A part is written under a
temporary name and renamed, and its name identifies its content, so that processes need no locks and
a kill does no damage. Parts that are damaged or belong to another file are deleted.
"""

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple, Self

from emend.memory.errors import BadData
from emend.memory.files import FILE_MODE, open_file, private_folder
from emend.memory.json_files import BEGINNING, LinePlace
from emend.memory.paths import cache_folder

# Minimum size in bytes of a file whose parts are cached; smaller files are read fast enough.
LARGE = 16 * 2**20
# Maximum number of runs in the cache folder; the parts of the least recently used run are deleted.
NUMBER = 40
# Bytes at the beginning and end of a section that identify a file.
WINDOW = 2**16
# Age from which a draft, or a folder of held parts, counts as left by a killed process.
DRAFT_SECONDS, HELD_SECONDS = 3600, 24 * 3600
HELD = "held-"
FOLDER, VERSION = "tables", 4


class Part(NamedTuple):
    """A Parquet file with the end position and start offset of its section."""

    path: Path
    start: int
    end: LinePlace


class PartName(NamedTuple):
    """The name of a part: its table, section, the file's change time, and digests of file and
    part.
    """

    table: str
    start: int
    end: int
    lines: int
    changed: int
    source: str
    content: str

    @classmethod
    def parse(cls, path: Path) -> Self | None:
        """Parse a name; return None for other files."""
        try:
            table, start, end, lines, changed, source, content = path.name.removesuffix(
                ".parquet"
            ).split("-")
            return cls(table, int(start), int(end), int(lines), int(changed), source, content)
        except ValueError:
            return None

    def __str__(self) -> str:
        return "-".join(map(str, self)) + ".parquet"


def is_large(path: Path, large: int | None = None) -> bool:
    """Return whether a file has at least this size in bytes (default `LARGE`), so that its table is
    cached.
    """
    return path.exists() and path.stat().st_size >= (LARGE if large is None else large)


def parts_folder(run: Path) -> Path:
    """Return the folder for the parts of a run."""
    return (
        cache_folder(FOLDER)
        / hashlib.blake2b(os.fsencode(run.resolve()), digest_size=16).hexdigest()
    )


def find_parts(folder: Path, table: str, source: Path) -> list[Part]:
    """Return the contiguous parts from the beginning of a file; other parts of the table are
    deleted.

    Args:
        folder: the folder of the parts.
        table: name of the table.
        source: the run's file.
    """
    named = sorted(
        (name, path) for path in folder.glob(f"{table}-*.parquet") if (name := PartName.parse(path))
    )
    parts, end = list[Part](), BEGINNING
    with suppress(OSError, BadData), open_file(source) as file:
        status = os.fstat(file.fileno())
        # A change in place keeps the size, so that parts other than the last may be outdated too.
        changed = any(
            name.end == status.st_size and name.changed != status.st_mtime_ns for name, _ in named
        )
        for name, path in [] if changed else named:
            is_next = name.start == end.offset and name.end <= status.st_size
            if (
                is_next
                and name.source == source_digest(file, name.start, name.end)
                and name.content == _digest(path)
            ):
                end = LinePlace(name.end, name.lines)
                parts.append(Part(path, name.start, end))
        if named:
            os.utime(folder)
    valid = {part.path for part in parts}
    for _, path in named:
        if path not in valid:
            path.unlink(missing_ok=True)
    return parts


def keep_part(
    draft: Path, table: str, source: Path, start: int, end: LinePlace, changed: int
) -> Part:
    """Rename a draft, a Parquet file in the folder, to its final name.

    Args:
        draft: the draft.
        table: name of the table.
        source: the run's file.
        start: start offset of the section.
        end: end position of the section.
        changed: the change time of the run's file before reading.

    Raises:
        OSError: it cannot be written.
    """
    draft.chmod(FILE_MODE)
    with open_file(source) as file:
        name = PartName(
            table, start, *end, changed, source_digest(file, start, end.offset), _digest(draft)
        )
    path = draft.rename(draft.with_name(str(name)))
    return Part(path, start, end)


def hold_parts(parts: Sequence[Part], folder: Path, stack: ExitStack) -> list[Part]:
    """Return cached parts under names of this process, until the stack closes; under their own
    names, other processes delete parts that they replace.

    Raises:
        FileNotFoundError: a part was deleted.
    """
    try:
        held = Path(stack.enter_context(TemporaryDirectory(prefix=HELD, dir=folder)))
        for part in parts:
            os.link(part.path, held / part.path.name)
    except FileNotFoundError:
        raise
    except OSError:  # without hard links, or with a read-only cache
        return list(parts)
    return [part._replace(path=held / part.path.name) for part in parts]


def draft_in(folder: Path) -> Path:
    """Return the path of a new draft.

    Raises:
        OSError: the folder cannot be made.
    """
    private_folder(folder.parent, links=True)
    # left by a killed process, unless another one is writing it
    for left in private_folder(folder).glob("draft *"):
        if left.stat().st_mtime < time.time() - DRAFT_SECONDS:
            left.unlink(missing_ok=True)
    for left in folder.glob(f"{HELD}*"):
        if left.stat().st_mtime < time.time() - HELD_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    return folder / f"draft {secrets.token_hex(8)}"


def remove_oldest(folder: Path) -> None:
    """Delete the parts of the least recently used runs."""
    with suppress(OSError):
        for old in sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-NUMBER]:
            shutil.rmtree(old, ignore_errors=True)


def source_digest(file: BinaryIO, start: int, end: int) -> str:
    """Return a digest of a file's identity, its beginning and the end of a section."""
    status = os.fstat(file.fileno())
    digest = hashlib.blake2b(
        f"{VERSION} {status.st_dev} {status.st_ino} {start} {end}".encode(), digest_size=16
    )
    for offset in (0, max(0, end - WINDOW)):
        file.seek(offset)
        digest.update(file.read(min(WINDOW, end - offset)))
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
