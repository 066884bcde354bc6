"""The scores and costs of a run's records, from its table."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from emend.evals.log.lines import RECORDS
from emend.evals.log.records import parse_fields, read_records, require_records
from emend.evals.log.table.parts import is_large
from emend.evals.metrics.estimate import Floats, Integers
from emend.evals.results.aggregate.columns import OTHER_REASONS, REASONS, ColumnKey, RecordTable, gather

if TYPE_CHECKING:
    from emend.evals.judging.store import Scoring
    from emend.evals.log.table.run_table import RunTable

KEY = """
setting, mode, editor, checkpoint, kind, form, is_cut_off, no_answer,
CASE WHEN excluded = '' THEN map_keys("values") ELSE [] END AS "values",
CASE WHEN excluded = '' THEN map_keys(unscored) ELSE [] END AS unscored
"""
"""Fields of a `ColumnKey`."""
ATTEMPTS = "SELECT case_id, repeat, min(line) AS first FROM record_lines GROUP BY ALL ORDER BY first"
ROWS = """
SELECT line,
    hash(setting, mode, editor, checkpoint, kind, form, is_cut_off, no_answer, excluded = '',
        map_keys("values"), map_keys(unscored)) AS key, hash(case_id, repeat) AS attempt,
    seconds, usage_retries, usage_input_tokens, usage_output_tokens, usage_calls, usage_untold, from_baseline
FROM record_lines ORDER BY line
"""
"""The numbers of each record."""
NUMBERS = """
SELECT unnest(map_values("values")) AS number
FROM (SELECT "values" FROM record_lines WHERE excluded = '' ORDER BY line)
"""
"""The scores of the records that count, one after the other."""
REASONS_GIVEN = """
SELECT reason, count(*) FROM (
    SELECT DISTINCT line, unnest(map_values(unscored)) AS reason FROM record_lines WHERE excluded = ''
) GROUP BY reason ORDER BY min(line), reason
"""
"""Reasons why records lack a score."""
EXCLUDED = "SELECT excluded, count(*) FROM record_lines WHERE excluded != '' GROUP BY excluded ORDER BY min(line)"


def gather_run(folder: Path, scoring: "Scoring | None" = None) -> RecordTable:
    """Gather the records of all complete units of a run folder; those of a large run from its table.

    Args:
        folder: the run folder.
        scoring: adds its judges' numbers; the records are then read one by one.

    Raises:
        BadData: there is no file, or a line that is not at the torn end cannot be read; names file, line and field.
    """
    require_records(folder)
    if scoring is not None:
        from emend.evals.judging.store import judged_records  # lazily: listing and the demo need no judge

        return gather(judged_records(folder, scoring))
    if not is_large(folder / RECORDS):
        return gather(read_records(folder, parse_fields))
    from emend.evals.log.table.run_table import RunTable  # lazily: few runs are so large that DuckDB is needed

    with RunTable(folder) as table:
        return gather_table(table)


def gather_table(table: "RunTable") -> RecordTable:
    """Gather the records of a run's table."""
    gathered = RecordTable()
    for case, repeat, _ in table.rows(ATTEMPTS):
        gathered.position(case, repeat)
    for key, rows in _rows(table):
        gathered.rows[key].frombytes(rows.tobytes())
        gathered.records += len(rows)
    gathered.units.update(unit for (unit,) in table.rows("SELECT DISTINCT unit FROM record_lines"))
    gathered.excluded.update(dict(table.rows(EXCLUDED)))
    for place, (reason, count) in enumerate(table.rows(REASONS_GIVEN)):
        gathered.reasons[reason if place < REASONS else OTHER_REASONS] += count
    ((gathered.cut,),) = table.rows("SELECT count(*) FROM record_lines WHERE cut_tokens > 0")
    return gathered


def _rows(table: "RunTable") -> Iterator[tuple[ColumnKey, Floats]]:
    """The rows of numbers of records that are alike, in the order in which their keys first come."""
    columns = table.arrays(ROWS)
    lines = columns.pop("line")
    keys, attempts = (_in_order(columns.pop(name)) for name in ("key", "attempt"))
    costs = np.column_stack([np.arange(len(lines)), attempts, *columns.values()]).astype(np.float64)
    numbers = np.asarray(table.arrays(NUMBERS)["number"], np.float64)
    first_lines = lines[np.unique(keys, return_index=True)[1]].tolist()
    query = f"SELECT {KEY} FROM record_lines WHERE line IN ({', '.join(map(str, first_lines))}) ORDER BY line"
    firsts = [ColumnKey(*map(_plain, key)) for key in table.rows(query)] if first_lines else []
    widths = np.array([len(key.values) for key in firsts], np.int64)[keys]
    starts = np.cumsum(widths) - widths
    for place, key in enumerate(firsts):
        chosen = np.flatnonzero(keys == place)
        scores = numbers[starts[chosen, None] + np.arange(len(key.values))]
        yield key, np.hstack([costs[chosen], scores])


def _in_order(hashes: NDArray[np.uint64]) -> Integers:
    """A number for each distinct hash, in the order in which they first come."""
    _, firsts, numbers = np.unique(hashes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts))[numbers]


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
