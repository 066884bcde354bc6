"""Ownership of a run folder: locked, writable and with room, checked before the first model call."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from emend.memory.errors import RunRefused

NEEDED_MB = 50
LOCK = "run.lock"


@contextmanager
def owned_folder(folder: Path, needed_mb: int = NEEDED_MB, drafts: Collection[str] = ()) -> Iterator[Path]:
    """Inside the `with`, the folder exists and is locked against a second process.

    A killed process leaves no lock behind: the operating system holds it, not the file's existence. A new folder that
    is empty in the end, or holds nothing but `drafts`, is removed again.

    Raises:
        RunRefused: it cannot be made or written, another process works in it, or `needed_mb` megabytes are not free.
    """
    new = not folder.exists()
    _make_writable(folder)
    free = shutil.disk_usage(folder).free // 2**20
    if free < needed_mb:
        raise RunRefused(
            f"'{folder}' has {free} MB of free space, a run needs {needed_mb} MB: free some, or give another --out."
        )
    try:
        with locked(folder / LOCK, f"working in '{folder}' (it holds {LOCK})"):
            yield folder
    finally:
        if new and {path.name for path in folder.iterdir()} <= {LOCK, *drafts}:  # a name or a setting was wrong
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(path: Path, act: str) -> Iterator[None]:
    """Hold the lock file; `act` says in an error what another process is doing.

    Raises:
        RunRefused: another process holds it, or it cannot be made.
    """
    try:
        lock = FileLock(path, timeout=0)
        lock.acquire()
    except Timeout as error:
        raise RunRefused(f"another process is {act}: wait for it, or give another --out.") from error
    except OSError as error:
        raise RunRefused(f"cannot write '{path}': {error.strerror or error}. Give another --out.") from error
    try:
        yield
    finally:
        lock.release()


def _make_writable(folder: Path) -> None:
    trial = folder / ".writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trial.write_bytes(b"x")
        trial.unlink()
    except OSError as error:
        raise RunRefused(
            f"cannot write to the run folder '{folder}': {error.strerror or error}. "
            "Make it writable, or give another --out."
        ) from error
