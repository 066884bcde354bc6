"""Ownership of a run folder: locked, writable and with room, checked before the first model call."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from emend.evals.log.records import write_errors
from emend.memory.errors import RunRefused
from emend.memory.files import open_file, private_folder

NEEDED_MB = 50
LOCK = "run.lock"
ATTEMPTS = 100
"""Maximum number of times that a folder is made again which another run removes meanwhile."""


@contextmanager
def owned_folder(
    folder: Path, needed_mb: int = NEEDED_MB, drafts: Collection[str] = (), links: bool = True
) -> Iterator[Path]:
    """Inside the `with`, the folder exists and is locked against a second run, of this process or another.

    A killed process leaves no lock behind: the operating system holds it, not the file's existence. A new folder that
    is empty in the end, or holds nothing but `drafts`, is removed again. Without `links` it may be no symbolic link.

    Raises:
        RunRefused: it cannot be made or written, another run works in it, or `needed_mb` megabytes are not free.
        BadData: its name is impossible, or something else has it.
    """
    with write_errors(f"to the run folder '{folder}'", "Make it writable, or give another --out."):
        lock, is_new = _lock_folder(folder, links)
    try:
        _check_room(folder, needed_mb)
        yield folder
    finally:
        # Before the lock is released: afterwards it may be another run's folder.
        if is_new and _holds_only(folder, drafts):  # a name or a setting was wrong
            _remove(folder)
        lock.release()


def _lock_folder(folder: Path, links: bool) -> tuple[FileLock, bool]:
    """Return the acquired lock of the folder, and whether the folder is new."""
    for attempt in range(ATTEMPTS):
        is_new = not folder.exists()
        private_folder(folder, links=links)
        try:
            return _acquire(folder / LOCK, f"working in '{folder}' (it holds {LOCK})"), is_new
        except FileNotFoundError:  # its owner had no use for it, and has removed it since
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _check_room(folder: Path, needed_mb: int) -> None:
    with write_errors(f"to the run folder '{folder}'", "Make it writable, or give another --out."):
        with open_file(folder / ".writable", "wb") as trial:
            trial.write(b"x")
        (folder / ".writable").unlink()
        free = shutil.disk_usage(folder).free // 2**20
    if free < needed_mb:
        raise RunRefused(
            f"'{folder}' has {free} MB of free space, a run needs {needed_mb} MB: free some, or give another --out."
        )


def _holds_only(folder: Path, drafts: Collection[str]) -> bool:
    with suppress(OSError):  # of a folder that was deleted meanwhile
        return {path.name for path in folder.iterdir()} <= {LOCK, *drafts}
    return False


def _remove(folder: Path) -> None:
    """Remove the folder, the lock file last: without it another run may take the folder, which then stays."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
        (folder / LOCK).unlink()
        folder.rmdir()


@contextmanager
def locked(path: Path, act: str) -> Iterator[None]:
    """Hold the lock file; `act` says in an error what another process is doing.

    Raises:
        RunRefused: another process holds it, or it cannot be made.
        BadData: it is no regular file.
    """
    with write_errors(f"'{path}'", "Make it writable, or give another --out."):
        lock = _acquire(path, act)
    try:
        yield
    finally:
        lock.release()


def _acquire(path: Path, act: str) -> FileLock:
    """Return the acquired lock.

    Raises:
        RunRefused: another process holds it.
        BadData: it is no regular file.
        OSError: it cannot be made.
    """
    open_file(path, "ab").close()  # refuses a link, through which the lock would empty another file
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise RunRefused(f"another process is {act}: wait for it, or give another --out.") from error
    return lock
