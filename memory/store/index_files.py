"""Zeroing of the unused part of Chroma's index files, which may contain uninitialised memory of
this process.
"""

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emend.memory.files import open_file

# The supported header version; index files of other versions are left unchanged.
LAYOUT = 1
# The header: layout version, offset of the links, capacity, number of entries, bytes per entry.
HEADER = struct.Struct("<i4Q")
LENGTH_BYTES = 4


class IndexFiles:
    """The index files of a database folder; the bytes after their entries are zeroed whenever the
    database is no longer in use.

    A new index (chromadb 1.5) is saved with uninitialised space for a hundred entries, so leftovers
    of this process's memory, including API keys and texts, would be written to the folder. Reading
    may create an index too, and a file can only be changed safely while nobody reads or writes it.

    Args:
        folder: the database's folder, which no other process uses.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._users = 0
        self._cleared: dict[Path, int] = {}

    @contextmanager
    def used(self) -> Iterator[None]:
        """Mark the database as in use; wrap each use of it."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._clear()

    def _clear(self) -> None:
        for header in self._folder.glob("*/header.bin"):
            changed = header.stat().st_mtime_ns
            if self._cleared.get(header) != changed:
                clear_unused(header)
                self._cleared[header] = changed


def clear_unused(header: Path) -> None:
    """Write zeros after the last entry of the index that this header describes."""
    with open_file(header) as file:
        content = file.read(HEADER.size)
    if len(content) < HEADER.size:
        return
    version, _, _, entries, entry_bytes = HEADER.unpack(content)
    if version == LAYOUT:
        _clear_from(header.with_name("data_level0.bin"), entries * entry_bytes)
        _clear_from(header.with_name("length.bin"), entries * LENGTH_BYTES)


def _clear_from(path: Path, start: int) -> None:
    size = path.stat().st_size if path.exists() else 0
    if size <= start:
        return
    with open_file(path, "r+b") as file:
        file.seek(start)
        if file.read().strip(b"\0"):
            file.seek(start)
            file.write(bytes(size - start))
