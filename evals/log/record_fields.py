"""Some fields of a run's records: those of a large run from its table, in which the other fields are not read."""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from emend.evals.case import Record
from emend.evals.log.lines import RECORDS
from emend.evals.log.records import parse_fields, read_records, require_records, struct_of
from emend.evals.log.table_parts import is_large
from emend.evals.log.table_sources import NAMES, quoted, text

_TYPES = {field.name: field.type for field in msgspec.structs.fields(struct_of(Record))}


def read_fields(
    folder: Path, names: Sequence[str], checkpoint: int | None = 0, **chosen: Collection[str]
) -> Iterator[Record]:
    """Yield the records of complete units, in their order, as objects that have these fields.

    Args:
        folder: a run folder.
        names: of fields of `Record`, and the objects have no others; none that is a model itself.
        checkpoint: records of that one alone, by default of the first evaluation; None for those of all.
        chosen: by the name of a field, the values that it may have; any if there are none.

    Raises:
        BadData: there is no file, or a line that is not at the torn end cannot be read; names file, line and field.
    """
    require_records(folder)
    chosen = {name: values for name, values in chosen.items() if values}
    if is_large(folder / RECORDS):
        yield from _from_table(folder, names, checkpoint, chosen)
        return
    for record in read_records(folder, parse_fields):
        if checkpoint in (None, record.checkpoint) and all(getattr(record, name) in chosen[name] for name in chosen):
            yield record


def _from_table(
    folder: Path, names: Sequence[str], checkpoint: int | None, chosen: dict[str, Collection[str]]
) -> Iterator[Record]:
    from emend.evals.log.run_table import RunTable  # lazily: few runs are so large that DuckDB is needed

    # As JSON, since DuckDB takes ten times as long to make Python's objects of its maps and lists.
    fields = ", ".join(f"{quoted(name)}: {quoted(NAMES.get(name, name))}" for name in names)
    conditions = ["true" if checkpoint is None else f"checkpoint = {checkpoint}"]
    conditions += [f"{quoted(name)} IN ({', '.join(map(text, values))})" for name, values in chosen.items()]
    kind = msgspec.defstruct("RecordFields", [(name, _TYPES[name]) for name in names], frozen=True, gc=False)
    decode: Callable[[str], Any] = msgspec.json.Decoder(kind).decode
    query = f"SELECT to_json({{{fields}}}) FROM record_lines WHERE {' AND '.join(conditions)} ORDER BY line"
    with RunTable(folder) as table:
        for (line,) in table.stream(query):
            yield decode(line)
