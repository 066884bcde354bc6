"""Index of a run's answers: a row of numbers for each record, by which a million of them are filtered in milliseconds.

It is a further part of the run's index by case and unit, so it is kept, continued and made anew like that one.
"""

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, count, groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from emend.evals.case import Metric, Record
from emend.evals.log.lines import CASES, RECORDS, CaseLine, parser_of
from emend.evals.log.manifest import Manifest
from emend.evals.log.record_lines import parse_fields
from emend.evals.log.run_index import RunIndex, damage, hash_key, read_blocks, read_span
from emend.evals.log.units import complete_units
from emend.evals.show.trace.filters import texts_of
from emend.evals.show.view.answer_rows import CASE_ROW, ROW, AnswerRows, Names, Rows, UnitLines, case_rows, join_texts

ANSWERS, ANSWER_CASES = "answers", "answer cases"
"""Names of the index's parts, which are about `records.jsonl` and `cases.jsonl`."""
LARGE = 2**20
CHUNK = 2**16
"""Number of answers in a chunk, whose size bounds the memory while an index is made."""
BATCH = 2**7
"""Number of answers of which rows are made at once: little enough for a processor's cache."""
_FILES = {ANSWERS: RECORDS, ANSWER_CASES: CASES}
_PARSE_CASE = parser_of(TypeAdapter(CaseLine))
ADD_SPAN = "INSERT INTO spans VALUES (?, ?, ?, ?, ?)"
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS chunks (part TEXT, place INTEGER, rows BLOB, texts BLOB, PRIMARY KEY (part, place))",
    "CREATE TABLE IF NOT EXISTS names (kind TEXT, place INTEGER, name TEXT, PRIMARY KEY (kind, place))",
)


class AnswerIndex(RunIndex):
    """The index of a run, with its answers; a context manager.

    Args:
        folder: a run folder.
        metrics: of the run, which decide what is right.
        large: size in bytes of a run from which on its index is kept; default: `LARGE`.
    """

    def __init__(self, folder: Path, metrics: Sequence[Metric], large: int | None = None) -> None:
        super().__init__(folder, LARGE if large is None else large)
        self._metrics = metrics
        parts = {part: folder / name for part, name in _FILES.items()}
        self._paths = parts | self._paths  # the answers come before the lines of cases, which are indexed in passing
        self._prepare()

    def _prepare(self) -> None:
        for statement in SCHEMA:
            self._database.execute(statement)

    def _start_anew(self, *, remove: bool) -> None:
        super()._start_anew(remove=remove)
        self._prepare()

    def lag(self) -> int:
        """Number of bytes that are not indexed yet."""
        lag = 0
        for name, path in self._paths.items():
            if path.exists():
                self._open(name)
                part = self._indexed_part(name)
                lag += path.stat().st_size - (part[0] if part else 0)
        return max(0, lag)

    def chunks(self, part: str, after: int) -> list[Rows]:
        """Rows of the part's chunks from a number on, after what was appended to the file is added."""
        dtype = ROW if part == ANSWERS else CASE_ROW
        query = "SELECT rows FROM chunks WHERE part = ? AND place >= ? ORDER BY place"
        return [np.frombuffer(rows, dtype=dtype) for (rows,) in self._select(part, query, part, after)]

    def texts(self, part: str, place: int) -> tuple[bytes, NDArray[np.uint32]]:
        """The texts of a chunk in lower case, and where each of them ends; a text is that of an answer or a case."""
        query = "SELECT texts, length(rows) FROM chunks WHERE part = ? AND place = ?"
        dtype = ROW if part == ANSWERS else CASE_ROW
        for content, size in self._select(part, query, part, place):
            split = 4 * (size // dtype.itemsize)
            return content[split:], np.frombuffer(content[:split], dtype=np.uint32)
        return b"", np.empty(0, np.uint32)

    def names(self) -> Names:
        """The names that the rows' numbers stand for."""
        query = "SELECT kind, place, name FROM names WHERE kind != 'made' ORDER BY kind, place"
        return Names(self._database.execute(query).fetchall())

    def generation(self) -> str:
        """Return an id that changes when the rows are made anew, so that those read before are not continued."""
        return "".join(name for (name,) in self._database.execute("SELECT name FROM names WHERE kind = 'made'"))

    def state(self) -> tuple[Any, ...]:
        """Return what identifies the content: it changes when answers are added, or the index is made anew."""
        self._update(ANSWER_CASES)
        self._update(ANSWERS)
        query = "SELECT name, hex(state), end FROM files WHERE name IN (?, ?) ORDER BY name"
        return tuple(self._database.execute(query, (ANSWERS, ANSWER_CASES)).fetchall())

    def _clear(self, name: str) -> None:
        if name in (ANSWERS, ANSWER_CASES):
            self._database.execute("DELETE FROM chunks WHERE part = ?", (name,))
            self._database.execute("INSERT OR REPLACE INTO names VALUES ('made', 0, ?)", (secrets.token_hex(8),))
        else:
            super()._clear(name)

    def _open(self, name: str) -> None:
        """Open the part's file, which it shares with that of the lines."""
        file = _FILES.get(name, name)
        super()._open(file)
        self._files[name] = self._files[file]

    def _add(self, name: str, end: int, lines: int) -> tuple[int, int]:
        if name == ANSWERS:
            return self._add_answers(end, lines)
        if name == ANSWER_CASES:
            return self._add_case_rows(end, lines)
        return super()._add(name, end, lines)

    def _add_case_rows(self, end: int, lines: int) -> tuple[int, int]:
        writer, last = _ChunkWriter(self, ANSWER_CASES), None
        span = read_span(self._files[ANSWER_CASES], end, lines + 1)
        while places := list(islice(span, min(BATCH, CHUNK))):
            last = places[-1]
            cases = [_PARSE_CASE(line.content, self._where(CASES, line.number)) for line in places]
            texts = [" ".join(edit["text"] for edit in case["edits"]).casefold() for case in cases]
            writer.add(case_rows(cases, places, writer.names), texts)
        writer.write()
        return (last.end, last.number) if last else (end, lines)

    def _add_answers(self, end: int, lines: int) -> tuple[int, int]:
        """Index the answers of complete units from an offset on; return the end of the last one.

        The lines of cases are indexed in passing if that part of the index ends there, too.
        """
        part = self._indexed_part(RECORDS)
        with_spans = part == (end, lines) or (part is None and not end)
        if with_spans and part is None:
            self._clear(RECORDS)
        changed = os.fstat(self._files[RECORDS].fileno()).st_mtime_ns
        writer, units = _ChunkWriter(self, ANSWERS), _Units([rows["unit"] for rows in self._stored(ANSWERS)])
        rows = AnswerRows(writer.names, self._metrics)
        for batch in _batches(self._complete_units(end, lines + 1)):
            new = [unit for unit in batch if units.is_new(unit.records[0].unit)]
            end, lines = batch[-1].offsets[-1], batch[-1].number + len(batch[-1].records) - 1
            if not new:
                continue
            texts = ["\n".join(texts_of(record)).casefold() for unit in new for record in unit.records]
            writer.add(rows.rows(new), texts)
            if with_spans:
                self._database.executemany(ADD_SPAN, chain.from_iterable(map(_spans, new)))
        writer.write()
        if with_spans:
            self._keep_part(RECORDS, end, lines, changed)
        return end, lines

    def _complete_units(self, end: int, number: int) -> Iterator[UnitLines]:
        """The complete units among the lines from an offset on, of which the first has that number."""
        for unit in complete_units(self._record_lines(end, number), lambda line: (line[0].unit, line[0].of)):
            records, starts, ends, numbers = zip(*unit, strict=True)
            yield UnitLines(records, (*starts, ends[-1]), numbers[0])

    def _record_lines(self, end: int, number: int) -> Iterator[tuple[Record, int, int, int]]:
        """The records from an offset on; where the line of each begins and ends, and its number."""
        for lines in read_blocks(self._files[ANSWERS], end):
            with damage(self.folder, RECORDS):
                records = parse_fields.block(lines, self._names[RECORDS], number)
            ends = list(accumulate(map(len, lines), initial=end))
            yield from zip(records, ends, ends[1:], count(number))
            end, number = ends[-1], number + len(lines)

    def _stored(self, part: str) -> Iterator[Rows]:
        dtype = ROW if part == ANSWERS else CASE_ROW
        for (rows,) in self._database.execute("SELECT rows FROM chunks WHERE part = ? ORDER BY place", (part,)):
            yield np.frombuffer(rows, dtype=dtype)


def _batches(units: Iterable[UnitLines]) -> Iterator[list[UnitLines]]:
    batch, size = list[UnitLines](), 0
    for unit in units:
        batch.append(unit)
        size += len(unit.records)
        if size >= min(BATCH, CHUNK):
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _spans(unit: UnitLines) -> Iterator[tuple[str | int, ...]]:
    """Rows of the index by case."""
    first = 0
    for case, group in groupby(unit.records, attrgetter("case")):
        after = first + sum(1 for _ in group)
        yield RECORDS, hash_key(case.encode()), unit.offsets[first], unit.offsets[after], unit.number + first
        first = after


class _Units:
    """The units that are indexed, of which each counts once."""

    def __init__(self, known: Sequence[NDArray[np.int64]]) -> None:
        self._known = np.unique(np.concatenate(known)) if known else np.empty(0, np.int64)
        self._new: set[int] = set()

    def is_new(self, unit: str) -> bool:
        """True for a unit that was not indexed before, which is then."""
        key = hash_key(unit.encode(errors="replace"))
        place = int(np.searchsorted(self._known, key)) if len(self._known) else 0
        if key in self._new or (place < len(self._known) and self._known[place] == key):
            return False
        self._new.add(key)
        return True


class _ChunkWriter:
    """Collects rows and texts, and writes them as chunks."""

    def __init__(self, index: AnswerIndex, part: str) -> None:
        self._database, self._part = index._database, part
        self.names = index.names()
        self._rows: list[Rows] = []
        self._texts: list[bytes] = []

    def add(self, rows: Rows, texts: Sequence[str]) -> None:
        """Add rows with their texts in lower case."""
        self._rows.append(rows)
        self._texts.append(join_texts(texts))
        if sum(map(len, self._rows)) >= CHUNK:
            self.write()

    def write(self) -> None:
        """Write what was collected as a chunk, with the names that are new."""
        if self._rows:
            texts = b"".join(self._texts)
            ends = np.flatnonzero(np.frombuffer(texts, np.uint8) == 0) + 1
            content = ends.astype(np.uint32).tobytes() + texts
            query = "INSERT INTO chunks SELECT ?1, coalesce(max(place) + 1, 0), ?2, ?3 FROM chunks WHERE part = ?1"
            self._database.execute(query, (self._part, np.concatenate(self._rows).tobytes(), content))
            self._rows, self._texts = [], []
        self._database.executemany("INSERT INTO names VALUES (?, ?, ?)", self.names.new)
        self.names.new.clear()


def open_index(folder: Path) -> AnswerIndex:
    """Open the index of a run.

    Raises:
        BadData: the folder holds no run.
    """
    return AnswerIndex(folder, Manifest.read(folder).metrics)
