"""Erasure of obsolete frames in an SQLite write-ahead log.

SQLite restarts a log at its beginning, with a new salt, once all frames are in the database. Frames
with an earlier salt are never read again but stay in the file
(https://www.sqlite.org/fileformat2.html#walformat).
"""

import os
from pathlib import Path
from typing import BinaryIO

from emend.memory.files import open_file

HEADER, FRAME_HEADER = 32, 24
_BLOCK = 2**15


def read_salt(path: Path) -> bytes:
    """Return the current salt of a log; empty if the file is empty."""
    with open_file(path, buffering=0) as file:
        return file.read(HEADER)[16:24]


def erase_former_frames(path: Path) -> None:
    """Overwrite the frames of earlier rounds with zeros; nobody may write to the log meanwhile."""
    with open_file(path, "r+b", buffering=0) as file:
        header = file.read(HEADER)
        if len(header) < HEADER:  # another process has emptied the log
            return
        end, length = HEADER, FRAME_HEADER + int.from_bytes(header[8:12], "big")
        while file.read(FRAME_HEADER)[8:16] == header[16:24]:
            end += length
            file.seek(end)
        file.seek(end)
        _overwrite(file)


def _overwrite(file: BinaryIO) -> None:
    """Overwrite the rest of a file with zeros, skipping blocks that are zero already."""
    while block := file.read(_BLOCK):
        zeros = bytes(len(block))
        if block != zeros:
            file.seek(-len(block), os.SEEK_CUR)
            file.write(zeros)
