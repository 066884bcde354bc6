"""Files of run folders and caches: only regular files, private to the user, opened without
blocking.

A run folder may come from a stranger, so a name in it may be a symbolic link to a file of the user,
a FIFO or a device.
"""

import codecs
import errno
import os
import re
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock

from emend.memory.errors import BadData, BadSettings, reason_of

# Maximum size in bytes of a file or pipe that the user names, and of a sparse file.
LARGEST_INPUT = 1 << 30
# Bytes of a pipe or device that are read at once.
_PIECE = 1 << 20
# Bytes that are read without a line end before a file of lines is refused; parsing takes a multiple
# of a line's length as memory, and lines of runs have at most a few megabytes.
LONGEST_LINE = 32 << 20
# Bytes of a file per byte on disk above which it is sparse; file systems that compress save less.
_SPARSE = 1_000
FILE_MODE, FOLDER_MODE = 0o600, 0o700
_BLOCK = 2**16
_RETRY_SECONDS = 0.005
# Lock file of a folder, held while an SQLite file in it is emptied.
EMPTYING = "emptying.lock"
_creation = threading.Lock()
# Names of the drafts of `replacement`.
_DRAFT = re.compile(r".\.[0-9a-f]{8}\.new$")
# The system's number in an error of safetensors.
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
_FLAGS = {
    "rb": os.O_RDONLY,
    "r+b": os.O_RDWR,
    "wb": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "ab": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "xb": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}
# Windows lacks these flags, and creates neither FIFOs nor links without special rights.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_file(
    path: Path, mode: str = "rb", *, links: bool = False, buffering: int = -1
) -> BinaryIO:
    """Open a regular file; a new one can be read and written only by its user.

    Args:
        path: the file.
        mode: `rb`, `r+b`, `wb`, `ab` or `xb`.
        links: follow a symbolic link, as for files that the user names; otherwise refuse it.
        buffering: as for `open`.

    Raises:
        BadData: it is a symbolic link, a FIFO, a device, a folder or a large sparse file, or its
            name is invalid.
        OSError: it does not exist, or cannot be opened.
    """
    path = Path(path)
    # checked before opening, since opening a device may have side effects
    require_regular(path, links)
    try:
        # Truncate below, once the file is known to be regular.
        flags = (_FLAGS[mode] & ~os.O_TRUNC) | _NO_WAIT | (0 if links else _NO_LINK)
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), FILE_MODE)
    except (OSError, ValueError) as error:
        raise _named(path, error) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            require_regular(path, links)
            raise BadData(f"'{path}' is not a regular file: remove it.")
        if mode == "wb":
            os.ftruncate(descriptor, 0)
        else:
            _refuse_sparse(path, status)
        return os.fdopen(descriptor, mode, buffering)  # type: ignore[return-value]
    except BaseException:
        # an interrupt may arrive after the file object exists and has closed the descriptor
        with suppress(OSError):
            os.close(descriptor)
        raise


def open_lines(path: Path, *, links: bool = False) -> BinaryIO:
    """Open a file of lines for reading, like `open_file`, unless a line would use up the memory.

    Only the first line end after each multiple of `LONGEST_LINE` is looked for, so a line of twice
    that length is always found, and one of less than that length is always accepted.

    Raises:
        BadData: as for `open_file`, or a line is too long.
        OSError: it does not exist, or cannot be opened.
    """
    file = open_file(path, links=links)
    try:
        for start in range(0, os.fstat(file.fileno()).st_size, LONGEST_LINE):
            file.seek(start)
            if len(line := file.readline(LONGEST_LINE)) == LONGEST_LINE and line[-1:] != b"\n":
                raise BadData(
                    f"'{path}' has a line of more than {LONGEST_LINE >> 20} MiB, around byte "
                    f"{start:,}, as no run writes: remove this line, or restore the file."
                )
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def read_file(path: Path, *, links: bool = False, is_small: bool = False) -> bytes:
    """Return the content of a regular file that is parsed as a whole.

    Args:
        path: the file.
        links: see `open_file`.
        is_small: whether it is one object such as a manifest, which is no longer than a line.

    Raises:
        BadData: as for `open_file`, or it is longer than `LARGEST_INPUT`, or `LONGEST_LINE` if it
            is small.
        OSError: it does not exist, or cannot be read.
    """
    largest = LONGEST_LINE if is_small else LARGEST_INPUT
    with open_file(path, links=links) as file:
        return _bounded_content(file, path, largest)


def _bounded_content(file: BinaryIO, path: Path, largest: int) -> bytes:
    """Return the rest of a file, pipe or device.

    Raises:
        BadData: it is longer than `largest` bytes.
    """
    # a read allocates the memory of its limit, however short the file is
    pieces = [file.read(min(os.fstat(file.fileno()).st_size, largest) + 1)]
    length = len(pieces[0])
    while length <= largest and (piece := file.read(_PIECE)):
        pieces.append(piece)
        length += len(piece)
    if length > largest:
        raise BadData(
            f"'{path}' has more than {largest:,} bytes: name a smaller file, or restore this one."
        )
    return b"".join(pieces)


def _refuse_sparse(path: Path, status: os.stat_result) -> None:
    """Raise `BadData` for a large file that is almost only holes: it came as a few bytes, and its
    single line would use up the memory.
    """
    on_disk = getattr(status, "st_blocks", status.st_size) * 512
    if status.st_size > max(LARGEST_INPUT, _SPARSE * on_disk):
        raise BadData(
            f"'{path}' has {status.st_size:,} bytes, of which only {on_disk:,} are on the disk: "
            "remove it, or restore it from its source."
        )


def read_input(path: Path) -> bytes:
    """Return the content of a file or pipe that the user names; a pipe without a writer is empty.

    Raises:
        BadData: it is longer than `LARGEST_INPUT`, as a device such as /dev/zero is.
        OSError: it does not exist, or cannot be read.
    """
    # otherwise opening a FIFO without a writer would block
    descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
    with os.fdopen(descriptor, "rb") as file:
        if hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        return without_mark(_bounded_content(file, path, LARGEST_INPUT))


def without_mark(content: bytes) -> bytes:
    """Return UTF-8 text without the byte-order mark that Excel and Windows editors write."""
    return content.removeprefix(codecs.BOM_UTF8)


def line_ends(file: BinaryIO) -> Iterator[int]:
    """Yield the offset after each line end, from the last to the first; the file position may
    change in between.
    """
    position = file.seek(0, os.SEEK_END)
    while position:
        end, position = position, max(0, position - _BLOCK)
        file.seek(position)
        block = file.read(end - position)
        while (end := block.rfind(b"\n", 0, end)) >= 0:
            yield position + end + 1


def file_identity(path: Path) -> tuple[int, int, int]:
    """Return inode, size and change time of a file, which change with its content; zeros for a
    missing file.
    """
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def private_folder(path: Path, *, links: bool = False) -> Path:
    """Create a folder and its parents, accessible only to the user; an existing folder is not
    changed.

    Args:
        path: the folder.
        links: accept a symbolic link to a folder, as for folders that the user names; otherwise
            refuse it.

    Raises:
        BadData: something else has that name, or the name is invalid.
        OSError: it cannot be made.
    """
    path = Path(path)
    try:
        if not links and path.is_symlink():
            raise BadData(
                f"'{path}' is a symbolic link, but a folder is expected: remove the link."
            )
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except FileExistsError as error:
        # it was a folder, which another process has removed since
        if not os.path.lexists(error.filename):
            return private_folder(path, links=links)
        raise BadData(f"'{path}' is not a folder: remove it, or name another.") from error
    except (OSError, ValueError) as error:
        raise _named(path, error) from error
    return path


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """Yield the path of a draft, to be written inside the `with`; at its end the draft replaces the
    file at once, after an error it is deleted.

    Neither a reader, a crash nor another writer finds the file half written: each writer has a
    draft of its own, also among threads, and among machines that share a folder.

    Raises:
        OSError: the file cannot be replaced.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        yield draft
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Write a private file atomically, see `replacement`; replaces a link of that name.

    Raises:
        BadData: its name is invalid.
        OSError: it cannot be written.
    """
    with replacement(path) as draft, open_file(draft, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_export(
    path: Path, content: str | bytes, remedy: str = "Name another file.", parents: bool = False
) -> None:
    """Write a file that the user names atomically, see `replacement`.

    A link stays a link, and an existing file keeps its permissions; a pipe or device is written
    directly.

    Args:
        path: the file.
        content: its bytes, or its text, which becomes UTF-8.
        remedy: last sentence of the error.
        parents: create missing folders.

    Raises:
        BadSettings: it cannot be written.
    """
    try:
        data = content if isinstance(content, bytes) else content.encode()
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        with replacement(target) as draft:
            draft.write_bytes(data)
            with suppress(FileNotFoundError):
                draft.chmod(stat.S_IMODE(target.stat().st_mode))
    except (OSError, ValueError) as error:
        raise BadSettings(f"cannot write '{path}': {reason_of(error)}. {remedy}") from error


@contextmanager
def tensor_write(path: Path) -> Iterator[None]:
    """Raise the error of the system, not that of safetensors, for a file that cannot be written.

    Args:
        path: the file, or the folder of the files.

    Raises:
        OSError: a file cannot be written, such as on a full disk.
    """
    try:
        yield
    except Exception as error:
        code = _SYSTEM_ERROR.search(str(error))
        if type(error).__name__ != "SafetensorError" or code is None:
            raise
        number = int(code[1])
        raise OSError(number, os.strerror(number), str(path)) from error


def remove_drafts(folder: Path) -> None:
    """Delete the drafts that killed processes left in a folder, which no other process uses."""
    for path in folder.iterdir():
        if _DRAFT.search(path.name):
            path.unlink()


def file_lock(path: Path, seconds: float = 0) -> FileLock:
    """Return the lock of a lock file, which is created if it is missing; `with` acquires it.

    Args:
        path: the lock file.
        seconds: time to wait for another process.

    Raises:
        BadData: it is not a regular file; locking would truncate the file that a link points to.
        OSError: it cannot be created.
    """
    open_file(path, "ab").close()
    return FileLock(path, timeout=seconds)


def connect_database(path: Path, **options: Any) -> sqlite3.Connection:
    """Connect to an SQLite file; a new file and its folder are private to the user.

    Args:
        path: the file.
        options: as for `sqlite3.connect`.

    Raises:
        BadData: it is not a regular file.
        OSError: it cannot be made.
        sqlite3.Error: it cannot be opened.
    """
    private_folder(path.parent, links=True)
    require_regular(path, links=False)
    # Create the file with its mode first; SQLite gives its other files the same mode. Never open an
    # existing file here: closing any descriptor of it would release the locks of other threads'
    # connections (POSIX).
    with _creation, suppress(FileExistsError):
        open_file(path, "xb").close()
    database: sqlite3.Connection = sqlite3.connect(path, **options)
    return database


def use_write_ahead_log(database: sqlite3.Connection, seconds: float) -> None:
    """Switch a database to a write-ahead log, which stays its mode.

    SQLite's own timeout does not cover the switch: two processes that open a new file at once each
    hold a lock that the other one needs, and one is told at once that the database is locked.

    Args:
        database: an open connection without a transaction.
        seconds: time to wait for other processes.

    Raises:
        sqlite3.Error: another process holds the file for longer, or the switch fails.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() >= end:
                raise
        time.sleep(_RETRY_SECONDS)


def empty_database(path: Path, seconds: float, *, only_damaged: bool = False) -> None:
    """Empty an SQLite file, which other connections may have open and then find without tables.

    The file is not deleted: a process that has the deleted file open would take the journal of the
    next file of that name for its own, apply it and remove it.

    Args:
        path: the file.
        seconds: time to wait for other processes.
        only_damaged: leave a sound file as it is; another process may have emptied it since.

    Raises:
        BadData: the file, or the lock file of its folder, is not a regular file.
        OSError: another process empties a file for longer, or the file cannot be written.
        sqlite3.OperationalError: another process uses the file for longer.
    """
    with (
        file_lock(path.with_name(EMPTYING), seconds),
        closing(connect_database(path, timeout=seconds, isolation_level=None)) as database,
    ):
        try:
            database.execute("BEGIN EXCLUSIVE")
            if only_damaged and database.execute("PRAGMA quick_check").fetchone() == ("ok",):
                return
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            pass  # damaged, so that no process can use it
        os.truncate(path, 0)


def require_regular(path: Path, links: bool = False) -> None:
    """Raise an error if a path exists and is not a regular file.

    Args:
        path: the file, which may be missing.
        links: follow a symbolic link; otherwise refuse it.

    Raises:
        BadData: it is a link, a FIFO, a device or a folder.
    """
    try:
        mode = os.stat(path, follow_symlinks=links).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _named(path, error) from error
    kind = next((kind for holds, kind in _KINDS if holds(mode)), None)
    if kind:
        raise BadData(
            f"'{path}' is {kind}, but a regular file is expected: remove it, or put a file there."
        )


def _named(path: Path, error: Exception) -> Exception:
    """Return `BadData` for an invalid file name, or any other error unchanged."""
    code = getattr(error, "errno", None)
    if code == errno.ELOOP:
        return BadData(f"'{path}' is a symbolic link, or a loop of them: remove it.")
    if code == errno.ENAMETOOLONG or isinstance(error, ValueError):
        return BadData(
            f"{str(path)[:80]!r}... is not a valid file name ({error.args[-1]}): give a shorter, "
            "plain one."
        )
    return error
