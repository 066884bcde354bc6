"""Sources of tables: the files, the lines that become rows, and the column types."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from emend.evals.case import Record
from emend.evals.log.line_parser import LineParser
from emend.evals.log.lines import (
    CASES,
    ERRORS,
    EVENTS,
    RECORDS,
    SCHEMAS,
    complete_units,
    parser_of,
    record_head,
)
from emend.evals.log.records import json_line, parse_fields, read_errors, read_json_lines
from emend.evals.log.run_index import damage, read_blocks
from emend.memory.errors import BadData
from emend.memory.files import open_lines
from emend.memory.json_files import LinePlace

TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}
# Columns whose field name is an SQL keyword.
NAMES = {"case": "case_id"}


def json_columns(model: type[BaseModel]) -> dict[str, str]:
    """Return the types of a model's fields by JSON name."""
    return {name: column_type(field.annotation) for name, field in model.model_fields.items()}


def table_columns(model: type[BaseModel]) -> list[str]:
    """Return column expressions: one per field, including fields of nested models."""
    return [
        column for name, field in model.model_fields.items() for column in _columns(name, field)
    ]


def _columns(name: str, field: FieldInfo) -> Iterator[str]:
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for inner, part in kind.model_fields.items():
            yield (
                f"coalesce({quoted(name)}.{quoted(inner)}, {_default(part)}) AS "
                f"{quoted(f'{name}_{inner}')}"
            )
        return
    yield f"coalesce({quoted(name)}, {_default(field)}) AS {quoted(NAMES.get(name, name))}"


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if isinstance(default, bool | int | float):
        return str(default)
    if isinstance(default, str):
        return text(default)
    if isinstance(default, tuple):
        return f"[]::{column_type(field.annotation)}"
    if isinstance(default, dict):
        kind = column_type(field.annotation)
        return f"MAP {{}}::{kind}" if kind.startswith("MAP") else f"'{{}}'::{kind}"
    return f"NULL::{column_type(field.annotation)}"


def column_type(kind: Any) -> str:
    """Return the DuckDB type for a field's type; JSON for unions."""
    origin, args = get_origin(kind), get_args(kind)
    if kind in TYPES:
        return TYPES[kind]
    if origin in (Union, UnionType):
        inner = [arg for arg in args if arg is not type(None)]
        return column_type(inner[0]) if len(inner) == 1 else "JSON"
    if origin is Literal and all(isinstance(word, str) for word in args):
        return "VARCHAR"
    if origin is tuple:
        return f"{column_type(args[0])}[]"
    if origin is dict and args[1] in TYPES:
        return f"MAP(VARCHAR, {TYPES[args[1]]})"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        parts = (
            f"{quoted(name)} {column_type(field.annotation)}"
            for name, field in kind.model_fields.items()
        )
        return f"STRUCT({', '.join(parts)})"
    return "JSON"


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Quote a text for SQL."""
    return "'" + value.replace("'", "''") + "'"


class TableRows(NamedTuple):
    """Rows as JSON, with the start and end offset and the number of each row's line."""

    rows: Sequence[bytes]
    starts: Sequence[int]
    ends: Sequence[int]
    numbers: Sequence[int]


class TableSource(NamedTuple):
    """A table: its file, JSON field types, columns, and a function that yields rows."""

    table: str
    file: str
    fields: Mapping[str, str]
    columns: Sequence[str]
    rows: Callable[[Path, LinePlace], Iterator[TableRows]]


class _Block(NamedTuple):
    """Consecutive lines with their parsed values, start offsets, the end offset of the last one,
    and line numbers.
    """

    lines: list[bytes]
    parsed: list[Any]
    bounds: list[int]
    numbers: range


def _read_blocks(
    folder: Path, name: str, parser: LineParser[Any], start: LinePlace
) -> Iterator[_Block]:
    """Yield the lines of a file from a position on.

    Raises:
        BadData: a line cannot be read; names file, line and field.
    """
    path, (end, number) = folder / name, start
    with read_errors(path), open_lines(path) as file:
        for lines in filter(None, read_blocks(file, end)):
            with damage(folder, name):
                parsed = parser.block(lines, str(path), number + 1)
            bounds = list(accumulate(map(len, lines), initial=end))
            yield _Block(lines, parsed, bounds, range(number + 1, number + len(lines) + 1))
            end, number = bounds[-1], number + len(lines)


# A line of a file: its content, parsed value, start and end offset, and number.
_Line = tuple[bytes, Any, int, int, int]


def _chosen_lines(
    folder: Path, start: LinePlace, are_answers: bool = True
) -> Iterator[list[_Line]]:
    """Yield the lines of each complete unit from a position on: the lines with an answer, or the
    preceding ones without.
    """
    blocks = _read_blocks(folder, RECORDS, parse_fields, start)
    lines: Iterator[_Line] = chain.from_iterable(
        zip(each.lines, each.parsed, each.bounds[:-1], each.bounds[1:], each.numbers, strict=True)
        for each in blocks
    )
    for unit in complete_units(lines, lambda line: record_head(line[1])):
        if chosen := [line for line in unit if bool(line[1].probe) == are_answers]:
            yield chosen


def _record_rows(folder: Path, start: LinePlace) -> Iterator[TableRows]:
    """Yield the records of complete units from a position on."""
    for answers in _chosen_lines(folder, start):
        contents, parsed, starts, ends, numbers = zip(*answers, strict=True)
        rows = [
            json_line(record) if isinstance(record, Record) else content
            for content, record in zip(contents, parsed, strict=True)
        ]
        yield TableRows(rows, starts, ends, numbers)


RECORD_SOURCE = TableSource(
    "record_lines", RECORDS, json_columns(Record), table_columns(Record), _record_rows
)


def job_source(table: str, model: type[BaseModel], is_answer: bool) -> TableSource:
    """Make the source of a table that has a row for each line of another job.

    Args:
        table: name of the table.
        model: type of the lines.
        is_answer: whether lines count that answer something, or those with an empty `probe`.
    """
    parse = parser_of(TypeAdapter(model))

    def rows(folder: Path, start: LinePlace) -> Iterator[TableRows]:
        path = folder / RECORDS
        for lines in _chosen_lines(folder, start, is_answer):
            contents, _, starts, ends, numbers = zip(*lines, strict=True)
            places = [f"{path}, line {number}" for number in numbers]
            with damage(folder, RECORDS):
                parsed = list(map(parse, contents, places))
            yield TableRows(list(map(json_line, parsed)), starts, ends, numbers)

    return TableSource(table, RECORDS, json_columns(model), table_columns(model), rows)


CASE_COLUMNS = {
    "number": "BIGINT",
    "setting": "VARCHAR",
    "case": "VARCHAR",
    "tags": "JSON",
    "edits": "STRUCT(id VARCHAR, form VARCHAR, text VARCHAR, subject VARCHAR, target_new VARCHAR, "
    "target_true VARCHAR)[]",
}
ERROR_COLUMNS = dict.fromkeys(
    ("unit", "case", "probe", "editor", "setting", "error", "message", "at"), "VARCHAR"
)


def _line_source(table: str, name: str, fields: Mapping[str, str]) -> TableSource:
    """Return the source of a table with one row per line of a file."""

    def rows(folder: Path, start: LinePlace) -> Iterator[TableRows]:
        for line in read_json_lines(folder, name, start):
            yield TableRows([json_line(line.fields)], [line.offset], [line.end], [line.number])

    columns = [f"{quoted(field)} AS {quoted(NAMES.get(field, field))}" for field in fields]
    return TableSource(table, name, fields, columns, rows)


CASE_SOURCE = _line_source("case_lines", CASES, CASE_COLUMNS)
ERROR_SOURCE = _line_source("error_lines", ERRORS, ERROR_COLUMNS)


class _RetryFields(msgspec.Struct):
    error: str = ""


class _CallFields(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    retries: list[_RetryFields] = []


class _StepFields(msgspec.Struct):
    """Fields of a step for statistics; an event of the run itself has none of them."""

    unit: str = ""
    probe: str = ""
    node: str = ""
    ms: float | None = None
    error: str | None = None
    calls: list[_CallFields] = []


_EVENT = parser_of(SCHEMAS[EVENTS])


def _parse_step(line: bytes, where: str) -> _StepFields:
    """Parse an event that msgspec rejects, for the error message or because only Python can read
    it.

    Raises:
        BadData: it is damaged.
    """
    fields = _EVENT(line, where)
    try:
        return msgspec.convert(fields, _StepFields)
    except msgspec.ValidationError as error:
        raise BadData(f"{where}: {error}.") from error


_STEPS = LineParser(_StepFields, _parse_step)


def _step_rows(folder: Path, start: LinePlace) -> Iterator[TableRows]:
    """Yield the events from a position on."""
    encoder = msgspec.json.Encoder()
    for _, steps, bounds, numbers in _read_blocks(folder, EVENTS, _STEPS, start):
        yield TableRows([encoder.encode_lines(steps)], bounds[:-1], bounds[1:], numbers)


_RETRY = "STRUCT(error VARCHAR)"
_STEP_FIELDS = dict.fromkeys(("unit", "probe", "node", "error"), "VARCHAR") | {
    "ms": "DOUBLE",
    "calls": f"STRUCT(input_tokens BIGINT, output_tokens BIGINT, retries {_RETRY}[])[]",
}
_RETRIES = (
    "flatten(list_transform(calls, lambda call: list_transform(call.retries, lambda retry: "
    "retry.error)))"
)
STEP_SOURCE = TableSource(
    "step_lines",
    EVENTS,
    _STEP_FIELDS,
    (
        *(
            "unit",
            "probe",
            "node",
            "coalesce(ms, 0) AS ms",
            "coalesce(error, '') AS error",
            "len(calls) AS calls",
        ),
        *(
            f"coalesce(list_sum(list_transform(calls, lambda call: call.{name})), 0)::BIGINT AS "
            f"{name}"
            for name in ("input_tokens", "output_tokens")
        ),
        f"len({_RETRIES}) AS retries",
        f"array_to_string({_RETRIES}, ', ') AS retry_errors",
    ),
    _step_rows,
)
