"""Index of a run's files by case and unit, so that the lines of one case are read without the others.

That of a large run is kept in the user's cache folder, never in the run's, which may be a stranger's, and is continued
while the run grows. It holds offsets alone: what is found by it is read from the run and checked like any other line.
"""

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
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
    StepLine,
    complete_units,
    count_once,
    parser_of,
    record_head,
)
from emend.evals.log.records import DAMAGED_RECORD, LINE_KEYS, FileLine, parse_record, parse_sound, require_records
from emend.evals.log.table_parts import source_digest
from emend.memory.errors import BadData
from emend.memory.files import connect_database, open_file
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
VERSION = 2
SCHEMA = (
    "PRAGMA synchronous=OFF",
    "CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, state TEXT, end INTEGER, lines INTEGER, changed INTEGER)",
    "CREATE TABLE IF NOT EXISTS spans (file TEXT, key INTEGER, start INTEGER, end INTEGER, line INTEGER)",
    "CREATE TABLE IF NOT EXISTS cases (id TEXT, number TEXT, start INTEGER, line INTEGER)",
)
INDEXES = (
    "CREATE INDEX IF NOT EXISTS by_key ON spans (file, key)",
    "CREATE INDEX IF NOT EXISTS by_id ON cases (id)",
    "CREATE INDEX IF NOT EXISTS by_number ON cases (number)",
)
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
        """Number of bytes that are not indexed yet."""
        lag = 0
        for name, path in self._paths.items():
            if path.exists():
                self._open(name)
                part = self._indexed_part(name)
                lag += path.stat().st_size - (part[0] if part else 0)
        return max(0, lag)

    def case(self, name: str) -> dict[str, Any] | None:
        """Return the first line of `cases.jsonl` with that id, or else number, or else the only id that begins so."""
        name = name.encode(errors="replace").decode()
        for condition in (
            "WHERE id = ?1 GROUP BY id",
            "WHERE number = ?1 GROUP BY number",
            "WHERE substr(id, 1, length(?1)) = ?1 HAVING count(DISTINCT id) = 1",
        ):
            query = f"SELECT id, CAST(min(start) AS INTEGER), min(line) FROM cases {condition}"
            for _ in range(2):
                for case, start, number in self._select(CASES, query, name):
                    if self._begins(CASES, start):
                        line = _CASE(self._files[CASES].readline(), self._where(CASES, number))
                        if line["case"] == case:
                            return line  # type: ignore[no-any-return]
                    self._start_anew(remove=True)
        return None

    def settings_of(self, case: str) -> Iterator[dict[str, Any]]:
        """Yield the lines of `cases.jsonl` with that id, one for each setting."""
        query = "SELECT CAST(start AS INTEGER), line FROM cases WHERE id = ? ORDER BY start"
        for start, number in self._select(CASES, query, case.encode(errors="replace").decode()):
            if self._begins(CASES, start):
                yield _CASE(self._files[CASES].readline(), self._where(CASES, number))

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
        self._paths.setdefault(name, self.folder / name)
        self._names.setdefault(name, str(self.folder / name))
        by_start = {line.start: line for key in dict.fromkeys(keys) for line in self._lines(name, key)}
        return [by_start[start] for start in sorted(by_start)]

    def _lines(self, name: str, key: str) -> list[FileLine]:
        """The key's lines; the index is made anew if other lines are where they are to be."""
        encoded = key.encode(errors="replace")
        lines, sound = self._read(name, encoded)
        if not sound:
            self._start_anew(remove=True)
            lines, _ = self._read(name, encoded)
        return lines

    def _read(self, name: str, key: bytes) -> tuple[list[FileLine], bool]:
        """The key's lines at the offsets of the index, and True if no other line is there."""
        offsets = "CAST(start AS INTEGER), CAST(end AS INTEGER), line"
        query = f"SELECT {offsets} FROM spans WHERE file = ? AND key = ? ORDER BY start"
        lines, sound = list[FileLine](), True
        for start, end, number in self._select(name, query, name, hash_key(key)):
            span = list(read_span(self._files[name], start, number, end)) if self._begins(name, start) else []
            matching = [line for line in span if key in _keys_in(name, self._key(name, line))]
            sound = sound and len(matching) == len(span) and bool(matching) and matching[-1].end == end
            lines += matching
        return lines, sound

    def _begins(self, name: str, start: int) -> bool:
        """True if a line begins at that offset; the file is then there."""
        self._files[name].seek(max(0, start - 1))
        return start == 0 or (start > 0 and self._files[name].read(1) == b"\n")

    def _select(self, name: str, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of the index of a file; none if the file is missing."""
        try:
            return self._query(name, query, *values)
        except sqlite3.OperationalError:  # in use by another process, or no room is left
            self._start_anew(remove=False)
        except sqlite3.DatabaseError:
            self._start_anew(remove=True)
        return self._query(name, query, *values)

    def _query(self, name: str, query: str, *values: object) -> list[tuple[Any, ...]]:
        self._update(name)
        return self._database.execute(query, values).fetchall() if name in self._files else []

    def _start_anew(self, *, remove: bool) -> None:
        """Go on with an empty index in memory; the kept one is deleted if it is wrong."""
        self._database.close()
        if remove and self._path is not None:
            _remove(self._path)
        self._database = _connect(None)
        self._indexed.clear()

    def _update(self, name: str) -> None:
        """Index what the index lacks of a file."""
        if name not in self._indexed and self._paths[name].exists():
            self._open(name)
            self._continue(name)
            self._indexed.add(name)

    def _open(self, name: str) -> None:
        if name not in self._files:
            self._files[name] = open_file(self._paths[name])

    def _continue(self, name: str) -> None:
        size = os.fstat(self._files[name].fileno()).st_size
        if (part := self._indexed_part(name)) and part[0] == size:
            return
        with self._database as database:
            database.execute("BEGIN IMMEDIATE")
            end, lines = self._indexed_part(name) or (0, 0)  # another process may have gone on with it meanwhile
            if not end:
                self._clear(name)
            changed = os.fstat(self._files[name].fileno()).st_mtime_ns
            end, lines = self._add(name, end, lines)
            self._keep_part(name, end, lines, changed)
            for statement in INDEXES:
                database.execute(statement)

    def _keep_part(self, name: str, end: int, lines: int, changed: int) -> None:
        """Keep how far a file is indexed, and when it was changed before it was read."""
        values = (name, source_digest(self._files[name], 0, end), end, lines, changed)
        self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", values)

    def _indexed_part(self, name: str) -> tuple[int, int] | None:
        """End and number of the lines that the index has of a file; None if it has none, or the file is another one."""
        query = "SELECT state, end, lines, changed FROM files WHERE name = ?"
        for state, end, lines, changed in self._database.execute(query, (name,)):
            file, status = self._files[name], os.fstat(self._files[name].fileno())
            if state == source_digest(file, 0, end) and (end < status.st_size or changed == status.st_mtime_ns):
                return end, lines
        return None

    def _clear(self, name: str) -> None:
        """Remove all that the index has of a file."""
        if name == CASES:
            self._database.execute("DELETE FROM cases")
        else:
            self._database.execute("DELETE FROM spans WHERE file = ?", (name,))

    def _add(self, name: str, end: int, lines: int) -> tuple[int, int]:
        """Index a file from an offset on; return where its indexed part ends, and the number of lines in it."""
        return self._add_cases(end, lines) if name == CASES else self._add_spans(name, end, lines)

    def _add_cases(self, end: int, lines: int) -> tuple[int, int]:
        """Index the lines of `cases.jsonl` from an offset on; return where they end, and the number of all lines."""

        def rows() -> Iterator[tuple[str, str, int, int]]:
            nonlocal end, lines
            for line in read_span(self._files[CASES], end, lines + 1):
                fields = _CASE(line.content, self._where(CASES, line.number))
                yield fields["case"], str(fields["number"]), line.start, line.number
                end, lines = line.end, line.number

        self._database.executemany("INSERT INTO cases VALUES (?, ?, ?, ?)", rows())
        return end, lines

    def _add_spans(self, name: str, end: int, lines: int) -> tuple[int, int]:
        """Index a file as `_add_cases` does."""

        def rows() -> Iterator[tuple[str | int, ...]]:
            nonlocal end, lines
            key, start, first = b"", end, lines + 1
            for block in read_blocks(self._files[name], end):
                for now, content in zip(self._keys(name, block, lines + 1), block, strict=True):
                    if now != key:
                        yield from ((name, hash_key(each), start, end, first) for each in _keys_in(name, key))
                        key, start, first = now, end, lines + 1
                    end, lines = end + len(content), lines + 1
            yield from ((name, hash_key(each), start, end, first) for each in _keys_in(name, key))

        self._database.executemany("INSERT INTO spans VALUES (?, ?, ?, ?, ?)", rows())
        return end, lines

    def _keys(self, name: str, block: list[bytes], number: int) -> Iterable[bytes]:
        """Keys of lines, as of `_key`; an event that begins as the one before it is of the same unit."""
        if name != EVENTS:
            return self._parsed_keys(name, block, number)
        keys, head = list[bytes](), None
        for content in block:
            if head is None or not content.startswith(head[0]):
                head = UNIT.match(content)
                keys.append(head[1] if head else self._key(name, FileLine(content, 0, 0, number + len(keys))))
            else:
                keys.append(keys[-1])
        return keys

    def _parsed_keys(self, name: str, block: list[bytes], number: int) -> list[bytes]:
        parse, field = LINE_KEYS[_kind(name)]
        try:
            with damage(self.folder, name):
                return [_key_of(place[field]) for place in parse.block(block, self._names[name], number)]
        except BadData:
            if _kind(name) not in LENIENT:
                raise
        lines = [FileLine(content, 0, 0, at) for at, content in enumerate(block, number)]
        places = (next(parse_sound([line], parse, self._paths[name]), None) for line in lines)
        return [_key_of(place[field]) if place else b"" for place in places]

    def _key(self, name: str, line: FileLine) -> bytes:
        """Key by which a line is found, of a step of a judge all of them; empty for an event of the run itself.

        Raises:
            BadData: the line is damaged.
        """
        if name != EVENTS:
            parse, field = LINE_KEYS[_kind(name)]
            return _key_of(self._parse(name, parse, line)[field])
        if head := UNIT.match(line.content):
            return head[1]
        return self._parse(name, _EVENT, line).get("unit", "").encode()  # type: ignore[no-any-return]

    def _parse(self, name: str, parse: Callable[[bytes, str], T], line: FileLine) -> T:
        with damage(self.folder, name):
            return parse(line.content, self._where(name, line.number))

    def _where(self, name: str, number: int) -> str:
        return f"{self._names[name]}, line {number}"


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
    """Which of `LINE_KEYS` is about a file."""
    return name if name in LINE_KEYS else JUDGE_EVENTS if name.endswith(JUDGE_EVENTS) else JUDGEMENTS


def _key_of(value: str | list[str]) -> bytes:
    return (value if isinstance(value, str) else "\0".join(value)).encode()


def _keys_in(name: str, key: bytes) -> list[bytes]:
    """The keys by which lines are found: a step of a judge by each of its items."""
    keys = set(key.split(b"\0")) if name.endswith(JUDGE_EVENTS) else {key}
    return [each for each in keys if each]


def read_blocks(file: BinaryIO, start: int) -> Iterator[list[bytes]]:
    """Yield the lines from an offset on, many at once; a torn last line is left out."""
    file.seek(start)
    while lines := file.readlines(BLOCK):
        torn = not lines[-1].endswith(b"\n")
        yield lines[:-1] if torn else lines
        if torn:
            return


def read_span(file: BinaryIO, start: int, number: int, end: int | None = None) -> Iterator[FileLine]:
    """Yield the lines from an offset on, up to another one; a torn last line is left out."""
    file.seek(start)
    for content in file:
        if not content.endswith(b"\n") or start == end:
            return
        yield FileLine(content, start, start := start + len(content), number)
        number += 1


def hash_key(key: bytes) -> int:
    """A key as a number, since those of SQLite take less room than texts."""
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), signed=True)


def _path_of(folder: Path, large: int | None = None) -> Path | None:
    """The place of the run's index; None for a small run."""
    sizes = [(folder / name).stat().st_size for name in (CASES, EVENTS, RECORDS) if (folder / name).exists()]
    digest = hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=16)
    small = sum(sizes) < (LARGE if large is None else large)
    return None if small else cache_folder(FOLDER) / f"{digest.hexdigest()}-{VERSION}.sqlite"


def _connect(path: Path | None) -> sqlite3.Connection:
    """Open an index; an empty one in memory where there is no path, or it cannot be used."""
    if path is not None:
        with suppress(OSError, BadData, sqlite3.Error):
            try:
                return _prepared(path)
            except sqlite3.OperationalError:  # it is in use
                raise
            except sqlite3.DatabaseError:
                _remove(path)
                return _prepared(path)
    return _prepared(":memory:")


def _prepared(path: Path | str) -> sqlite3.Connection:
    if isinstance(path, Path):
        database = connect_database(path, timeout=WAIT, isolation_level=None)
        os.utime(path)
        _remove_oldest(path.parent)
    else:
        database = sqlite3.connect(path, isolation_level=None)
    try:
        for statement in SCHEMA:
            database.execute(statement)
    except BaseException:
        database.close()
        raise
    return database


def _remove(path: Path) -> None:
    """Delete an index with its journal, which would be taken for that of the next one."""
    for file in (path, path.with_name(f"{path.name}-journal")):
        file.unlink(missing_ok=True)


def _remove_oldest(folder: Path) -> None:
    for path in sorted(folder.glob("*.sqlite"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        _remove(path)
