"""Run folders: locking, checks before the first model call, and repair after a crash."""

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, pairwise, takewhile
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
from emend.memory.files import (
    file_lock,
    line_ends,
    open_file,
    open_lines,
    private_folder,
    remove_drafts,
)
from emend.memory.json_files import BEGINNING, JsonLine, LinePlace, parse_lines

NEEDED_MB = 50
LOCK = "run.lock"


@contextmanager
def owned_folder(folder: Path, drafts: Collection[str] = (), links: bool = True) -> Iterator[Path]:
    """Create and lock a run folder, so that no second run, in this process or another, can use it.

    A killed process leaves no lock behind, since the lock is held by the operating system and not
    by the file's existence. A new folder that is empty at the end, or contains only `drafts`, is
    removed with its new parents; a rejected folder is not changed. Without `links` it must not be a
    symbolic link.

    Raises:
        RunRefused: the folder cannot be created or written, another run uses it, or there is too
            little disk space.
        BadData: its name is invalid or belongs to something else.
    """
    had_lock = os.path.lexists(folder / LOCK)
    new_parents = list(takewhile(lambda path: not os.path.lexists(path), folder.parents))
    with write_errors(f"to the run folder '{folder}'", "Make it writable, or give another --out."):
        lock, is_new = _lock_folder(folder, links)
    try:
        _check_writable(folder)
        yield folder
    except RunRefused:
        if not (is_new or had_lock):  # a folder with other content is not changed
            (folder / LOCK).unlink(missing_ok=True)
        raise
    finally:
        # Before the lock is released, since afterwards another run may use the folder.
        if is_new and _holds_only(folder, drafts):  # the run ended with a wrong name or setting
            _remove(folder)
            _remove_empty(new_parents)
        lock.release()


def _lock_folder(folder: Path, links: bool) -> tuple[FileLock, bool]:
    """Return the acquired lock of the folder, and whether the folder is new."""
    is_new = not folder.exists()
    with suppress(FileNotFoundError):  # another owner may remove its new parents at this moment
        private_folder(folder, links=links)
    private_folder(folder, links=links)
    act = f"working in '{folder}' (it holds {LOCK})"
    try:
        return _acquire(folder / LOCK, act), is_new
    except (FileNotFoundError, FileExistsError) as error:
        # its owner removes the unused folder at this moment
        raise _refusal(act) from error


def _check_writable(folder: Path) -> None:
    """Check that a run can write to its folder, and delete drafts of killed processes."""
    with write_errors(f"to the run folder '{folder}'", "Make it writable, or give another --out."):
        with open_file(folder / ".writable", "wb") as trial:
            trial.write(b"x")
        (folder / ".writable").unlink()
        remove_drafts(folder)
        free = shutil.disk_usage(folder).free // 2**20
    if free < NEEDED_MB:
        raise RunRefused(
            f"'{folder}' has {free} MB of free space, but a run needs {NEEDED_MB} MB: free some, "
            "or give another --out."
        )


def _holds_only(folder: Path, drafts: Collection[str]) -> bool:
    with suppress(OSError):  # the folder was deleted in the meantime
        return {path.name for path in folder.iterdir()} <= {LOCK, *drafts}
    return False


def _remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders, innermost first, up to the first that is not empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _remove(folder: Path) -> None:
    """Remove the folder, deleting the lock file last; if another run then takes the folder, the
    folder stays.
    """
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
        (folder / LOCK).unlink()
        folder.rmdir()


@contextmanager
def locked(path: Path, act: str, seconds: float = 0) -> Iterator[None]:
    """Hold the lock file.

    Args:
        path: the lock file.
        act: in errors, what another process is doing.
        seconds: time to wait for it.

    Raises:
        RunRefused: another process holds the lock for longer, or it cannot be created.
        BadData: the lock is not a regular file.
    """
    with write_errors(f"'{path}'", "Make it writable, or give another --out."):
        lock = _acquire(path, act, seconds)
    try:
        yield
    finally:
        lock.release()


def _acquire(path: Path, act: str, seconds: float = 0) -> FileLock:
    """Return the acquired lock.

    Raises:
        RunRefused: another process holds it for longer than `seconds`.
        BadData: the lock is not a regular file.
        OSError: it cannot be made.
    """
    lock = file_lock(path, seconds)
    try:
        lock.acquire()
    except Timeout as error:
        raise _refusal(act) from error
    return lock


def _refusal(act: str) -> RunRefused:
    return RunRefused(f"another process is {act}: wait for it, or give another --out.")


def repair_torn_tail(
    folder: Path, whole: tuple[set[str], int] | None = None
) -> tuple[set[str], list[dict[str, Any]]]:
    """Truncate what a killed process left half written.

    Args:
        folder: the run folder.
        whole: the result of `finished_units` for the folder, if it was called.

    Returns:
        The keys of finished units, and one event per truncated file.

    Raises:
        BadData: a line before the end is damaged; names file and line.
    """
    finished, end = whole or finished_units(folder)
    ends = {
        RECORDS: end,
        EVENTS: _events_end(folder / EVENTS, finished),
        ERRORS: None,
        BASELINE: None,
        COSTS: None,
    }
    cut = {name: cut_file(folder / name, end) for name, end in ends.items()}
    repairs = [
        {"event": "incomplete end removed", "file": name, "bytes": size}
        for name, size in cut.items()
        if size
    ]
    return finished, repairs


def finished_units(folder: Path) -> tuple[set[str], int]:
    """Return the keys of the complete units, and the offset where the last of them ends.

    Raises:
        BadData: a line before the end is damaged; names file and line.
    """
    path = folder / RECORDS
    finished, place = _kept_units(folder)
    end = place.offset
    for unit in complete_units(_neighbours(path, place), lambda line: fields_head(line.fields)):
        if unit[0].offset != end:
            raise BadData(
                f"{path}: the lines before line {unit[0].number} are damaged, though finished "
                "units follow. Restore the file, or start a new run in another folder."
            )
        finished.add(unit[0].fields["unit"])
        end = unit[-1].end
    return finished, end


def _kept_units(folder: Path) -> tuple[set[str], LinePlace]:
    """Return the units in the saved table of a large run, and the position up to which the table
    has all lines.
    """
    if not find_parts(parts_folder(folder), RECORD_SOURCE.table, folder / RECORDS):
        return set(), BEGINNING
    # imported here, since only very large runs need DuckDB
    from emend.evals.log.run_table import RunTable

    with RunTable(folder, is_continued=False) as table:
        units = {unit for (unit,) in table.rows("SELECT DISTINCT unit FROM record_lines")}
        return units, table.ends[RECORD_SOURCE.table]


def _neighbours(path: Path, start: LinePlace) -> Iterator[JsonLine | None]:
    """Yield the lines of a records file from a position on, and None for an unreadable line."""
    end = start.offset
    for line in parse_lines(path, _ignore, parse=parse_head, start=start):
        if line.offset != end:
            yield None
        yield line
        end = line.end


def _ignore(error: BadData) -> None:
    """Ignore the error: unreadable lines are truncated, or reported with the lines after them."""


def _events_end(path: Path, finished: set[str]) -> int:
    """Return the end offset of the last line that belongs to a finished unit or to the run
    itself.

    Raises:
        BadData: it is not a regular file, or a line is too long.
    """
    parse = parser_of(SCHEMAS[EVENTS])
    with suppress(FileNotFoundError), open_lines(path) as file:
        for end, start in pairwise(chain(line_ends(file), (0,))):
            file.seek(start)
            with suppress(BadData):  # unreadable lines are truncated
                event = parse(file.read(end - start), str(path))
                if "unit" not in event or event["unit"] in finished:
                    return end
    return 0
