"""The files of a run: written a whole unit at a time, and read a line at a time, sound ones in a fifth of the time.

`msgspec` parses the lines of `records.jsonl`, of which there are a million, into objects with the fields of a record.
It refuses whatever it is not sure of: a field that it does not know, another type, a number that is none, half a
surrogate pair. `pydantic` reads such a line, or refuses it.
"""

import errno
import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Any, Generic, NamedTuple, Self, TypeVar, get_args

import msgspec
from pydantic import BaseModel, TypeAdapter

from emend.evals.case import Record
from emend.evals.log.lines import (
    BASELINE,
    CASES,
    COSTS,
    ERRORS,
    EVENTS,
    JUDGE_EVENTS,
    JUDGE_STEPS,
    JUDGEMENTS,
    RECORDS,
    SCHEMAS,
    BaselineLine,
    JudgementPlace,
    JudgeStepPlace,
    RecordHead,
    RecordPlace,
    complete_units,
    count_once,
    parser_of,
    record_head,
    warn_once,
)
from emend.memory.errors import BadData, RunRefused
from emend.memory.files import line_ends, open_file, replace_file
from emend.memory.json_files import BEGINNING, JsonLine, LinePlace, parse_lines, replace_surrogates
from emend.memory.redaction import hide_in_bytes

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

NO_NUMBER = "the value is not a finite number"
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_RECORD = parser_of(TypeAdapter(Record))


class LineParser(Generic[T]):
    """Parser of lines by `msgspec`, and by another function where it refuses.

    Args:
        schema: a type that `msgspec` knows.
        parse: reads a line that it refuses.
    """

    def __init__(self, schema: Any, parse: Callable[[bytes, str], T]) -> None:
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(schema).decode
        self._parse = parse

    def __call__(self, line: bytes, where: str) -> T:
        """Parse a line.

        Raises:
            BadData: it is damaged; names `where` and the field.
        """
        try:
            return self._decode(line)
        except _REFUSED:
            return self._parse(line, where)

    def block(self, lines: Sequence[bytes], name: str, number: int) -> list[T]:
        """Parse lines that follow each other.

        Args:
            lines: these.
            name: of their file, for an error.
            number: of the first one.

        Raises:
            BadData: one is damaged; names file, line and field.
        """
        try:
            return list(map(self._decode, lines))
        except _REFUSED:
            return [self(line, f"{name}, line {at}") for at, line in enumerate(lines, number)]


def struct_of(model: type[BaseModel]) -> type[msgspec.Struct]:
    """A struct with the fields and defaults of a model, for a `LineParser`; it does not know aliases of fields."""
    needed, further = list[Any](), list[Any]()  # fields without defaults come first
    for name, field in model.model_fields.items():
        kind = _converted(field.annotation)
        if field.is_required():
            needed.append((name, kind))
        else:
            default = field.get_default()
            further.append((name, kind, kind(**dict(default)) if isinstance(default, BaseModel) else default))
    strict = model.model_config.get("extra") == "forbid"
    return msgspec.defstruct(model.__name__, [*needed, *further], frozen=True, gc=False, forbid_unknown_fields=strict)


def _converted(kind: Any) -> Any:
    """The type of a field, with a struct in the place of a model, or of one of two types."""
    if isinstance(kind, UnionType):
        return reduce(or_, map(_converted, get_args(kind)))
    return struct_of(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else kind


def parse_record(line: bytes, where: str) -> Record:
    """Parse a record; a value that is no number has a reason in its place.

    Raises:
        BadData: it is damaged; names `where` and the field.
    """
    record = _RECORD(line, where)
    if all(map(math.isfinite, record.values.values())):
        return record
    values = {name: value for name, value in record.values.items() if math.isfinite(value)}
    reasons = dict.fromkeys(record.values.keys() - values, NO_NUMBER)
    return record.model_copy(update={"values": values, "unscored": record.unscored | reasons})


parse_fields = LineParser(struct_of(Record), parse_record)
"""Parses a record as `parse_record` does, into an object that has its fields and no methods."""
parse_head = LineParser(RecordHead, parser_of(TypeAdapter(RecordHead)))
LINE_KEYS: Mapping[str, tuple[LineParser[Any], str]] = {
    RECORDS: (LineParser(RecordPlace, parser_of(TypeAdapter(RecordPlace))), "case"),
    BASELINE: (LineParser(BaselineLine, parser_of(TypeAdapter(BaselineLine))), "probe"),
    JUDGEMENTS: (LineParser(JudgementPlace, parser_of(TypeAdapter(JudgementPlace))), "item"),
    JUDGE_EVENTS: (LineParser(JudgeStepPlace, parser_of(TypeAdapter(JudgeStepPlace))), "items"),
}
"""By file, or ending of a scoring's file, what parses its lines to find them again, and the field that names them."""
DAMAGED_RECORD = (
    "Restore the file; `emend resume {folder}` drops the line if it is the last one. Or start a new run in another "
    "folder."
)
"""What to do about a damaged record."""


class FileLine(NamedTuple):
    """A line with its offset, end and number."""

    content: bytes
    start: int
    end: int
    number: int


@contextmanager
def write_errors(what: str, remedy: str = "Make room, or give another folder.") -> Iterator[None]:
    """Report what keeps files from being written as one error.

    Raises:
        RunRefused: a full or failing disk, missing rights, a folder that was deleted meanwhile, an impossible name.
    """
    try:
        yield
    except OSError as error:
        raise RunRefused(f"cannot write {what}: {error.strerror or error}. {remedy}") from error


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Report why a file cannot be read as one error; that it does not exist is left to the caller.

    Raises:
        BadData: missing rights, a failing disk, an impossible name.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise BadData(f"cannot read '{path}': {error.strerror or error}.") from error


class AppendLog:
    """Appends whole lines to files of one folder, to all of them or to none; safe to call from many threads.

    Args:
        folder: where the files are.
        names: of the files.
        remedy: end of the error message of a full disk.

    Raises:
        BadData: one is no regular file.
        RunRefused: one cannot be written.
    """

    def __init__(self, folder: Path, names: Iterable[str], remedy: str) -> None:
        self.folder, self._remedy = folder, remedy
        self._lock = threading.RLock()
        with write_errors(f"to '{folder}'"):
            self._files = {name: open_file(folder / name, "ab", buffering=0) for name in names}

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
            sizes = {name: self._size(name) for name in contents}
            try:
                for name, content in contents.items():
                    with write_errors(f"{len(content)} bytes to '{self.folder / name}'", self._remedy):
                        view = memoryview(hide_in_bytes(content))
                        while view:  # unbuffered, so that a failed write leaves nothing behind to be written later
                            view = view[self._files[name].write(view) :]
            except BaseException:
                for grown, size in sizes.items():
                    os.ftruncate(self._files[grown].fileno(), size)
                raise

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the files between two appends."""
        with self._lock:
            return {name: self._size(name) for name in self._files}

    def _size(self, name: str) -> int:
        state = os.fstat(self._files[name].fileno())
        if not state.st_nlink:
            with write_errors(f"'{self.folder / name}'", "The folder was deleted meanwhile; what it held is lost."):
                raise FileNotFoundError(errno.ENOENT, "it is no longer there")
        return state.st_size


class RunLog(AppendLog):
    """Appends units to a run folder.

    A unit's events are written before its records, in the same order, so that a finished unit always has both.
    """

    def __init__(self, folder: Path) -> None:
        names = (RECORDS, EVENTS, ERRORS, BASELINE, COSTS)
        super().__init__(folder, names, f"All finished units are kept; make room, then: emend resume {folder}")
        self._baseline = open_file(folder / BASELINE)
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
        self.sync(self.unit_lines(*unit_lines(records, events)))

    def unit_lines(self, records: bytes, events: bytes) -> int:
        """Append the lines of a finished unit; return the number to give to `sync`."""
        with self._lock:
            self.append({EVENTS: events, RECORDS: records})
            self._written += 1
            return self._written

    def line(self, name: str, fields: dict[str, Any]) -> None:
        """Append a line to `errors.jsonl`, `costs.jsonl` or, for an event of the run itself, `events.jsonl`."""
        self.append({name: json_line(fields)})

    def baseline(self, line: bytes) -> int:
        """Append the line of an answer of the unedited model; return its offset."""
        with self._lock:
            offset = self._size(BASELINE)
            self.append({BASELINE: line})
        return offset

    def baseline_at(self, offset: int) -> bytes:
        """Read the answer at that offset, as JSON."""
        with self._lock:
            self._baseline.seek(offset)
            return self._baseline.readline()

    def sync(self, number: int) -> None:
        """Wait until the unit of that number is on the disk; units that come meanwhile share the next wait."""
        with self._sync_lock:
            if self._synced >= number:
                return
            written = self._written
            with write_errors(f"'{self.folder / RECORDS}' to the disk", self._remedy):
                os.fsync(self._files[RECORDS].fileno())
            self._synced = written


def unit_lines(records: Iterable[Record], events: Iterable[dict[str, Any]]) -> tuple[bytes, bytes]:
    """Format the lines of a unit: of its records, and of its events."""
    return b"".join(map(json_line, records)), b"".join(map(json_line, events))


def json_line(fields: Mapping[str, Any] | BaseModel) -> bytes:
    """Format one line of a file of JSON lines.

    What JSON cannot hold is written as text, and half surrogate pairs, which UTF-8 cannot hold, as U+FFFD.
    """
    return _json(fields) + b"\n"


def _json(fields: Mapping[str, Any] | BaseModel, indent: int | None = None) -> bytes:
    if isinstance(fields, BaseModel):
        try:
            return fields.model_dump_json(indent=indent).encode()
        except ValueError:
            fields = fields.model_dump()
    return replace_surrogates(json.dumps(fields, indent=indent, ensure_ascii=False, default=str)).encode()


def replace(path: Path, content: BaseModel | bytes) -> None:
    """Write a file so that no reader, and no crash, ever sees half of it; API keys are hidden.

    Raises:
        RunRefused: it cannot be written.
    """
    with write_errors(f"'{path}'"):
        replace_file(path, hide_in_bytes(content if isinstance(content, bytes) else _json(content, indent=1) + b"\n"))


def cut_file(path: Path, end: int | None = None) -> int:
    """Cut a file after so many bytes, or after its last whole line; return how many bytes were cut off.

    Raises:
        BadData: it is no regular file.
        RunRefused: it cannot be written.
    """
    with write_errors(f"'{path}'"), suppress(FileNotFoundError), open_file(path, "r+b") as file:
        if end is None:
            end = next(line_ends(file), 0)
        size = file.seek(0, os.SEEK_END)
        if size > end:
            file.truncate(end)
            return size - end
    return 0


def read_models(path: Path, model: type[M], remedy: str = "") -> Iterator[tuple[int, M]]:
    """Yield offset and content of each whole line; no file has none.

    Args:
        path: a file of JSON lines.
        model: of a line.
        remedy: end of the error message; without one, a line that cannot be read is left out with a warning.

    Raises:
        BadData: the file is no regular file, or a line cannot be read; names file, line and field.
    """
    return ((line.offset, line.fields) for line in read_parsed(path, parser_of(TypeAdapter(model)), remedy))


def read_parsed(
    path: Path, parse: Callable[[bytes, str], Any], remedy: str = "", start: LinePlace = BEGINNING
) -> Iterator[JsonLine]:
    """Yield each whole line from a place on as `read_models` does, by a function such as `parser_of` makes."""

    def refuse(error: BadData) -> None:
        raise BadData(f"{error} {remedy}") from error

    with read_errors(path):
        yield from parse_lines(path, refuse if remedy else _leave_out, parse=parse, start=start)


def read_model(path: Path, model: type[M], remedy: str) -> M:
    """Read a file of one JSON object.

    Raises:
        BadData: the file is no regular file, or does not fit the model; names file and field.
        FileNotFoundError: there is none.
        NotADirectoryError: its folder is a file.
    """
    with read_errors(path), open_file(path) as file:
        content = file.read()
    try:
        return parser_of(TypeAdapter(model))(content, str(path))
    except BadData as error:
        raise BadData(f"{error} {remedy}") from error


def read_records(folder: Path, parse: Callable[[bytes, str], Record] = parse_record) -> Iterator[Record]:
    """Yield the records of all units that are complete, in the order in which they were written.

    Args:
        folder: a run folder.
        parse: function of a line; `parse_fields` takes a fifth of the time, for callers that read fields alone.

    Raises:
        BadData: there is no file, or a line that is not at the torn end cannot be read; names file, line and field.
    """
    require_records(folder)
    path = folder / RECORDS
    lines = read_parsed(path, parse, DAMAGED_RECORD.format(folder=folder))
    yield from count_once(complete_units((line.fields for line in lines), record_head), path)


def require_records(folder: Path) -> None:
    """Check that a run folder has a file of records.

    Raises:
        BadData: it has none.
    """
    if not (folder / RECORDS).exists():
        raise BadData(f"'{folder}' has no {RECORDS}: restore it, or make the records with: emend resume {folder}")


def read_lines(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file such as `events.jsonl`, `errors.jsonl` or `costs.jsonl`, by the schema of its name.

    A torn last line is left out, and so is, with a warning, another one that cannot be read.

    Raises:
        BadData: a line of `cases.jsonl` cannot be read, since without it cases have wrong numbers.
    """
    return (line.fields for line in read_json_lines(folder, name))


def read_json_lines(folder: Path, name: str, start: LinePlace = BEGINNING) -> Iterator[JsonLine]:
    """Yield lines as `read_lines` does, from a place on, with their places."""
    schema: TypeAdapter[Any] = SCHEMAS.get(name, JUDGE_STEPS)
    path = folder / name
    with read_errors(path):
        yield from parse_lines(path, None if name == CASES else _leave_out, parse=parser_of(schema), start=start)


def parse_sound(lines: Iterable[FileLine], parse: Callable[[bytes, str], T], path: Path) -> Iterator[T]:
    """Yield what single lines of a file hold; one that cannot be read is left out with a warning."""
    for line in lines:
        try:
            yield parse(line.content, f"{path}, line {line.number}")
        except BadData as error:
            _leave_out(error)


def _leave_out(error: BadData) -> None:
    warn_once(f"{error} What is shown lacks it.")
