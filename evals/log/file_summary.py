"""Summaries of a large run's files in the user's cache folder, so that only what was appended since is read again.

They are no part of the run, which may be a stranger's. One that is missing, damaged or of another file is made anew.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from emend.memory.errors import BadData
from emend.memory.files import open_file, private_folder, replace_file
from emend.memory.json_files import BEGINNING, LinePlace
from emend.memory.paths import cache_folder

LARGE = 16 * 2**20
"""Bytes read from which on a summary is kept; less is read again faster than it is worth."""
NUMBER = 40
"""Summaries in the cache folder; the one that was not used for the longest time is deleted."""
WINDOW = 2**16
"""Bytes at the beginning, and before the end of the summarised part, by which a file is recognised."""
FOLDER, VERSION = "summaries", 1


class FileSummary(NamedTuple):
    """Parts of a summary by name, and the place in the file up to which it is of; empty at the beginning."""

    parts: Mapping[str, bytes] = {}
    place: LinePlace = BEGINNING


def read_summary(path: Path) -> FileSummary:
    """Return what is kept of a file."""
    with suppress(OSError, BadData):
        with open_file(path) as file, open_file(_path_of(path)) as cached:
            digest, _, summary = cached.read().partition(b"\n")
            if digest != _digest(summary):
                return FileSummary()
            line, _, content = summary.partition(b"\n")
            head, status = json.loads(line), os.fstat(file.fileno())
            place = LinePlace(*head["place"])
            is_same = place.offset < status.st_size or head["changed"] == status.st_mtime_ns
            if head["file"] != _state(file, place) or not is_same:
                return FileSummary()
        os.utime(_path_of(path))
        parts, start = {}, 0
        for name, size in head["parts"].items():
            parts[name], start = content[start : start + size], start + size
        return FileSummary(parts, place)
    return FileSummary()


def keep_summary(path: Path, pack: Callable[[], Mapping[str, bytes]], since: LinePlace, place: LinePlace) -> None:
    """Keep a summary of a file, if enough was read for it; where it cannot be kept, do nothing.

    Args:
        path: the file.
        pack: makes the parts.
        since: place of the summary that was kept until now.
        place: place in the file up to which the new one is of.
    """
    if place.offset - since.offset < LARGE:
        return
    with suppress(OSError, BadData):
        parts = pack()
        with open_file(path) as file:
            state, changed = _state(file, place), os.fstat(file.fileno()).st_mtime_ns
        sizes = {name: len(part) for name, part in parts.items()}
        head = {"file": state, "changed": changed, "place": place, "parts": sizes}
        summary = b"\n".join([json.dumps(head).encode(), b"".join(parts.values())])
        folder = private_folder(cache_folder(FOLDER))
        replace_file(_path_of(path), b"\n".join([_digest(summary), summary]))
        for old in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)[:-NUMBER]:
            old.unlink(missing_ok=True)


def _path_of(path: Path) -> Path:
    digest = hashlib.blake2b(os.fsencode(path.resolve()), digest_size=16)
    return cache_folder(FOLDER) / f"{digest.hexdigest()}-{VERSION}"


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()


def _state(file: BinaryIO, place: LinePlace) -> list[int | str]:
    """Marks by which a file is recognised whose part up to a place was read."""
    status, digest = os.fstat(file.fileno()), hashlib.blake2b(digest_size=16)
    for start in (0, max(0, place.offset - WINDOW)):
        file.seek(start)
        digest.update(file.read(min(WINDOW, place.offset - start)))
    return [status.st_dev, status.st_ino, digest.hexdigest()]
