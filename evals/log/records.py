"""The files of a run: whole units are written atomically, and lines are read with a fast parser.

`msgspec` parses the lines of `records.jsonl`, of which there may be a million, into objects with
the fields of a record, in a fifth of the time of `pydantic`. It rejects unknown fields, wrong
types, non-finite numbers and lone surrogates; `pydantic` then parses or rejects such a line.
"""

import errno
import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel, TypeAdapter

from emend.evals.case import Record
from emend.evals.log.former_tags import convert_tags
from emend.evals.log.line_parser import LineParser, T, struct_of
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
    SCORING_EVENTS,
    SCORING_RECORDS,
    BaselineLine,
    JudgementPlace,
    JudgeStepPlace,
    RecordHead,
    RecordPlace,
    UnitLine,
    UnitPlace,
    complete_units,
    parser_of,
    record_head,
    warn_once,
)
from emend.memory.errors import BadData, RunRefused
from emend.memory.files import line_ends, open_file, read_file, replace_file
from emend.memory.json_files import (
    BEGINNING,
    JsonLine,
    LinePlace,
    parse_lines,
    parse_object,
    replace_surrogates,
)
from emend.memory.redaction import hide_in_bytes

M = TypeVar("M", bound=BaseModel)
L = TypeVar("L", bound=UnitLine)

NO_NUMBER = "the value is not a finite number"
_RECORD = parser_of(TypeAdapter(Record))
# Marks lines of jobs other than an evaluation; inside a text it would be escaped.
JOB_FIELD = b'"job":'


def parse_record(line: bytes, where: str) -> Record:
    """Parse a record; a value that is not a number becomes unscored with a reason, and tags of
    earlier versions become fields, see `convert_tags`.

    A line of another job, see `JobLine`, is read as a record with the common fields.

    Raises:
        BadData: it is damaged; names `where` and the field.
    """
    shared = _shared_fields(line, where) if JOB_FIELD in line else None
    record = convert_tags(_RECORD(line if shared is None else shared, where), where)
    if all(map(math.isfinite, record.values.values())):
        return record
    values = {name: value for name, value in record.values.items() if math.isfinite(value)}
    reasons = dict.fromkeys(record.values.keys() - values, NO_NUMBER)
    return record.model_copy(update={"values": values, "unscored": record.unscored | reasons})


def _shared_fields(line: bytes, where: str) -> bytes | None:
    """Return the line of another job without its own fields; None for a line without a job.

    Raises:
        BadData: it is no JSON object.
    """
    fields = parse_object(line, where)
    if "job" not in fields:
        return None
    shared = {name: fields[name] for name in Record.model_fields if name in fields}
    return json_line({"prompt": "", "gold": (), **shared})


# Parses a record as `parse_record` does, into an object with its fields but without methods.
parse_fields = LineParser(struct_of(Record), parse_record)
parse_head = LineParser(RecordHead, parser_of(TypeAdapter(RecordHead)))
_PLACES = LineParser(RecordPlace, parser_of(TypeAdapter(RecordPlace)))
# By file name or suffix: the parser for indexing its lines, and the field with their key.
LINE_KEYS: Mapping[str, tuple[LineParser[Any], str]] = {
    RECORDS: (_PLACES, "case"),
    SCORING_RECORDS: (_PLACES, "case"),
    SCORING_EVENTS: (LineParser(UnitPlace, parser_of(TypeAdapter(UnitPlace))), "unit"),
    BASELINE: (LineParser(BaselineLine, parser_of(TypeAdapter(BaselineLine))), "probe"),
    JUDGEMENTS: (LineParser(JudgementPlace, parser_of(TypeAdapter(JudgementPlace))), "item"),
    JUDGE_EVENTS: (LineParser(JudgeStepPlace, parser_of(TypeAdapter(JudgeStepPlace))), "items"),
}
# Remedy for a damaged record.
DAMAGED_RECORD = (
    "Restore the file; `emend resume {folder}` drops the line if it is the last one. Or start a "
    "new run in another folder."
)


class FileLine(NamedTuple):
    """A line with its offset, end and number."""

    content: bytes
    start: int
    end: int
    number: int


@contextmanager
def write_errors(what: str, remedy: str = "Make room, or give another folder.") -> Iterator[None]:
    """Convert errors that prevent writing files into `RunRefused`.

    Raises:
        RunRefused: a full or failing disk, missing permissions, a deleted folder, or an invalid
            name.
    """
    try:
        yield
    except OSError as error:
        raise RunRefused(f"cannot write {what}: {error.strerror or error}. {remedy}") from error


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Convert errors that prevent reading a file into `BadData`; a missing file is left to the
    caller.

    Raises:
        BadData: missing permissions, a failing disk, or an invalid name.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise BadData(f"cannot read '{path}': {error.strerror or error}.") from error


class AppendLog:
    """Appends whole lines to several files of a folder atomically; thread-safe.

    Args:
        folder: where the files are.
        names: the files' names.
        remedy: last sentence of the error for a full disk.

    Raises:
        BadData: a file is not a regular file.
        RunRefused: a file cannot be written.
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
            with suppress(OSError):  # the error of a full disk is already being raised
                file.close()

    def append(self, contents: Mapping[str, bytes]) -> None:
        """Append to each file in order, redacting API keys.

        Raises:
            RunRefused: the disk is full or failing; no partial line is left in the files.
        """
        with self._lock:
            sizes = {name: self._size(name) for name in contents}
            try:
                for name, content in contents.items():
                    with write_errors(
                        f"{len(content)} bytes to '{self.folder / name}'", self._remedy
                    ):
                        view = memoryview(hide_in_bytes(content))
                        # unbuffered, so that nothing of a failed write is written later
                        while view:
                            view = view[self._files[name].write(view) :]
            except BaseException:
                for grown, size in sizes.items():
                    os.ftruncate(self._files[grown].fileno(), size)
                raise

    def sizes(self) -> dict[str, int]:
        """Return consistent sizes of the files, between two appends."""
        with self._lock:
            return {name: self._size(name) for name in self._files}

    def _size(self, name: str) -> int:
        state = os.fstat(self._files[name].fileno())
        if not state.st_nlink:
            with write_errors(
                f"'{self.folder / name}'",
                "The folder was deleted meanwhile; its contents are lost.",
            ):
                raise FileNotFoundError(errno.ENOENT, "it no longer exists")
        return state.st_size


class RunLog(AppendLog):
    """Appends units to a run folder.

    A unit's events are written before its records, in the same order, so that a finished unit
    always has both.
    """

    def __init__(self, folder: Path, resume_command: str = "") -> None:
        names = (RECORDS, EVENTS, ERRORS, BASELINE, COSTS)
        command = resume_command or f"emend resume {folder}"
        super().__init__(folder, names, f"All finished units are kept; make room, then: {command}")
        self._baseline = open_file(folder / BASELINE)
        self._sync_lock = threading.Lock()
        self._written = self._synced = 0
        """Units that are in the files, and those of them that are surely on the disk."""

    def __exit__(self, *error: object) -> None:
        self._baseline.close()
        super().__exit__(*error)

    def unit(self, records: Iterable[BaseModel], events: Iterable[dict[str, Any]]) -> None:
        """Append all lines of a finished unit.

        Raises:
            RunRefused: the disk is full or failing; no partial line is left in the files.
        """
        self.sync(self.unit_lines(*unit_lines(records, events)))

    def unit_lines(self, records: bytes, events: bytes) -> int:
        """Append the lines of a finished unit; return the number for `sync`."""
        with self._lock:
            self.append({EVENTS: events, RECORDS: records})
            self._written += 1
            return self._written

    def line(self, name: str, fields: dict[str, Any]) -> None:
        """Append a line to `errors.jsonl`, `costs.jsonl` or, for an event of the run itself,
        `events.jsonl`.
        """
        self.append({name: json_line(fields)})

    def baseline(self, line: bytes) -> int:
        """Append the line of an unedited model's answer; return its offset."""
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
        """Wait until the unit of that number is on the disk; units that arrive during the wait
        share the next one.
        """
        with self._sync_lock:
            if self._synced >= number:
                return
            written = self._written
            with write_errors(f"'{self.folder / RECORDS}' to the disk", self._remedy):
                os.fsync(self._files[RECORDS].fileno())
            self._synced = written


def unit_lines(
    records: Iterable[BaseModel], events: Iterable[dict[str, Any]]
) -> tuple[bytes, bytes]:
    """Format the lines of a unit's records and events."""
    return b"".join(map(json_line, records)), b"".join(map(json_line, events))


def json_line(fields: Mapping[str, Any] | BaseModel) -> bytes:
    """Format one line of a file of JSON lines.

    Values that JSON cannot represent are written as text, and lone surrogates, which UTF-8 cannot
    encode, as U+FFFD.
    """
    return _json(fields) + b"\n"


def _json(fields: Mapping[str, Any] | BaseModel, indent: int | None = None) -> bytes:
    if isinstance(fields, BaseModel):
        try:
            return fields.model_dump_json(indent=indent).encode()
        except ValueError:
            fields = fields.model_dump()
    return replace_surrogates(
        json.dumps(fields, indent=indent, ensure_ascii=False, default=str)
    ).encode()


def replace(path: Path, content: BaseModel | bytes) -> None:
    """Write a file atomically, redacting API keys.

    Raises:
        RunRefused: it cannot be written.
    """
    with write_errors(f"'{path}'"):
        replace_file(
            path,
            hide_in_bytes(
                content if isinstance(content, bytes) else _json(content, indent=1) + b"\n"
            ),
        )


def cut_file(path: Path, end: int | None = None) -> int:
    """Truncate a file at an offset, or after its last whole line; return the number of removed
    bytes.

    Raises:
        BadData: it is not a regular file.
        RunRefused: it cannot be written.
    """
    with write_errors(f"'{path}'"), suppress(FileNotFoundError), open_file(path, "r+b") as file:
        # before the last line is looked for, so that no line that is appended meanwhile is removed
        size = file.seek(0, os.SEEK_END)
        if end is None:
            end = next(line_ends(file), 0)
        if size > end:
            file.truncate(end)
            return size - end
    return 0


def read_models(path: Path, model: type[M], remedy: str = "") -> Iterator[tuple[int, M]]:
    """Yield offset and content of each whole line; none if the file is missing.

    Args:
        path: a file of JSON lines.
        model: the model of a line.
        remedy: last sentence of the error; if empty, unreadable lines are skipped with a warning.

    Raises:
        BadData: the file is not a regular file, or a line is unreadable; names file, line and
            field.
    """
    return (
        (line.offset, line.fields)
        for line in read_parsed(path, parser_of(TypeAdapter(model)), remedy)
    )


def read_parsed(
    path: Path, parse: Callable[[bytes, str], Any], remedy: str = ""
) -> Iterator[JsonLine]:
    """Yield each whole line like `read_models`, parsed by a function like those of `parser_of`."""

    def refuse(error: BadData) -> None:
        raise BadData(f"{error} {remedy}") from error

    with read_errors(path):
        yield from parse_lines(path, refuse if remedy else _leave_out, parse=parse)


def read_model(path: Path, model: type[M], remedy: str) -> M:
    """Read a file that contains one JSON object.

    Raises:
        BadData: the file is not a regular file, is too large, or violates the model; names file and
            field.
        FileNotFoundError: there is none.
        NotADirectoryError: its folder is a file.
    """
    with read_errors(path):
        content = read_file(path, is_small=True)
    try:
        return parser_of(TypeAdapter(model))(content, str(path))
    except BadData as error:
        raise BadData(f"{error} {remedy}") from error


def read_records(
    folder: Path, parse: Callable[[bytes, str], Record] = parse_record
) -> Iterator[Record]:
    """Yield the records of all complete units, in the order of writing.

    Args:
        folder: a run folder.
        parse: the line parser; `parse_fields` takes a fifth of the time, for callers that only read
            fields.

    Lines of other jobs without an answer, whose `probe` is empty, are skipped.

    Raises:
        BadData: there is no file, or a line that is not at the torn end cannot be read; names file,
            line and field.
    """
    require_records(folder)
    path = folder / RECORDS
    lines = read_parsed(path, parse, DAMAGED_RECORD.format(folder=folder))
    units = complete_units((line.fields for line in lines), record_head)
    yield from (record for record in chain.from_iterable(units) if record.probe)


def read_job_lines(folder: Path, model: type[L], remedy: str = DAMAGED_RECORD) -> Iterator[L]:
    """Yield the lines of all complete units of a job, in the order of writing.

    Args:
        folder: a run folder of the job.
        model: the lines' model, a `JobLine`.
        remedy: last sentence of the error, in which `{folder}` is replaced by the folder.

    Raises:
        BadData: there is no file, or a line that is not at the torn end cannot be read; names file,
            line and field.
    """
    require_records(folder)
    path = folder / RECORDS
    lines = read_parsed(path, parser_of(TypeAdapter(model)), remedy.format(folder=folder))
    yield from chain.from_iterable(complete_units((line.fields for line in lines), record_head))


def require_records(folder: Path) -> None:
    """Check that a run folder has a file of records.

    Raises:
        BadData: the folder has no records.
    """
    if not (folder / RECORDS).exists():
        raise BadData(
            f"'{folder}' has no {RECORDS}: restore it, or create the records with: emend resume "
            f"{folder}"
        )


def read_lines(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file such as `events.jsonl`, `errors.jsonl` or `costs.jsonl`, by the
    schema of its name.

    A torn last line is skipped; other unreadable lines are skipped with a warning.

    Raises:
        BadData: a line of `cases.jsonl` is unreadable; skipping it would shift the numbers of
            cases.
    """
    return (line.fields for line in read_json_lines(folder, name))


def read_json_lines(folder: Path, name: str, start: LinePlace = BEGINNING) -> Iterator[JsonLine]:
    """Yield lines like `read_lines`, from a position on, with their positions."""
    schema: TypeAdapter[Any] = SCHEMAS.get(name, JUDGE_STEPS)
    path = folder / name
    with read_errors(path):
        yield from parse_lines(
            path, None if name == CASES else _leave_out, parse=parser_of(schema), start=start
        )


def parse_sound(
    lines: Iterable[FileLine], parse: Callable[[bytes, str], T], path: Path
) -> Iterator[T]:
    """Yield the parsed lines of a file; unreadable lines are skipped with a warning."""
    for line in lines:
        try:
            yield parse(line.content, f"{path}, line {line.number}")
        except BadData as error:
            _leave_out(error)


def _leave_out(error: BadData) -> None:
    warn_once(f"{error} The output does not include it.")
