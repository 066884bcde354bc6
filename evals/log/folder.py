"""A run's folder: locked, writable and with room before the first model call, and repaired after a crash."""

import errno
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from emend.evals.log.lines import (
    BASELINE,
    COSTS,
    ERRORS,
    EVENTS,
    RECORDS,
    SCHEMAS,
    complete_units,
    fields_head,
    parser_of,
)
from emend.evals.log.records import cut_file, parse_head, write_errors
from emend.evals.log.table_parts import find_parts, parts_folder
from emend.evals.log.table_sources import RECORD_SOURCE
from emend.memory.errors import BadData, RunRefused
from emend.memory.files import line_ends, open_file, private_folder
from emend.memory.json_files import BEGINNING, JsonLine, LinePlace, parse_lines

NEEDED_MB = 50
LOCK = "run.lock"
ATTEMPTS = 100
"""Maximum number of times that a folder is made again which another run removes meanwhile."""


@contextmanager
def owned_folder(folder: Path, drafts: Collection[str] = (), links: bool = True) -> Iterator[Path]:
    """Inside the `with`, the folder exists and is locked against a second run, of this process or another.

    A killed process leaves no lock behind: the operating system holds it, not the file's existence. A new folder that
    is empty in the end, or holds nothing but `drafts`, is removed again. Without `links` it may be no symbolic link.

    Raises:
        RunRefused: it cannot be made or written, another run works in it, or there is too little room.
        BadData: its name is impossible, or something else has it.
    """
    with write_errors(f"to the run folder '{folder}'", "Make it writable, or give another --out."):
        lock, is_new = _lock_folder(folder, links)
    try:
        _check_room(folder)
        yield folder
    finally:
        # Before the lock is released: afterwards it may be another run's folder.
        if is_new and _holds_only(folder, drafts):  # a name or a setting was wrong
            _remove(folder)
        lock.release()


def _lock_folder(folder: Path, links: bool) -> tuple[FileLock, bool]:
    """Return the acquired lock of the folder, and whether the folder is new."""
    for _ in range(ATTEMPTS):
        is_new = not folder.exists()
        private_folder(folder, links=links)
        with suppress(FileNotFoundError, FileExistsError):  # its owner had no use for it, and has removed it since
            return _acquire(folder / LOCK, f"working in '{folder}' (it holds {LOCK})"), is_new
    raise FileNotFoundError(errno.ENOENT, "it is removed again and again")


def _check_room(folder: Path) -> None:
    with write_errors(f"to the run folder '{folder}'", "Make it writable, or give another --out."):
        with open_file(folder / ".writable", "wb") as trial:
            trial.write(b"x")
        (folder / ".writable").unlink()
        free = shutil.disk_usage(folder).free // 2**20
    if free < NEEDED_MB:
        raise RunRefused(
            f"'{folder}' has {free} MB of free space, a run needs {NEEDED_MB} MB: free some, or give another --out."
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


def repair_torn_tail(folder: Path, whole: tuple[set[str], int] | None = None) -> tuple[set[str], list[dict[str, Any]]]:
    """Cut off what a killed process left half written.

    Args:
        folder: the run folder.
        whole: what `finished_units` returned for it, if it was called.

    Returns:
        The keys of finished units, and one event per file that was cut.

    Raises:
        BadData: a line that is not at the end is damaged; names file and line.
    """
    finished, end = whole or finished_units(folder)
    ends = {RECORDS: end, EVENTS: _events_end(folder / EVENTS, finished), ERRORS: None, BASELINE: None, COSTS: None}
    cut = {name: cut_file(folder / name, end) for name, end in ends.items()}
    repairs = [{"event": "torn end cut off", "file": name, "bytes": size} for name, size in cut.items() if size]
    return finished, repairs


def finished_units(folder: Path) -> tuple[set[str], int]:
    """Return the keys of the units whose lines are all there, and the offset where the last of them ends.

    Raises:
        BadData: a line that is not at the end is damaged; names file and line.
    """
    path = folder / RECORDS
    finished, place = _kept_units(folder)
    end = place.offset
    for unit in complete_units(_neighbours(path, place), lambda line: fields_head(line.fields)):
        if unit[0].offset != end:
            raise BadData(
                f"{path}: the lines before line {unit[0].number} are damaged, though finished units follow. "
                "Restore the file, or start a new run in another folder."
            )
        finished.add(unit[0].fields["unit"])
        end = unit[-1].end
    return finished, end


def _kept_units(folder: Path) -> tuple[set[str], LinePlace]:
    """The units of the table of a large run, as far as it is kept, and the place up to which every line is in it."""
    if not find_parts(parts_folder(folder), RECORD_SOURCE.table, folder / RECORDS):
        return set(), BEGINNING
    from emend.evals.log.run_table import RunTable  # lazily, since few runs are so large that DuckDB is needed

    with RunTable(folder, is_continued=False) as table:
        units = {unit for (unit,) in table.rows("SELECT DISTINCT unit FROM record_lines")}
        return units, table.ends[RECORD_SOURCE.table]


def _neighbours(path: Path, start: LinePlace) -> Iterator[JsonLine | None]:
    """Yield the lines of a file of records from a place on; None where a line between them cannot be read."""
    end = start.offset
    for line in parse_lines(path, _ignore, parse=parse_head, start=start):
        if line.offset != end:
            yield None
        yield line
        end = line.end


def _ignore(error: BadData) -> None:
    """Go on: what cannot be read is cut off, or named with the lines after it."""


def _events_end(path: Path, finished: set[str]) -> int:
    """Offset where the last line ends that belongs to a finished unit or to the run itself."""
    parse = parser_of(SCHEMAS[EVENTS])
    with suppress(FileNotFoundError), open_file(path) as file:
        for end, start in pairwise(chain(line_ends(file), (0,))):
            file.seek(start)
            with suppress(BadData):  # what cannot be read is cut off
                event = parse(file.read(end - start), str(path))
                if "unit" not in event or event["unit"] in finished:
                    return end
    return 0
