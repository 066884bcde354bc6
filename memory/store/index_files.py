"""Clears what Chroma writes of this process's memory into a new index: its file is written before anything is in it."""

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LAYOUT = 1
"""Of the header that is known here; an index with another one is left alone."""
HEADER = struct.Struct("<i4Q")
"""Version of the layout, offset of the links, room for entries, entries, bytes for each."""
LENGTH_BYTES = 4


class IndexFiles:
    """The files of a folder's indexes; cleared whenever nobody uses the folder's database any more.

    A new index (chromadb 1.5) is saved with room for a hundred entries that was never filled: whatever had stood there
    in memory, keys and texts of others, would lie in the folder and go wherever it is copied. An index may be made by
    reading too, and is safe to touch only while nothing is read or written.

    Args:
        folder: of the database; no other process uses it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._users = 0
        self._seen: dict[Path, int] = {}

    @contextmanager
    def used(self) -> Iterator[None]:
        """Around each use of the database.

        Raises:
            OSError: a file cannot be read or written.
        """
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
            if self._seen.get(header) != changed:
                clear_unused(header)
                self._seen[header] = changed


def clear_unused(header: Path) -> None:
    """Write zeros behind the last entry of the index that this header belongs to."""
    told = header.read_bytes()
    if len(told) < HEADER.size:
        return
    version, _, _, entries, entry_bytes = HEADER.unpack_from(told)
    if version == LAYOUT:
        _clear_from(header.with_name("data_level0.bin"), entries * entry_bytes)
        _clear_from(header.with_name("length.bin"), entries * LENGTH_BYTES)


def _clear_from(path: Path, start: int) -> None:
    size = path.stat().st_size if path.exists() else 0
    if size <= start:
        return
    with path.open("r+b") as file:
        file.seek(start)
        if file.read().strip(b"\0"):
            file.seek(start)
            file.write(bytes(size - start))
