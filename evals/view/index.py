"""Index of a run's answers: a row of numbers for each record, by which a million of them are filtered in milliseconds.

It is a further part of the run's index by case and unit, so it is kept, continued and made anew like that one.
"""

import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from emend.evals.case import Metric
from emend.evals.log.lines import CASES, RECORDS, CaseLine, parser_of
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import DAMAGED_RECORD
from emend.evals.log.run_index import RunIndex, hash_key, read_span
from emend.evals.trace.answers import VERDICTS, deciding_scores, verdict_of
from emend.memory.errors import BadData

ANSWERS, ANSWER_CASES = "answers", "answer cases"
"""Names of the index's parts, which are about `records.jsonl` and `cases.jsonl`."""
LARGE = 2**20
CHUNK = 2**16
"""Number of answers in a chunk, whose size bounds the memory while an index is made."""
MAX_NAMES = 2**16 - 1
"""Number of distinct names of a kind; further ones have this number, and are not filtered by."""
RIGHT, WRONG, UNSCORED = range(3)
LACKS_SCORE, RETRIED, CUT, MISSED, FOUND = 1, 2, 4, 8, 16
"""Flags of an answer: a value is unscored, a call was retried, the prompt was cut, and whether `hit@1` is 0 or 1."""
HIT = "hit@1"
ROW = np.dtype(
    [
        ("case", "i8"),
        ("unit", "i8"),
        ("probe", "i8"),
        ("start", "i8"),
        ("seconds", "f4"),
        ("tokens", "u4"),
        ("checkpoint", "u4"),
        ("repeat", "u2"),
        ("editor", "u2"),
        ("kind", "u2"),
        ("setting", "u2"),
        ("tags", "u2"),
        ("verdict", "u1"),
        ("flags", "u1"),
    ]
)
CASE_ROW = np.dtype([("case", "i8"), ("start", "i8"), ("number", "u4"), ("setting", "u2"), ("tags", "u2")])
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS chunks (part TEXT, place INTEGER, rows BLOB, texts BLOB, PRIMARY KEY (part, place))",
    "CREATE TABLE IF NOT EXISTS names (kind TEXT, place INTEGER, name TEXT, PRIMARY KEY (kind, place))",
)
Rows = NDArray[np.void]


class _UsageFields(TypedDict, total=False):
    input_tokens: int
    output_tokens: int
    retries: int


class AnswerLine(TypedDict, total=False):
    """The fields of a record that are indexed; those that a record always has are read without a default."""

    unit: str
    of: int
    case: str
    probe: str
    kind: str
    editor: str
    setting: str
    repeat: int
    checkpoint: int
    prompt: str
    gold: list[str]
    rival: str | None
    answer: str | None
    reply: str | None
    values: dict[str, float]
    unscored: dict[str, str]
    cut_tokens: int
    usage: _UsageFields
    seconds: float
    tags: dict[str, str | int | float | bool]


_PARSE = parser_of(TypeAdapter(AnswerLine))
_PARSE_CASE = parser_of(TypeAdapter(CaseLine))
_NONE: Mapping[str, Any] = {}
_VERDICTS = {name: place for place, name in enumerate(VERDICTS)}
_NEEDED = itemgetter("unit", "of", "case", "probe", "kind", "editor", "setting", "prompt", "gold")


class Names:
    """Numbers for the names of editors, kinds, settings and sets of tags, in the order in which they came."""

    def __init__(self, rows: Sequence[tuple[str, int, str]] = ()) -> None:
        self.by_kind: dict[str, list[str]] = {"editor": [], "kind": [], "setting": [], "tags": []}
        self._places: dict[tuple[str, str], int] = {}
        self.new: list[tuple[str, int, str]] = []
        for kind, _, name in rows:
            self._add(kind, name)

    def __getitem__(self, kind: str) -> list[str]:
        return self.by_kind[kind]

    def place(self, kind: str, name: str) -> int:
        """Number of a name, which is added if it is new."""
        place = self._places.get((kind, name))
        if place is None:
            if len(self.by_kind[kind]) >= MAX_NAMES:
                return MAX_NAMES
            place = self._add(kind, name)
            self.new.append((kind, place, name))
        return place

    def _add(self, kind: str, name: str) -> int:
        place = self._places[kind, name] = len(self.by_kind[kind])
        self.by_kind[kind].append(name)
        return place


class AnswerIndex(RunIndex):
    """The index of a run, with its answers; a context manager.

    Args:
        folder: a run folder.
        metrics: of the run, which decide what is right.
        large: size in bytes of a run from which on its index is kept.
    """

    def __init__(self, folder: Path, metrics: Sequence[Metric], large: int = LARGE) -> None:
        super().__init__(folder, large)
        self._metrics = metrics
        for part, name in ((ANSWER_CASES, CASES), (ANSWERS, RECORDS)):
            self._paths[part] = folder / name
            self._names[part] = str(folder / name)
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

    def _add(self, name: str, end: int, lines: int) -> tuple[int, int]:
        if name not in (ANSWERS, ANSWER_CASES):
            return super()._add(name, end, lines)
        writer = _ChunkWriter(self, name)
        if name == ANSWERS:
            known = [rows["unit"] for rows in self._stored(name)]
            end, lines = self._add_answers(writer, _Units(known), end, lines)
        else:
            for line in read_span(self._files[name], end, lines + 1):
                fields = _PARSE_CASE(line.content, self._where(name, line.number))
                writer.add_case(fields, line.start)
                end, lines = line.end, line.number
        writer.write()
        return end, lines

    def _stored(self, part: str) -> Iterator[Rows]:
        dtype = ROW if part == ANSWERS else CASE_ROW
        for (rows,) in self._database.execute("SELECT rows FROM chunks WHERE part = ? ORDER BY place", (part,)):
            yield np.frombuffer(rows, dtype=dtype)

    def _add_answers(self, writer: "_ChunkWriter", units: "_Units", end: int, lines: int) -> tuple[int, int]:
        """Index the answers of complete units, as `complete_units` yields them; return the end of the last one."""
        unit: list[tuple[Mapping[str, Any], int]] = []
        for line in read_span(self._files[ANSWERS], end, lines + 1):
            try:
                fields = _PARSE(line.content, self._where(ANSWERS, line.number))
                key, of, *_ = _NEEDED(fields)
            except (BadData, KeyError) as error:
                what = error if isinstance(error, BadData) else f"{self._where(ANSWERS, line.number)} lacks {error}."
                raise BadData(f"{what} {DAMAGED_RECORD.format(folder=self.folder)}") from error
            if unit and unit[0][0]["unit"] != key:
                unit = []
            unit.append((fields, line.start))
            if len(unit) >= of:
                if units.is_new(key):
                    writer.add_unit(unit, self._metrics)
                unit, end, lines = [], line.end, line.number
        return end, lines


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
        self._names = index.names()
        self._dtype = ROW if part == ANSWERS else CASE_ROW
        self._deciding: dict[str, tuple[str, ...]] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._texts: list[bytes] = []

    def add_unit(self, unit: Sequence[tuple[Mapping[str, Any], int]], metrics: Sequence[Metric]) -> None:
        """Add the answers of a unit."""
        first, place = unit[0][0], self._names.place
        key = hash_key(first["unit"].encode(errors="replace"))
        case, setting = case_hash(first["setting"], first["case"]), place("setting", first["setting"])
        head = case, key, setting, place("editor", first["editor"])  # which all lines of a unit share
        self._rows += [self._row(fields, start, head, metrics) for fields, start in unit]
        self._texts += [_text_of(fields) for fields, _ in unit]
        if len(self._rows) >= CHUNK:
            self.write()

    def add_case(self, fields: Mapping[str, Any], start: int) -> None:
        """Add a case."""
        tags = self._names.place("tags", tags_text(fields.get("tags", {})))
        setting = self._names.place("setting", fields["setting"])
        self._rows.append((case_hash(fields["setting"], fields["case"]), start, fields["number"], setting, tags))
        self._texts.append(" ".join(str(edit["text"]) for edit in fields["edits"]).casefold().encode(errors="replace"))
        if len(self._rows) >= CHUNK:
            self.write()

    def _row(
        self, fields: Mapping[str, Any], start: int, head: tuple[int, ...], metrics: Sequence[Metric]
    ) -> tuple[Any, ...]:
        values, unscored, usage = fields.get("values", _NONE), fields.get("unscored", _NONE), fields.get("usage", _NONE)
        if not math.isfinite(sum(values.values())):
            unscored = unscored | {name: "" for name, value in values.items() if not math.isfinite(value)}
            values = {name: value for name, value in values.items() if name not in unscored}
        kind, hit, tags = fields["kind"], values.get(HIT), fields.get("tags")
        if kind not in self._deciding:
            self._deciding[kind] = deciding_scores(metrics, kind)
        verdict, _ = verdict_of(self._deciding[kind], values, unscored)
        flags = LACKS_SCORE if unscored else 0
        flags |= RETRIED if usage.get("retries", 0) > 0 else 0
        flags |= CUT if fields.get("cut_tokens", 0) > 0 else 0
        flags |= 0 if hit is None else FOUND if hit >= 1 else MISSED
        case, unit, setting, editor = head
        return (
            case,
            unit,
            hash_key(fields["probe"].encode(errors="replace")),
            start,
            fields.get("seconds", 0.0),
            min(2**32 - 1, max(0, usage.get("input_tokens", 0) + usage.get("output_tokens", 0))),
            min(2**32 - 1, max(0, fields.get("checkpoint", 0))),
            min(2**16 - 1, max(0, fields.get("repeat", 0))),
            editor,
            self._names.place("kind", kind),
            setting,
            self._names.place("tags", tags_text(tags) if tags else ""),
            _VERDICTS[verdict],
            flags,
        )

    def write(self) -> None:
        """Write what was collected as a chunk, with the names that are new."""
        if self._rows:
            ends = np.cumsum([len(text) + 1 for text in self._texts], dtype=np.uint32).tobytes()
            texts = ends + b"\0".join(self._texts) + b"\0"
            rows = np.array(self._rows, dtype=self._dtype).tobytes()
            query = "INSERT INTO chunks SELECT ?1, coalesce(max(place) + 1, 0), ?2, ?3 FROM chunks WHERE part = ?1"
            self._database.execute(query, (self._part, rows, texts))
            self._rows, self._texts = [], []
        self._database.executemany("INSERT INTO names VALUES (?, ?, ?)", self._names.new)
        self._names.new = []


def case_hash(setting: str, case: str) -> int:
    """Number by which a case of a setting is found."""
    return hash_key(f"{setting}\0{case}".encode(errors="replace"))


def tags_text(tags: Mapping[str, Any]) -> str:
    """Tags as lines of `name=value`."""
    return "\n".join(f"{name}={value}" for name, value in tags.items())


def _text_of(fields: Mapping[str, Any]) -> bytes:
    """The texts of a record in lower case, those of `texts_of`."""
    texts = [fields["prompt"], *fields["gold"]]
    texts += [text for name in ("rival", "answer", "reply") if (text := fields.get(name))]
    if unscored := fields.get("unscored"):
        texts += unscored.values()
    return "\n".join(texts).casefold().replace("\0", " ").encode(errors="replace")


def open_index(folder: Path) -> AnswerIndex:
    """Open the index of a run.

    Raises:
        BadData: the folder holds no run.
    """
    return AnswerIndex(folder, Manifest.read(folder).metrics)
