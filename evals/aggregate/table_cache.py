"""The table of a large run's records, kept in the user's cache folder and continued while the run grows."""

import json
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from emend.evals.aggregate.columns import ColumnKey, RecordTable, row_width
from emend.evals.case import Record
from emend.evals.log.file_summary import keep_summary, read_summary
from emend.evals.log.lines import RECORDS
from emend.evals.log.record_lines import parse_fields
from emend.evals.log.records import DAMAGED_RECORD, UNITS, read_parsed, require_records
from emend.evals.log.units import complete_units, count_once, record_head
from emend.memory.json_files import LinePlace

HEAD, ROWS = "head", "rows"
FAST = 1
"""Level of compression."""


def gather_run(folder: Path) -> RecordTable:
    """Gather the records of all complete units of a run folder, those of a kept summary without reading them again.

    Raises:
        BadData: there is no file, or a line that is not at the torn end cannot be read; names file, line and field.
    """
    require_records(folder)
    path = folder / RECORDS
    earlier = read_summary(path)
    table, place = unpack(earlier.parts), earlier.place

    def records() -> Iterator[Record]:
        nonlocal place
        remedy = DAMAGED_RECORD.format(folder=folder)
        for line in read_parsed(path, parse_fields, remedy, earlier.place):
            place = LinePlace(line.end, line.number)
            yield line.fields

    for record in count_once(complete_units(records(), record_head), path, table.units):
        table.add(record)
    if table.records == place.lines:  # else some line belongs to no complete unit, or one that is there twice
        keep_summary(path, lambda: pack(table), earlier.place, place)
    return table


def pack(table: RecordTable) -> dict[str, bytes]:
    """Parts of a summary, of which `unpack` makes the table."""
    head = {
        "rows": [[alike, len(rows)] for alike, rows in table.rows.items()],
        "attempts": [*table.attempts],
        "reasons": table.reasons,
        "excluded": table.excluded,
        "cut": table.cut,
    }
    columns = (np.frombuffer(rows).reshape(-1, row_width(alike)).T.tobytes() for alike, rows in table.rows.items())
    return {
        UNITS: json.dumps([*table.units]).encode(),
        HEAD: json.dumps(head).encode(),
        ROWS: zlib.compress(b"".join(columns), FAST),
    }


def unpack(parts: Mapping[str, bytes]) -> RecordTable:
    """Make the table of its parts; an empty one of none."""
    table = RecordTable()
    if not parts:
        return table
    head = json.loads(parts[HEAD])
    table.units.update(json.loads(parts[UNITS]))
    table.reasons, table.excluded, table.cut = Counter(head["reasons"]), Counter(head["excluded"]), head["cut"]
    for case, repeat in head["attempts"]:
        table.position(case, repeat)
    numbers, start = np.frombuffer(zlib.decompress(parts[ROWS])), 0
    for (*alike, values, unscored), size in head["rows"]:
        key = ColumnKey._make((*alike, tuple(values), tuple(unscored)))
        width = row_width(key)
        rows = numbers[start : start + size].reshape(width, -1).T
        table.rows[key] = array("d", rows.tobytes())
        table.records += len(rows)
        start += size
    return table
