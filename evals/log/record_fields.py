"""Reading of selected record fields; for a large run from its table, without reading other
fields.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from emend.evals.case import Record
from emend.evals.log.line_parser import struct_of
from emend.evals.log.lines import RECORDS
from emend.evals.log.records import parse_fields, read_records, require_records
from emend.evals.log.table_parts import is_large
from emend.evals.log.table_sources import NAMES, quoted, text

_TYPES = {field.name: field.type for field in msgspec.structs.fields(struct_of(Record))}
# Fields with texts of any length.
LONG = ("prompt", "answer", "passage", "reply")


def read_fields(
    folder: Path, names: Sequence[str], checkpoint: int | None = 0, **chosen: Collection[str]
) -> Iterator[Record]:
    """Yield the records of complete units, in order, as objects with these fields.

    Args:
        folder: a run folder.
        names: names of fields of `Record`, excluding fields that are models.
        checkpoint: the checkpoint of the records, by default the first evaluation; None for all.
        chosen: the allowed values by field name; any value for other fields.

    Raises:
        BadData: there is no file, or a line before the end is unreadable; names file, line and
            field.
    """
    require_records(folder)
    chosen = {name: values for name, values in chosen.items() if values}
    if is_large(folder / RECORDS):
        yield from _from_table(folder, names, checkpoint, chosen)
        return
    for record in read_records(folder, parse_fields):
        if checkpoint in (None, record.checkpoint) and all(
            getattr(record, name) in chosen[name] for name in chosen
        ):
            yield record


def _from_table(
    folder: Path, names: Sequence[str], checkpoint: int | None, chosen: dict[str, Collection[str]]
) -> Iterator[Record]:
    # lazily: few runs are so large that DuckDB is needed
    from emend.evals.log.run_table import RunTable

    # Use JSON, since DuckDB takes ten times as long to convert its maps and lists to Python
    # objects, except for long values, whose JSON is many times larger.
    texts = [name for name in names if name in LONG]
    others = [name for name in names if name not in texts]
    fields = ", ".join(f"{quoted(name)}: {_column(name)}" for name in others)
    conditions = ["true" if checkpoint is None else f"checkpoint = {checkpoint}"]
    conditions += [
        f"{quoted(name)} IN ({', '.join(map(text, values))})" for name, values in chosen.items()
    ]
    members: list[Any] = [
        *((name, _TYPES[name]) for name in others),
        *((name, _TYPES[name], "") for name in texts),
    ]
    decode: Callable[[str], Any] = msgspec.json.Decoder(
        msgspec.defstruct("RecordFields", members, gc=False)
    ).decode
    columns = ", ".join([f"to_json({{{fields}}})" if others else "'{}'", *map(_column, texts)])
    with RunTable(folder) as table:
        query = f"SELECT {columns} FROM record_lines WHERE {' AND '.join(conditions)}"
        for line, *values in table.stream(query):
            record = decode(line)
            for name, value in zip(texts, values, strict=True):
                setattr(record, name, value)
            yield record


def _column(name: str) -> str:
    return quoted(NAMES.get(name, name))
