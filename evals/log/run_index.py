"""Index of a run's files by case and unit, so that the lines of one case are read without the others.

That of a large run is kept in the user's cache folder, never in the run's, which may be a stranger's, and is continued
while the run grows. It holds offsets alone: what is found by it is read from the run and checked like any other line.
"""

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

from pydantic import TypeAdapter

from emend.evals.case import Record
from emend.evals.log.lines import (
    BASELINE,
    CASES,
    EVENTS,
    JUDGE_EVENTS,
    JUDGEMENTS,
    RECORDS,
    SCHEMAS,
    BaselineLine,
    JudgementPlace,
    JudgeStepPlace,
    RecordPlace,
    StepLine,
    complete_units,
    count_once,
    parser_of,
    record_head,
)
from emend.evals.log.records import (
    DAMAGED_RECORD,
    FileLine,
    LineParser,
    parse_record,
    parse_sound,
    read_lines,
    require_records,
)
from emend.evals.log.table_parts import source_digest
from emend.memory.errors import BadData
from emend.memory.files import connect_database, open_file
from emend.memory.json_files import BEGINNING, LinePlace
from emend.memory.paths import cache_folder

T = TypeVar("T")
UNIT = re.compile(rb'\{"unit": ?"([^"\\]+)"')
"""Beginning of a line of a unit in `events.jsonl`."""
LARGE = 32 * 2**20
"""Size in bytes of a run whose index is kept; that of a smaller one is made faster than it is worth keeping."""
KEPT = 20
"""Number of indexes in the cache folder; the one that was not used for the longest time is deleted."""
BLOCK = 2**16
"""Bytes that are read at once: little enough for a processor's cache."""
WAIT = 60
"""Seconds to wait for another process that makes the same index."""
FOLDER = "indexes"
VERSION = 3
SCHEMA = (
    "PRAGMA synchronous=OFF",
    "CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, state TEXT, end INTEGER, lines INTEGER, changed INTEGER)",
    "CREATE TABLE IF NOT EXISTS spans (file TEXT, key INTEGER, start INTEGER, end INTEGER, line INTEGER)",
)
BY_KEY = "CREATE INDEX IF NOT EXISTS by_key ON spans (file, key)"
DAMAGED = {
    CASES: "",
    RECORDS: DAMAGED_RECORD,
    EVENTS: "Restore the file from a copy, or start a new run in another folder; `emend report` does without it.",
}
"""What to do about a damaged line."""
RESTORE = "Restore the file, or judge in a copy."
LENIENT = (BASELINE, JUDGE_EVENTS)
"""Files whose damaged lines are left out, with a warning."""
_CASE = parser_of(SCHEMAS[CASES])
_STEP: Callable[[bytes, str], Any] = parser_of(TypeAdapter(StepLine))
_EVENT = parser_of(SCHEMAS[EVENTS])
Keys = Callable[[bytes, str], tuple[str, ...]]
"""Returns the keys by which a line is found; none for an event of the run itself."""


def _keys_of_case(line: bytes, where: str) -> tuple[str, ...]:
    fields = _CASE(line, where)
    return fields["case"], _number_key(str(fields["number"]))


def _number_key(number: str) -> str:
    """The key of the case of that number, which is no case's id."""
    return f"\0{number}"


def _keys_of_event(line: bytes, where: str) -> tuple[str, ...]:
    if head := UNIT.match(line):
        return (head[1].decode(errors="replace"),)
    return tuple(filter(None, [_EVENT(line, where).get("unit")]))


def _keys_in(schema: type[Any], field: str) -> Keys:
    """Make the function for lines that are found by a text, or by each of several, in one field."""
    parse = LineParser(schema, parser_of(TypeAdapter(schema)))

    def keys(line: bytes, where: str) -> tuple[str, ...]:
        value = parse(line, where)[field]
        return (value,) if isinstance(value, str) else tuple(value)

    return keys


KEYS: Mapping[str, Keys] = {
    CASES: _keys_of_case,
    EVENTS: _keys_of_event,
    RECORDS: _keys_in(RecordPlace, "case"),
    BASELINE: _keys_in(BaselineLine, "probe"),
    JUDGEMENTS: _keys_in(JudgementPlace, "item"),
    JUDGE_EVENTS: _keys_in(JudgeStepPlace, "items"),
}
"""By file, or ending of a scoring's file."""


class RunIndex:
    """Finds the lines of a case or unit in a run folder; a context manager.

    Each file is indexed when it is first asked for, and what was appended since is added then. A torn last line is left
    out. An index that cannot be kept, because the cache cannot be written or is damaged, is made in memory.

    Args:
        folder: a run folder.
        large: size in bytes of a run from which on its index is kept; default: `LARGE`.

    Raises:
        BadData: while a file is indexed or read: it is no regular file, or a line is damaged; names file and line.
    """

    def __init__(self, folder: Path, large: int | None = None) -> None:
        self.folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._indexed: set[str] = set()
        self._path = _path_of(folder, large)
        self._database = _connect(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files.values():
            file.close()
        self._database.close()

    def update(self) -> None:
        """Index all files."""
        for name in DAMAGED:
            self._update(name)

    def lag(self) -> int:
        """Number of bytes that are not indexed yet."""
        sizes = {name: os.fstat(self._files[name].fileno()).st_size for name in DAMAGED if self._open(name)}
        return max(0, sum(size - self._end_of(name).offset for name, size in sizes.items()))

    def case(self, name: str) -> dict[str, Any] | None:
        """Return the first line of `cases.jsonl` with that id, or else number, or else the only id that begins so."""
        for key in (name, _number_key(name)):
            if lines := self._lines(CASES, key):
                return self._parse(CASES, _CASE, lines[0])  # type: ignore[no-any-return]
        fitting: dict[str, dict[str, Any]] = {}
        for line in read_lines(self.folder, CASES):
            if line["case"].startswith(name):
                fitting.setdefault(line["case"], line)
        return next(iter(fitting.values())) if len(fitting) == 1 else None

    def settings_of(self, case: str) -> Iterator[dict[str, Any]]:
        """Yield the lines of `cases.jsonl` with that id, one for each setting."""
        return (self._parse(CASES, _CASE, line) for line in self._lines(CASES, case))

    def records(self, case: str) -> Iterator[Record]:
        """Yield the records of a case's complete units, as `read_records` does.

        Raises:
            BadData: there are no records.
        """
        require_records(self.folder)
        units = complete_units(self._records(case), record_head)
        yield from count_once(units, self.folder / RECORDS)

    def _records(self, case: str) -> Iterator[Record | None]:
        """The case's records; None where lines of other cases are between them."""
        end = -1
        for line in self._lines(RECORDS, case):
            if line.start != end:
                yield None
            end = line.end
            yield self._parse(RECORDS, parse_record, line)

    def events(self, unit: str) -> dict[str, list[dict[str, Any]]]:
        """Read a unit's events, by probe, in their order."""
        events: dict[str, list[dict[str, Any]]] = {}
        for line in self._lines(EVENTS, unit):
            event = self._parse(EVENTS, _STEP, line)
            events.setdefault(event.get("probe", ""), []).append(event)
        return events

    def lines(self, name: str, keys: Iterable[str]) -> list[FileLine]:
        """The lines of items in a file of a scoring, or of probes in `baseline.jsonl`, each once and in their order.

        Args:
            name: of the file, in the run's folder.
            keys: ids of items or probes.
        """
        by_start = {line.start: line for key in dict.fromkeys(keys) for line in self._lines(name, key)}
        return [by_start[start] for start in sorted(by_start)]

    def _lines(self, name: str, key: str) -> list[FileLine]:
        """The key's lines; the index is made anew in memory where the kept one cannot be used."""
        try:
            spans = self._spans(name, key)
        except sqlite3.DatabaseError as error:
            self._database.close()
            _remove_damaged(self._path, error)
            self._database = _prepared(sqlite3.connect(":memory:", isolation_level=None))
            self._indexed.clear()
            spans = self._spans(name, key)
        return [line for span in spans for line in read_span(self._files[name], *span)]

    def _spans(self, name: str, key: str) -> list[tuple[int, int, int]]:
        """Where the key's lines are: start, number of the first line, and end."""
        self._update(name)
        query = "SELECT start, line, end FROM spans WHERE file = ? AND key = ? ORDER BY start"
        return self._database.execute(query, (name, hash_key(key))).fetchall() if name in self._files else []

    def _update(self, name: str) -> None:
        """Index what the index lacks of a file."""
        if name in self._indexed or not self._open(name):
            return
        if self._end_of(name).offset != os.fstat(self._files[name].fileno()).st_size:
            with self._database as database:
                database.execute("BEGIN IMMEDIATE")
                self._continue(name)
                database.execute(BY_KEY)
        self._indexed.add(name)

    def _open(self, name: str) -> bool:
        """Open a file; False if there is none."""
        if name not in self._files and (self.folder / name).exists():
            self._files[name] = open_file(self.folder / name)
        return name in self._files

    def _end_of(self, name: str) -> LinePlace:
        """Where the indexed part of a file ends; its beginning if the index has none of it, or of another one."""
        query, file = "SELECT state, end, lines, changed FROM files WHERE name = ?", self._files[name]
        status = os.fstat(file.fileno())
        for state, end, lines, changed in self._database.execute(query, (name,)):
            if state == source_digest(file, 0, end) and (end < status.st_size or changed == status.st_mtime_ns):
                return LinePlace(end, lines)
        return BEGINNING

    def _continue(self, name: str) -> None:
        """Index a file from where its indexed part ends, to which another process may have added meanwhile."""
        place, file = self._end_of(name), self._files[name]
        if place == BEGINNING:
            self._database.execute("DELETE FROM spans WHERE file = ?", (name,))
        changed = os.fstat(file.fileno()).st_mtime_ns

        def rows() -> Iterator[tuple[str, int, int, int, int]]:
            nonlocal place
            keys, start, (end, number) = tuple[str, ...](), place, place
            for content in chain.from_iterable(read_blocks(file, end)):
                if (now := self._keys(name, content, number + 1)) != keys:
                    yield from ((name, hash_key(key), start.offset, end, start.lines + 1) for key in keys)
                    keys, start = now, LinePlace(end, number)
                end, number = end + len(content), number + 1
            yield from ((name, hash_key(key), start.offset, end, start.lines + 1) for key in keys)
            place = LinePlace(end, number)

        self._database.executemany("INSERT INTO spans VALUES (?, ?, ?, ?, ?)", rows())
        values = (name, source_digest(file, 0, place.offset), *place, changed)
        self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", values)

    def _keys(self, name: str, content: bytes, number: int) -> tuple[str, ...]:
        """The keys of a line; none for a damaged one that is left out."""
        kind = _kind(name)
        try:
            return KEYS[kind](content, "")  # almost always, and without the text that names a line
        except BadData:
            line = FileLine(content, 0, 0, number)
            if kind not in LENIENT:
                return self._parse(name, KEYS[kind], line)
            return next(parse_sound([line], KEYS[kind], self.folder / name), ())

    def _parse(self, name: str, parse: Callable[[bytes, str], T], line: FileLine) -> T:
        with damage(self.folder, name):
            return parse(line.content, f"{self.folder / name}, line {line.number}")


def keep_index(folder: Path) -> None:
    """Make, or continue, the index of a large run for those who will trace a case."""
    with suppress(OSError, BadData, sqlite3.Error):
        if _path_of(folder) is not None:
            with RunIndex(folder) as index:
                index.update()


@contextmanager
def damage(folder: Path, name: str) -> Iterator[None]:
    """Say what to do about a damaged line of a file."""
    try:
        yield
    except BadData as error:
        raise BadData(f"{error} {DAMAGED.get(name, RESTORE).format(folder=folder)}") from error


def _kind(name: str) -> str:
    """Which of `KEYS` is about a file."""
    return name if name in KEYS else JUDGE_EVENTS if name.endswith(JUDGE_EVENTS) else JUDGEMENTS


def read_blocks(file: BinaryIO, start: int) -> Iterator[list[bytes]]:
    """Yield the lines from an offset on, many at once; a torn last line is left out."""
    file.seek(start)
    while lines := file.readlines(BLOCK):
        torn = not lines[-1].endswith(b"\n")
        yield lines[:-1] if torn else lines
        if torn:
            return


def read_span(file: BinaryIO, start: int, number: int, end: int) -> Iterator[FileLine]:
    """Yield the lines between two offsets; `number` is that of the first one."""
    file.seek(start)
    while start < end and (content := file.readline()).endswith(b"\n"):
        yield FileLine(content, start, start := start + len(content), number)
        number += 1


def hash_key(key: str) -> int:
    """A key as a number, since those of SQLite take less room than texts."""
    return int.from_bytes(hashlib.blake2b(key.encode(errors="replace"), digest_size=8).digest(), signed=True)


def _path_of(folder: Path, large: int | None = None) -> Path | None:
    """The place of the run's index; None for a small run."""
    sizes = [(folder / name).stat().st_size for name in (CASES, EVENTS, RECORDS) if (folder / name).exists()]
    digest = hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=16)
    small = sum(sizes) < (LARGE if large is None else large)
    return None if small else cache_folder(FOLDER) / f"{digest.hexdigest()}-{VERSION}.sqlite"


def _connect(path: Path | None) -> sqlite3.Connection:
    """Open an index; an empty one in memory where there is no path, or it cannot be used."""
    if path is not None:
        try:
            database = _prepared(connect_database(path, timeout=WAIT, isolation_level=None))
            os.utime(path)
            for old in sorted(path.parent.glob("*.sqlite"), key=lambda each: each.stat().st_mtime)[:-KEPT]:
                _remove(old)
            return database
        except (OSError, BadData, sqlite3.Error) as error:
            _remove_damaged(path, error)
    return _prepared(sqlite3.connect(":memory:", isolation_level=None))


def _prepared(database: sqlite3.Connection) -> sqlite3.Connection:
    try:
        for statement in SCHEMA:
            database.execute(statement)
    except BaseException:
        database.close()
        raise
    return database


def _remove_damaged(path: Path | None, error: Exception) -> None:
    """Delete an index that is no database; one that is in use, or for which no room is left, stays."""
    is_damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
    if path is not None and is_damaged:
        with suppress(OSError):
            _remove(path)


def _remove(path: Path) -> None:
    """Delete an index with its journal, which would be taken for that of the next one."""
    for file in (path, path.with_name(f"{path.name}-journal")):
        file.unlink(missing_ok=True)
