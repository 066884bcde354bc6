"""Corrupted copies of files, and the type of an attack."""

import random
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

from emend.memory.edit import Edit

Case = tuple[str, Callable[[], object]]


def spoil(file: Path, rng: random.Random) -> None:
    """Change bytes of a file, truncate it, or repeat a part of it."""
    raw = bytearray(file.read_bytes())
    start = rng.randrange(max(1, len(raw)))
    match rng.randrange(4):
        case 0:
            raw[start : start + 1] = rng.randbytes(1)
        case 1:
            del raw[start:]
        case 2:
            raw[start:start] = raw[start : start + 200]
        case _:
            raw[start : start + 64] = rng.randbytes(64)
    file.write_bytes(raw)


def spoiled_copy(whole: Path, target: Path, rng: random.Random) -> Path:
    """Copy a folder and corrupt one of its files."""
    shutil.copytree(whole, target)
    spoil(rng.choice(sorted(path for path in target.rglob("*") if path.is_file() and path.stat().st_size)), rng)
    return target


def towns(count: int) -> list[Edit]:
    """Return edits about numbered towns."""
    return [Edit(form="document", text=f"The mayor of Town {number} is Mayor {number}.") for number in range(count)]


def in_process_limits(gigabytes: int) -> None:
    """Limit the memory of this process, so that a bomb ends it and not the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
