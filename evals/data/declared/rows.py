"""Rows of a data file with their positions: JSON lines, JSON, CSV, TSV or parquet."""

import csv
import io
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.data.benchmarks.rows import read_text
from emend.memory.errors import BadData
from emend.memory.json_files import parse_json, unique_keys, value_lines
from emend.memory.registry import nearest

Fields = dict[str, Any]


class DataRow(NamedTuple):
    """Fields of a row and its position: file and line, or number of the row."""

    position: str
    fields: Fields


def read_data(path: Path) -> list[DataRow]:
    """Return the rows of a file in order.

    Raises:
        BadData: the file extension is unknown, or the file is malformed or has no rows.
    """
    ending = Path(path.stem if path.suffix == ".gz" else path).suffix.lower()
    if ending not in _READERS:
        endings = ", ".join(_READERS)
        raise BadData(
            f"'{path.name}' has an unsupported suffix: use one of {endings}; "
            f"{nearest(ending, [*_READERS])}"
        )
    rows = list(_READERS[ending](path))
    for row in rows:
        if not isinstance(row.fields, dict):
            raise BadData(
                f"{row.position}: expected an object with fields, got {row.fields!r:.40}."
            )
    if not rows:
        raise BadData(f"{path.name} has no rows: give it one for each case.")
    return rows


def _json_lines(path: Path) -> Iterator[DataRow]:
    return itertools.starmap(DataRow, value_lines(read_text(path), path.name, unique_keys))


def _json(path: Path) -> Iterator[DataRow]:
    items = parse_json(read_text(path), path.name, pairs=unique_keys)
    if not isinstance(items, list):
        raise BadData(
            f"{path.name} is not a list of objects: write [{{...}}, {{...}}], or an object per "
            "line (.jsonl)."
        )
    for number, item in enumerate(items, 1):
        yield DataRow(f"{path.name}, item {number}", item)


def _table(path: Path) -> Iterator[DataRow]:
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    reader = csv.DictReader(
        io.StringIO(read_text(path), newline=""), strict=True, delimiter=delimiter
    )
    try:
        names = reader.fieldnames or []
        if len(set(names)) < len(names):
            raise BadData(
                f"{path.name}, line 1: a column occurs twice: rename one of {', '.join(names)}."
            )
        for row in reader:
            position = f"{path.name}, line {reader.line_num}"
            if None in row or None in row.values():
                raise BadData(
                    f"{position}: {len(names)} cells are needed, one for each column of the first "
                    "line."
                )
            yield DataRow(position, dict(row))
    except csv.Error as error:
        raise BadData(f"{path.name}, line {reader.line_num}: not valid CSV ({error}).") from error


def _parquet(path: Path) -> Iterator[DataRow]:
    import duckdb  # imported lazily because it is slow

    try:
        with duckdb.connect() as connection:
            relation = connection.execute("SELECT * FROM read_parquet([?])", [str(path)])
            names = [column[0] for column in relation.description]
            rows = relation.fetchall()
    except duckdb.Error as error:
        raise BadData(
            f"{path.name} is not a parquet file ({' '.join(str(error).split())[:200]})."
        ) from error
    for number, row in enumerate(rows, 1):
        yield DataRow(f"{path.name}, row {number}", dict(zip(names, row, strict=True)))


_READERS: dict[str, Callable[[Path], Iterator[DataRow]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _table,
    ".tsv": _table,
    ".parquet": _parquet,
}
