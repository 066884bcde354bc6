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


@contextmanager
def owned_folder(
    folder: Path, needed_mb: int = NEEDED_MB, drafts: Collection[str] = (), links: bool = True
) -> Iterator[Path]:
    """Inside the `with`, the folder exists and is locked against a second process.

    A killed process leaves no lock behind: the operating system holds it, not the file's existence. A new folder that
    is empty in the end, or holds nothing but `drafts`, is removed again. Without `links` it may be no symbolic link.

    Raises:
        RunRefused: it cannot be made or written, another process works in it, or `needed_mb` megabytes are not free.
        BadData: its name is impossible, or something else has it.
    """
    with write_errors(f"to the run folder '{folder}'", "Make it writable, or give another --out."):
        new = not folder.exists()
        private_folder(folder, links=links)
        with open_file(folder / ".writable", "wb") as trial:
            trial.write(b"x")
        (folder / ".writable").unlink()
        free = shutil.disk_usage(folder).free // 2**20
    if free < needed_mb:
        raise RunRefused(
            f"'{folder}' has {free} MB of free space, a run needs {needed_mb} MB: free some, or give another --out."
        )
    try:
        with locked(folder / LOCK, f"working in '{folder}' (it holds {LOCK})"):
            yield folder
    finally:
        with suppress(OSError):  # of a folder that was deleted meanwhile
            if new and {path.name for path in folder.iterdir()} <= {LOCK, *drafts}:  # a name or a setting was wrong
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(path: Path, act: str) -> Iterator[None]:
    """Hold the lock file; `act` says in an error what another process is doing.

    Raises:
        RunRefused: another process holds it, or it cannot be made.
        BadData: it is no regular file.
    """
    with write_errors(f"'{path}'", "Make it writable, or give another --out."):
        open_file(path, "ab").close()  # refuses a link, through which the lock would empty another file
        lock = FileLock(path, timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise RunRefused(f"another process is {act}: wait for it, or give another --out.") from error
    try:
        yield
    finally:
        lock.release()
