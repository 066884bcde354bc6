"""The files of a run: written a whole unit at a time, read a line at a time, mended after a crash."""

import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from emend.evals.case import Record
from emend.memory.errors import BadData, RunRefused
from emend.memory.redaction import hide_in_bytes

RECORDS, EVENTS, ERRORS, CASES = "records.jsonl", "events.jsonl", "errors.jsonl", "cases.jsonl"
BASELINE, COSTS = "baseline.jsonl", "costs.jsonl"
PERPLEXITY, PERPLEXITY_BEFORE = "perplexity", "perplexity before"
"""What the lines of `costs.jsonl` on held-out texts are called: under edits, and before any."""


class RunFiles:
    """Appends units to a run folder; safe to call from many threads.

    A unit's events are written before its records, in the same order, so that a finished unit always has both.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        names = (RECORDS, EVENTS, ERRORS, BASELINE, COSTS)
        self._open = {name: (folder / name).open("ab", buffering=0) for name in names}
        self._answers = (folder / BASELINE).open("rb")
        self._turn = threading.Lock()
        self._written = self._settled = 0
        """Units that are in the files, and those of them that are surely on the disk."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._answers.close()
        for file in self._open.values():
            with suppress(OSError):  # a full disk has been told already
                file.close()

    def unit(self, records: Iterable[Record], events: Iterable[dict[str, Any]]) -> None:
        """Append all lines of a finished unit.

        Raises:
            RunRefused: the disk is full or failing; nothing that was cut off is left in the files.
        """
        lines = b"".join(record.model_dump_json().encode() + b"\n" for record in records)
        told = b"".join(map(_line, events))
        with self._lock:
            self._append({EVENTS: told, RECORDS: lines})
            self._written += 1
            number = self._written
        self._settle(number)

    def error(self, line: dict[str, Any]) -> None:
        """Append what became of a failed unit."""
        with self._lock:
            self._append({ERRORS: _line(line)})

    def event(self, line: dict[str, Any]) -> None:
        """Append something that befell the run itself."""
        with self._lock:
            self._append({EVENTS: _line(line)})

    def cost(self, line: dict[str, Any]) -> None:
        """Append what something cost."""
        with self._lock:
            self._append({COSTS: _line(line)})

    def baseline(self, line: str) -> int:
        """Append an answer of the unedited model; the place where it stands."""
        with self._lock:
            place = os.fstat(self._open[BASELINE].fileno()).st_size
            self._append({BASELINE: line.encode() + b"\n"})
        return place

    def baseline_at(self, place: int) -> bytes:
        """The answer that stands there, as JSON."""
        with self._lock:
            self._answers.seek(place)
            return self._answers.readline()

    def baseline_places(self) -> Iterator[tuple[str, int]]:
        """Key and place of every answer that is there; a damaged line is left out, so that it is asked again."""
        for _, place, line in _lines(self.folder / BASELINE):
            told = _parsed(line)
            if told is not None and "key" in told:
                yield str(told["key"]), place

    def _append(self, contents: dict[str, bytes]) -> None:
        contents = {name: hide_in_bytes(content) for name, content in contents.items()}
        before = {name: os.fstat(self._open[name].fileno()).st_size for name in contents}
        name = ""
        try:
            for name, content in contents.items():
                _write(self._open[name], content)
        except BaseException as error:
            for grown, size in before.items():
                os.ftruncate(self._open[grown].fileno(), size)
            if not isinstance(error, OSError):
                raise
            raise self._refused(f"{len(contents[name])} bytes to '{self.folder / name}'", error) from error

    def _settle(self, number: int) -> None:
        """Returns once the unit of that number is on the disk; units that come meanwhile share the next wait for it."""
        with self._turn:
            if self._settled >= number:
                return
            written = self._written
            try:
                os.fsync(self._open[RECORDS].fileno())
            except OSError as error:
                raise self._refused(f"'{self.folder / RECORDS}' to the disk", error) from error
            self._settled = written

    def _refused(self, what: str, error: OSError) -> RunRefused:
        return RunRefused(
            f"cannot write {what}: {error.strerror}. "
            f"All finished units are kept; make room, then: emend resume {self.folder}"
        )


def _write(file: FileIO, content: bytes) -> None:
    view = memoryview(content)
    while view:  # unbuffered, so that a failed write leaves nothing behind to be written later
        view = view[file.write(view) :]


def _line(told: dict[str, Any]) -> bytes:
    return json.dumps(told, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace") + b"\n"


def mend(folder: Path) -> tuple[set[str], list[dict[str, Any]]]:
    """The keys of finished units; what a killed process left half written is cut off the files.

    Returns:
        The keys, and one event per file that was cut.

    Raises:
        BadData: a line that is not at the end is damaged; names file and line.
    """
    finished, end = _finished(folder / RECORDS)
    cuts = [(folder / RECORDS, end), (folder / EVENTS, _events_end(folder / EVENTS, finished))]
    cuts += [(folder / name, _whole_lines(folder / name)) for name in (ERRORS, BASELINE, COSTS)]
    told = []
    for path, keep in cuts:
        size = path.stat().st_size if path.exists() else 0
        if size > keep:
            os.truncate(path, keep)
            told.append({"event": "torn end cut off", "file": path.name, "bytes": size - keep})
    return finished, told


def _finished(path: Path) -> tuple[set[str], int]:
    """Keys of the units whose lines are all there, and the offset where the last of them ends."""
    finished: set[str] = set()
    end = start = held = 0
    unit = ""
    for number, offset, line in _lines(path):
        key, of = _head(line)
        if key != unit:
            unit, held, start = key, 0, offset
        held += 1
        if key and held == of:
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
    told = _parsed(line)
    return (str(told.get("unit", "")), int(told.get("of", 0))) if told else ("", 0)


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _events_end(path: Path, finished: set[str]) -> int:
    """Where the last line ends that belongs to a finished unit or to the run itself."""
    end = 0
    for _, offset, line in _lines(path):
        told = _parsed(line)
        if told is not None and ("unit" not in told or told["unit"] in finished):
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
    """The records of all units that are wholly there, in the order in which they were written.

    Raises:
        BadData: a line that is not at the torn end cannot be read; names file, line and field.
    """
    path = folder / RECORDS
    held: list[Record] = []
    seen: set[str] = set()
    for number, _, line in _lines(path):
        if not line.endswith(b"\n"):
            return
        try:
            record = Record.parse(line.decode("utf-8", "replace"))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the whole line"
            raise BadData(
                f"{path}, line {number}, field {where}: {first['msg']}. "
                f"Restore the file; `emend resume {folder}` drops it if it is the last one. Or start a new run in "
                "another folder."
            ) from error
        if held and held[0].unit != record.unit:
            held = []
        held.append(record)
        if len(held) < record.of:
            continue
        if record.unit in seen:
            _warn(f"{path}, line {number}: the records of unit {record.unit} are there twice; the first ones count")
        else:
            yield from held
        seen.add(record.unit)
        held = []


def read_lines(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The lines of a file such as `events.jsonl`, `errors.jsonl` or `costs.jsonl`; a torn last line is left out.

    So is, with a warning, another one that cannot be read.
    """
    for number, _, line in _lines(folder / name):
        told = _parsed(line)
        if told is not None:
            yield told
        elif line.endswith(b"\n"):
            _warn(f"{folder / name}, line {number} cannot be read and is left out: what is shown lacks it")


@cache
def _warn(message: str) -> None:
    """Once, however often a file is read."""
    logging.getLogger(__name__).warning(message)
