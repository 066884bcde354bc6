"""The files of a run: written a whole unit at a time, read a line at a time, repaired after a crash."""

import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from emend.evals.case import Record
from emend.memory.errors import BadData, RunRefused
from emend.memory.redaction import hide_in_bytes

RECORDS, EVENTS, ERRORS, CASES = "records.jsonl", "events.jsonl", "errors.jsonl", "cases.jsonl"
BASELINE, COSTS = "baseline.jsonl", "costs.jsonl"
PERPLEXITY, PERPLEXITY_BEFORE = "perplexity", "perplexity before"
"""Values of `act` in the lines of `costs.jsonl` on held-out texts: under edits, and before any."""


class AppendLog:
    """Appends whole lines to files of one folder, to all of them or to none; safe to call from many threads.

    Args:
        folder: where the files are.
        names: of the files.
        remedy: end of the error message of a full disk.
    """

    def __init__(self, folder: Path, names: Iterable[str], remedy: str) -> None:
        self.folder, self._remedy = folder, remedy
        self._lock = threading.RLock()
        self._files = {name: (folder / name).open("ab", buffering=0) for name in names}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files.values():
            with suppress(OSError):  # the error that a full disk gave is under way already
                file.close()

    def append(self, contents: Mapping[str, bytes]) -> None:
        """Append to each file, in order, without API keys.

        Raises:
            RunRefused: the disk is full or failing; nothing that was cut off is left in the files.
        """
        with self._lock:
            sizes = {name: os.fstat(self._files[name].fileno()).st_size for name in contents}
            name = ""
            try:
                for name, content in contents.items():
                    view = memoryview(hide_in_bytes(content))
                    while view:  # unbuffered, so that a failed write leaves nothing behind to be written later
                        view = view[self._files[name].write(view) :]
            except BaseException as error:
                for grown, size in sizes.items():
                    os.ftruncate(self._files[grown].fileno(), size)
                if not isinstance(error, OSError):
                    raise
                raise self._refusal(f"{len(contents[name])} bytes to '{self.folder / name}'", error) from error

    def _refusal(self, what: str, error: OSError) -> RunRefused:
        return RunRefused(f"cannot write {what}: {error.strerror}. {self._remedy}")


class RunLog(AppendLog):
    """Appends units to a run folder.

    A unit's events are written before its records, in the same order, so that a finished unit always has both.
    """

    def __init__(self, folder: Path) -> None:
        names = (RECORDS, EVENTS, ERRORS, BASELINE, COSTS)
        super().__init__(folder, names, f"All finished units are kept; make room, then: emend resume {folder}")
        self._baseline = (folder / BASELINE).open("rb")
        self._sync_lock = threading.Lock()
        self._written = self._synced = 0
        """Units that are in the files, and those of them that are surely on the disk."""

    def __exit__(self, *error: object) -> None:
        self._baseline.close()
        super().__exit__(*error)

    def unit(self, records: Iterable[Record], events: Iterable[dict[str, Any]]) -> None:
        """Append all lines of a finished unit.

        Raises:
            RunRefused: the disk is full or failing; nothing that was cut off is left in the files.
        """
        record_lines = b"".join(record.model_dump_json().encode() + b"\n" for record in records)
        event_lines = b"".join(map(json_line, events))
        with self._lock:
            self.append({EVENTS: event_lines, RECORDS: record_lines})
            self._written += 1
            number = self._written
        self._sync(number)

    def line(self, name: str, fields: dict[str, Any]) -> None:
        """Append a line to `errors.jsonl`, `costs.jsonl` or, for an event of the run itself, `events.jsonl`."""
        self.append({name: json_line(fields)})

    def baseline(self, line: str) -> int:
        """Append an answer of the unedited model; return its offset."""
        with self._lock:
            offset = os.fstat(self._files[BASELINE].fileno()).st_size
            self.append({BASELINE: line.encode() + b"\n"})
        return offset

    def baseline_at(self, offset: int) -> bytes:
        """Read the answer at that offset, as JSON."""
        with self._lock:
            self._baseline.seek(offset)
            return self._baseline.readline()

    def baseline_offsets(self) -> Iterator[tuple[str, int]]:
        """Yield key and offset of every answer; a damaged line is left out, so that it is asked again."""
        for _, offset, line in _lines(self.folder / BASELINE):
            content = _parse(line)
            if content is not None and "key" in content:
                yield str(content["key"]), offset

    def _sync(self, number: int) -> None:
        """Wait until the unit of that number is on the disk; units that come meanwhile share the next wait."""
        with self._sync_lock:
            if self._synced >= number:
                return
            written = self._written
            try:
                os.fsync(self._files[RECORDS].fileno())
            except OSError as error:
                raise self._refusal(f"'{self.folder / RECORDS}' to the disk", error) from error
            self._synced = written


def json_line(fields: dict[str, Any]) -> bytes:
    """Format one line of a file of JSON lines; what JSON cannot hold is written as text."""
    return json.dumps(fields, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace") + b"\n"


def repair_torn_tail(folder: Path) -> tuple[set[str], list[dict[str, Any]]]:
    """Cut off what a killed process left half written.

    Returns:
        The keys of finished units, and one event per file that was cut.

    Raises:
        BadData: a line that is not at the end is damaged; names file and line.
    """
    finished, end = _finished(folder / RECORDS)
    ends = [(folder / RECORDS, end), (folder / EVENTS, _events_end(folder / EVENTS, finished))]
    ends += [(folder / name, _whole_lines(folder / name)) for name in (ERRORS, BASELINE, COSTS)]
    repairs = []
    for path, keep in ends:
        size = path.stat().st_size if path.exists() else 0
        if size > keep:
            os.truncate(path, keep)
            repairs.append({"event": "torn end cut off", "file": path.name, "bytes": size - keep})
    return finished, repairs


def _finished(path: Path) -> tuple[set[str], int]:
    """Keys of the units whose lines are all there, and the offset where the last of them ends."""
    finished: set[str] = set()
    end = start = count = 0
    unit = ""
    for number, offset, line in _lines(path):
        key, of = _head(line)
        if key != unit:
            unit, count, start = key, 0, offset
        count += 1
        if key and count == of:
            if start != end:
                raise BadData(
                    f"{path}: the lines before line {number - of + 1} are damaged, though finished units follow. "
                    "Restore the file, or start a new run in another folder."
                )
            finished.add(key)
            unit, end = "", offset + len(line)
    return finished, end


def _head(line: bytes) -> tuple[str, int]:
    """Unit key of a record line and how many records the unit has; an empty key for a line that is no record."""
    content = _parse(line)
    return (str(content.get("unit", "")), int(content.get("of", 0))) if content else ("", 0)


def _parse(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        content = json.loads(line)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _events_end(path: Path, finished: set[str]) -> int:
    """Offset where the last line ends that belongs to a finished unit or to the run itself."""
    end = 0
    for _, offset, line in _lines(path):
        content = _parse(line)
        if content is not None and ("unit" not in content or content["unit"] in finished):
            end = offset + len(line)
    return end


def _whole_lines(path: Path) -> int:
    return max((offset + len(line) for _, offset, line in _lines(path) if line.endswith(b"\n")), default=0)


def _lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Number from 1, offset and content of each line; nothing when there is no file."""
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield number, offset, line
            offset += len(line)


def read_records(folder: Path) -> Iterator[Record]:
    """Yield the records of all units that are complete, in the order in which they were written.

    Raises:
        BadData: a line that is not at the torn end cannot be read; names file, line and field.
    """
    path = folder / RECORDS
    unit: list[Record] = []
    finished: set[str] = set()
    for number, _, line in _lines(path):
        if not line.endswith(b"\n"):
            return
        record = _read_record(path, number, line)
        if unit and unit[0].unit != record.unit:
            unit = []
        unit.append(record)
        if len(unit) < record.of:
            continue
        if record.unit in finished:
            _warn(f"{path}, line {number}: the records of unit {record.unit} are there twice; the first ones count")
        else:
            yield from unit
        finished.add(record.unit)
        unit = []


def _read_record(path: Path, number: int, line: bytes) -> Record:
    try:
        return Record.parse(line.decode("utf-8", "replace"))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the whole line"
        raise BadData(
            f"{path}, line {number}, field {field}: {first['msg']}. Restore the file; `emend resume {path.parent}` "
            "drops it if it is the last one. Or start a new run in another folder."
        ) from error


def read_lines(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file such as `events.jsonl`, `errors.jsonl` or `costs.jsonl`.

    A torn last line is left out, and so is, with a warning, another one that cannot be read.
    """
    for number, _, line in _lines(folder / name):
        content = _parse(line)
        if content is not None:
            yield content
        elif line.endswith(b"\n"):
            _warn(f"{folder / name}, line {number} cannot be read and is left out: what is shown lacks it")


@cache
def _warn(message: str) -> None:
    """Warn once, however often a file is read."""
    logging.getLogger(__name__).warning(message)
