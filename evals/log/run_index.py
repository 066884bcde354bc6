"""An index of a run's files by case and unit, to read the lines of a single case.

The index of a large run is stored in the user's cache folder, never in the run folder, which may
come from a stranger, and is extended while the run grows. It only contains offsets: lines are read
from the run and validated like any other line. It uses SQLite instead of DuckDB, which takes 70 ms
of CPU time to import and open, and reads a whole row group for one line; a case of 40,000 records
is found in 3 ms. Reading the files for it takes 180 ms, and more with every record.
"""

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
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
    SCORING_EVENTS,
    SCORING_RECORDS,
    StepLine,
    complete_units,
    parser_of,
    record_head,
)
from emend.evals.log.records import (
    DAMAGED_RECORD,
    LINE_KEYS,
    FileLine,
    parse_record,
    parse_sound,
    require_records,
)
from emend.evals.log.repeated_lines import last_records, without_repeats
from emend.evals.log.table_parts import source_digest
from emend.memory.errors import BadData
from emend.memory.files import connect_database, empty_database, open_lines
from emend.memory.paths import cache_folder

T = TypeVar("T")
# Beginning of a unit's line in `events.jsonl`.
UNIT = re.compile(rb'\{"unit": ?"([^"\\]+)"')
# Minimum size in bytes of a run whose index is stored; for smaller runs, building it is fast
# enough.
LARGE = 32 * 2**20
# Maximum number of indexes in the cache folder; the least recently used one is emptied.
KEPT = 20
# Bytes per read, small enough for a processor's cache.
BLOCK = 2**16
# Timeout in seconds for another process that builds the same index.
WAIT = 60
FOLDER = "indexes"
VERSION = 2
SCHEMA = (
    "PRAGMA synchronous=OFF",
    "CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, state TEXT, end INTEGER, lines "
    "INTEGER, changed INTEGER)",
    "CREATE TABLE IF NOT EXISTS spans (file TEXT, key INTEGER, start INTEGER, end INTEGER, line "
    "INTEGER)",
    "CREATE TABLE IF NOT EXISTS cases (id TEXT, number TEXT, start INTEGER, line INTEGER)",
)
INDEXES = (
    "CREATE INDEX IF NOT EXISTS by_key ON spans (file, key)",
    "CREATE INDEX IF NOT EXISTS by_id ON cases (id)",
    "CREATE INDEX IF NOT EXISTS by_number ON cases (number)",
)
# Remedy for a damaged line.
DAMAGED = {
    CASES: "",
    RECORDS: DAMAGED_RECORD,
    EVENTS: "Restore the file from a copy, or start a new run in another folder; `emend report` "
    "does without it.",
}
RESTORE = "Restore the file, or judge in a copy."
# Files whose damaged lines are skipped with a warning.
LENIENT = (BASELINE, JUDGE_EVENTS, SCORING_EVENTS)
_CASE = parser_of(SCHEMAS[CASES])
_STEP: Callable[[bytes, str], Any] = parser_of(TypeAdapter(StepLine))
_EVENT = parser_of(SCHEMAS[EVENTS])


class RunIndex:
    """Finds the lines of a case or unit in a run folder; a context manager.

    Each file is indexed on first use, and appended lines are added on later uses. A torn last line
    is skipped. If the cache cannot be written or is damaged, the index is built in memory.

    Args:
        folder: a run folder.
        large: minimum size in bytes of a run whose index is stored; default: `LARGE`.

    Raises:
        BadData: while a file is indexed or read: it is not a regular file, or a line is damaged;
            names file and line.
    """

    def __init__(self, folder: Path, large: int | None = None) -> None:
        self.folder = folder
        self._paths = {name: folder / name for name in DAMAGED}
        self._names = {name: str(path) for name, path in self._paths.items()}
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
        for name in self._paths:
            self._update(name)

    def lag(self) -> int:
        """Return the number of bytes that are not indexed yet."""
        lag = 0
        for name, path in self._paths.items():
            if path.exists():
                self._open(name)
                part = None
                with suppress(sqlite3.OperationalError):  # another process has emptied the index
                    part = self._indexed_part(name)
                lag += path.stat().st_size - (part[0] if part else 0)
        return max(0, lag)

    def case(self, name: str) -> dict[str, Any] | None:
        """Return the first line of `cases.jsonl` with this id, or this number, or the only id with
        this prefix.
        """
        name = name.encode(errors="replace").decode()
        for condition in (
            "WHERE id = ?1 GROUP BY id",
            "WHERE number = ?1 GROUP BY number",
            "WHERE substr(id, 1, length(?1)) = ?1 HAVING count(DISTINCT id) = 1",
        ):
            query = f"SELECT min(start), min(line) FROM cases {condition}"
            for start, number in self._select(CASES, query, name):
                return self._case_at(start, number)
        return None

    def settings_of(self, case: str) -> Iterator[dict[str, Any]]:
        """Yield the lines of `cases.jsonl` with that id, one for each setting."""
        query = "SELECT start, line FROM cases WHERE id = ? ORDER BY start"
        for start, number in self._select(CASES, query, case.encode(errors="replace").decode()):
            yield self._case_at(start, number)

    def _case_at(self, start: int, number: int) -> dict[str, Any]:
        self._files[CASES].seek(start)
        line: dict[str, Any] = _CASE(self._files[CASES].readline(), self._where(CASES, number))
        return line

    def records(self, case: str) -> Iterator[Record]:
        """Yield the records of a case's complete units, like `read_records`, repeated ones once.

        Raises:
            BadData: there are no records.
        """
        require_records(self.folder)
        units = complete_units(self._records(case), record_head)
        records = (record for record in chain.from_iterable(units) if record.probe)
        yield from last_records(records, self._names[RECORDS])

    def _records(self, case: str) -> Iterator[Record | None]:
        """Yield the case's records, and None for lines of other cases between them."""
        end = -1
        for line in self._lines(RECORDS, case):
            if line.start != end:
                yield None
            end = line.end
            yield self._parse(RECORDS, parse_record, line)

    def events(self, unit: str) -> dict[str, list[dict[str, Any]]]:
        """Read a unit's events by probe, in order, repeated ones once."""
        events: dict[str, list[dict[str, Any]]] = {}
        for line in without_repeats(self._lines(EVENTS, unit), self._names[EVENTS]):
            event = self._parse(EVENTS, _STEP, line)
            events.setdefault(event.get("probe", ""), []).append(event)
        return events

    def lines(self, name: str, keys: Iterable[str]) -> list[FileLine]:
        """Return the lines with these keys in a scoring's file or `baseline.jsonl`, each once and
        in order.

        Args:
            name: the file's name in the run folder.
            keys: ids of items or probes, or keys of calls.
        """
        self._paths.setdefault(name, self.folder / name)
        self._names.setdefault(name, str(self.folder / name))
        by_start = {
            line.start: line for key in dict.fromkeys(keys) for line in self._lines(name, key)
        }
        return [by_start[start] for start in sorted(by_start)]

    def _lines(self, name: str, key: str) -> Iterator[FileLine]:
        """Yield the key's lines; none if the file is missing."""
        encoded = key.encode(errors="replace")
        query = "SELECT start, end, line FROM spans WHERE file = ? AND key = ? ORDER BY start"
        for start, end, number in self._select(name, query, name, hash_key(encoded)):
            yield from read_span(self._files[name], start, number, end)

    def _select(self, name: str, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the index rows of a file; none if the file is missing."""
        try:
            return self._query(name, query, *values)
        except sqlite3.OperationalError:  # used or emptied by another process, or a full disk
            self._start_anew(remove=False)
        except sqlite3.DatabaseError:
            self._start_anew(remove=True)
        return self._query(name, query, *values)

    def _query(self, name: str, query: str, *values: object) -> list[tuple[Any, ...]]:
        self._update(name)
        if name not in self._files:
            return []
        with self._database as database:
            database.execute("BEGIN")
            if not database.execute("SELECT 1 FROM files WHERE name = ?", (name,)).fetchone():
                raise sqlite3.OperationalError("another process has emptied the index")
            return database.execute(query, values).fetchall()

    def _start_anew(self, *, remove: bool) -> None:
        """Continue with an empty index in memory; a stored index is emptied if it is wrong."""
        self._database.close()
        if remove and self._path is not None:
            with suppress(OSError, BadData, sqlite3.Error):
                empty_database(self._path, WAIT, only_damaged=True)
        self._database = _connect(None)
        self._indexed.clear()

    def _update(self, name: str) -> None:
        """Index the new part of a file."""
        if name not in self._indexed and self._paths[name].exists():
            self._open(name)
            self._continue(name)
            self._indexed.add(name)

    def _open(self, name: str) -> None:
        if name not in self._files:
            self._files[name] = open_lines(self._paths[name])

    def _continue(self, name: str) -> None:
        size = os.fstat(self._files[name].fileno()).st_size
        if (part := self._indexed_part(name)) and part[0] == size:
            return
        with self._database as database:
            database.execute("BEGIN IMMEDIATE")
            # another process may have extended the index in the meantime
            end, lines = self._indexed_part(name) or (0, 0)
            if not end:
                self._clear(name)
            changed = os.fstat(self._files[name].fileno()).st_mtime_ns
            end, lines = self._add(name, end, lines)
            self._keep_part(name, end, lines, changed)
            for statement in INDEXES:
                database.execute(statement)

    def _keep_part(self, name: str, end: int, lines: int, changed: int) -> None:
        """Store how far a file is indexed, and its change time before reading."""
        values = (name, source_digest(self._files[name], 0, end), end, lines, changed)
        self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", values)

    def _indexed_part(self, name: str) -> tuple[int, int] | None:
        """Return end and number of the indexed lines of a file; None if there are none or the file
        was replaced.
        """
        query = "SELECT state, end, lines, changed FROM files WHERE name = ?"
        for state, end, lines, changed in self._database.execute(query, (name,)):
            file, status = self._files[name], os.fstat(self._files[name].fileno())
            if state == source_digest(file, 0, end) and (
                end < status.st_size or changed == status.st_mtime_ns
            ):
                return end, lines
        return None

    def _clear(self, name: str) -> None:
        """Remove a file from the index."""
        if name == CASES:
            self._database.execute("DELETE FROM cases")
        else:
            self._database.execute("DELETE FROM spans WHERE file = ?", (name,))

    def _add(self, name: str, end: int, lines: int) -> tuple[int, int]:
        """Index a file from an offset on; return the end of the indexed part, and its number of
        lines.
        """
        return self._add_cases(end, lines) if name == CASES else self._add_spans(name, end, lines)

    def _add_cases(self, end: int, lines: int) -> tuple[int, int]:
        """Index the lines of `cases.jsonl` from an offset on; return their end, and the total
        number of lines.
        """

        def rows() -> Iterator[tuple[str, str, int, int]]:
            nonlocal end, lines
            for line in read_span(self._files[CASES], end, lines + 1):
                fields = _CASE(line.content, self._where(CASES, line.number))
                yield fields["case"], str(fields["number"]), line.start, line.number
                end, lines = line.end, line.number

        self._database.executemany("INSERT INTO cases VALUES (?, ?, ?, ?)", rows())
        return end, lines

    def _add_spans(self, name: str, end: int, lines: int) -> tuple[int, int]:
        """Index a file like `_add_cases`."""

        def rows() -> Iterator[tuple[str | int, ...]]:
            nonlocal end, lines
            key, start, first = b"", end, lines + 1
            for block in read_blocks(self._files[name], end):
                for now, content in zip(self._keys(name, block, lines + 1), block, strict=True):
                    if now != key:
                        yield from (
                            (name, hash_key(each), start, end, first)
                            for each in _keys_in(name, key)
                        )
                        key, start, first = now, end, lines + 1
                    end, lines = end + len(content), lines + 1
            yield from ((name, hash_key(each), start, end, first) for each in _keys_in(name, key))

        self._database.executemany("INSERT INTO spans VALUES (?, ?, ?, ?, ?)", rows())
        return end, lines

    def _keys(self, name: str, block: list[bytes], number: int) -> Iterable[bytes]:
        """Return the keys of lines, all keys for a judge's step; an event with the same beginning
        as the previous one has the same unit.
        """
        if name != EVENTS:
            return self._parsed_keys(name, block, number)
        keys, head = list[bytes](), None
        for content in block:
            if head is not None and content.startswith(head[0]):
                keys.append(keys[-1])
                continue
            head = UNIT.match(content)
            if head:
                keys.append(head[1])
            else:
                keys.append(self._unit_of(FileLine(content, 0, 0, number + len(keys))))
        return keys

    def _parsed_keys(self, name: str, block: list[bytes], number: int) -> list[bytes]:
        parse, field = LINE_KEYS[_kind(name)]
        try:
            with damage(self.folder, name):
                return [
                    _key_of(place[field]) for place in parse.block(block, self._names[name], number)
                ]
        except BadData:
            if _kind(name) not in LENIENT:
                raise
        lines = [FileLine(content, 0, 0, at) for at, content in enumerate(block, number)]
        places = (next(parse_sound([line], parse, self._paths[name]), None) for line in lines)
        return [_key_of(place[field]) if place else b"" for place in places]

    def _unit_of(self, line: FileLine) -> bytes:
        """Return the unit of an event; empty for an event of the run itself.

        Raises:
            BadData: the line is damaged.
        """
        unit: str = self._parse(EVENTS, _EVENT, line).get("unit", "")
        return unit.encode()

    def _parse(self, name: str, parse: Callable[[bytes, str], T], line: FileLine) -> T:
        with damage(self.folder, name):
            return parse(line.content, self._where(name, line.number))

    def _where(self, name: str, number: int) -> str:
        return f"{self._names[name]}, line {number}"


def keep_index(folder: Path) -> None:
    """Build or extend the index of a large run, for later traces of cases."""
    with suppress(OSError, BadData, sqlite3.Error):
        if _path_of(folder) is not None:
            with RunIndex(folder) as index:
                index.update()


@contextmanager
def damage(folder: Path, name: str) -> Iterator[None]:
    """Add the remedy to the error for a damaged line."""
    try:
        yield
    except BadData as error:
        raise BadData(f"{error} {DAMAGED.get(name, RESTORE).format(folder=folder)}") from error


def _kind(name: str) -> str:
    """Return the entry of `LINE_KEYS` for a file."""
    endings = (SCORING_RECORDS, SCORING_EVENTS, JUDGE_EVENTS)
    if name in LINE_KEYS:
        return name
    return next((ending for ending in endings if name.endswith(ending)), JUDGEMENTS)


def _key_of(value: str | list[str]) -> bytes:
    return (value if isinstance(value, str) else "\0".join(value)).encode()


def _keys_in(name: str, key: bytes) -> list[bytes]:
    """Return the keys of a line: a judge's step has one per item."""
    keys = set(key.split(b"\0")) if name.endswith(JUDGE_EVENTS) else {key}
    return [each for each in keys if each]


def read_blocks(file: BinaryIO, start: int) -> Iterator[list[bytes]]:
    """Yield the lines from an offset on in blocks; a torn last line is skipped."""
    file.seek(start)
    while lines := file.readlines(BLOCK):
        torn = not lines[-1].endswith(b"\n")
        yield lines[:-1] if torn else lines
        if torn:
            return


def read_span(
    file: BinaryIO, start: int, number: int, end: int | None = None
) -> Iterator[FileLine]:
    """Yield the lines between two offsets; a torn last line is skipped."""
    file.seek(start)
    for content in file:
        if not content.endswith(b"\n") or start == end:
            return
        yield FileLine(content, start, start := start + len(content), number)
        number += 1


def hash_key(key: bytes) -> int:
    """Return a key as a number, which takes less space in SQLite than text."""
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), signed=True)


def _path_of(folder: Path, large: int | None = None) -> Path | None:
    """Return the path of the run's index; None for a small run."""
    sizes = [
        (folder / name).stat().st_size
        for name in (CASES, EVENTS, RECORDS)
        if (folder / name).exists()
    ]
    digest = hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=16)
    small = sum(sizes) < (LARGE if large is None else large)
    return None if small else cache_folder(FOLDER) / f"{digest.hexdigest()}-{VERSION}.sqlite"


def _connect(path: Path | None) -> sqlite3.Connection:
    """Open an index, or an empty one in memory if there is no path or it cannot be used."""
    if path is not None:
        with suppress(OSError, BadData, sqlite3.Error):
            try:
                return _prepared(path)
            except sqlite3.OperationalError:  # the index is in use
                raise
            except sqlite3.DatabaseError:
                empty_database(path, WAIT, only_damaged=True)
                return _prepared(path)
    return _prepared(None)


def _prepared(path: Path | None) -> sqlite3.Connection:
    options: dict[str, Any] = {"timeout": WAIT, "isolation_level": None}
    database = connect_database(path, **options) if path else sqlite3.connect(":memory:", **options)
    try:
        for statement in SCHEMA:
            database.execute(statement)
        if path:
            os.utime(path)
            _empty_oldest(path.parent)
    except BaseException:
        database.close()
        raise
    return database


def _empty_oldest(folder: Path) -> None:
    """Empty all indexes but the ones used last."""
    full = [path for path in folder.glob("*.sqlite") if path.stat().st_size]
    for path in sorted(full, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        with suppress(OSError, BadData, sqlite3.Error):  # in use
            empty_database(path, 0)
