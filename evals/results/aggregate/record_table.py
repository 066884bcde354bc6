"""Scores and costs of a run's records as rows of numbers, read line by line or from its table."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emend.evals.case import Record
from emend.evals.log.lines import RECORDS
from emend.evals.log.records import parse_fields, read_records, require_records
from emend.evals.log.table_parts import is_large
from emend.evals.metrics.estimate import Floats, Integers
from emend.evals.results.aggregate.columns import (
    NO_CASES,
    NONE_SILENT,
    Column,
    ColumnRows,
    Columns,
    ResultGroup,
)
from emend.memory.edit import content_id

if TYPE_CHECKING:
    from emend.evals.judging.scorings.manifest import Scoring
    from emend.evals.log.run_table import RunTable

# Maximum number of distinct reasons that are counted; all others count as one.
REASONS = 200
OTHER_REASONS = "other reasons"
# Number of hexadecimal digits of a case's number: with a million cases, two get the same number in
# one of a hundred thousand such runs.
DIGITS = 14


class ColumnKey(NamedTuple):
    """Fields that records have in common.

    `values` and `unscored` are the names of the outputs with and without a number.
    """

    setting: str
    mode: str
    editor: str
    checkpoint: int
    kind: str
    form: str
    is_cut_off: bool
    no_answer: bool
    values: tuple[str, ...]
    unscored: tuple[str, ...]


SECONDS, TOKENS_IN, TOKENS_OUT = "cost: seconds", "cost: tokens in", "cost: tokens out"
# Columns beside those of the scorers.
RETRIES = "cost: retries"
# Numbers in a record's row: its own number, the position of its attempt and its costs, followed by
# the scores.
ROW_FIELDS = (
    "record",
    "attempt",
    "seconds",
    "retries",
    "input_tokens",
    "output_tokens",
    "calls",
    "untold",
    "from_baseline",
)
# Field of `ROW_FIELDS` for each cost.
COSTS = {
    SECONDS: "seconds",
    RETRIES: "retries",
    TOKENS_IN: "input_tokens",
    TOKENS_OUT: "output_tokens",
}
SPENT = ("input_tokens", "output_tokens", "calls", "untold")
_group_key: Callable[[Record], tuple[Any, ...]] = attrgetter(*ColumnKey._fields[:-2])
_NUMBERS: Callable[[Record], tuple[Any, ...]] = attrgetter(
    "seconds", *(f"usage.{name}" for name in ("retries", *SPENT)), "from_baseline"
)


class RecordTable:
    """Scores and costs of a run, as rows of numbers per record, grouped by the records' key.

    Plain arrays instead of a DuckDB table: gathering 334 records takes 3 CPU ms, with DuckDB 67
    plus 105 to import and open it. For a large run DuckDB computes these rows, see
    `gather_table`.
    """

    def __init__(self) -> None:
        self.rows: defaultdict[ColumnKey, array[float]] = defaultdict(lambda: array("d"))
        self.cases: dict[str, int] = {}
        self.attempts: dict[tuple[str, int], int] = {}
        """Number of each attempt by case and repeat, in the order of their positions."""
        self.units: set[str] = set()
        self.reasons: Counter[str] = Counter()
        self.excluded: Counter[str] = Counter()
        """Number of records by the reason for excluding them from all figures."""
        self.records = self.cut = 0
        self._positions: dict[tuple[str, int], int] = {}

    def add(self, record: Record) -> None:
        """Add a record."""
        values, unscored = ({}, {}) if record.excluded else (record.values, record.unscored)
        key = ColumnKey._make((*_group_key(record), tuple(values), tuple(unscored)))
        position = self.position(record.case, record.repeat)
        self.rows[key].extend((self.records, position, *_NUMBERS(record), *values.values()))
        if record.excluded:
            self.excluded[record.excluded] += 1
        for reason in sorted(set(unscored.values())):
            known = reason in self.reasons or len(self.reasons) < REASONS
            self.reasons[reason if known else OTHER_REASONS] += 1
        self.units.add(record.unit)
        self.records += 1
        self.cut += record.cut_tokens > 0

    def position(self, case: str, repeat: int) -> int:
        """Return the position of an attempt, and register a new one.

        The number of a case depends on its id, not on the order in which records were written.
        Cases are resampled by number, so that runs with the same records have the same intervals.
        """
        key = case, repeat
        position = self._positions.get(key)
        if position is None:
            position = self._positions[key] = len(self._positions)
            self.attempts[key] = _number(*key)
            self.cases.setdefault(case, _number(case))
        return position

    @property
    def places(self) -> dict[ResultGroup, Columns]:
        """Columns by result group: scores of the first evaluation, and costs of all evaluations."""
        return {
            group: columns
            for (group, checkpoint), columns in self._columns.items()
            if not checkpoint
        }

    @property
    def again(self) -> dict[tuple[ResultGroup, int], Columns]:
        """Columns of re-evaluations, by result group and number of edits at the checkpoint."""
        return {key: columns for key, columns in self._columns.items() if key[1]}

    @property
    def spent(self) -> Counter[str]:
        """Tokens and calls, without those of answers reused from the baseline."""
        sums = Counter[str]()
        for key, packed in self.rows.items():
            rows = _unpack(key, packed)
            fresh = rows[_field(rows, "from_baseline") == 0]
            sums.update({name: int(_field(fresh, name).sum()) for name in SPENT})
        return sums

    @cached_property
    def _columns(self) -> dict[tuple[ResultGroup, int], Columns]:
        """Columns by result group and checkpoint, in the order of their first records."""
        parts: dict[tuple[ResultGroup, int], dict[tuple[str, str], list[_Part]]] = {}
        for key, packed in self.rows.items():
            group, rows = ResultGroup(key.setting, key.mode, key.editor), _unpack(key, packed)
            first = parts.setdefault((group, 0), {})
            columns = parts.setdefault((group, key.checkpoint), {})
            for position, name in enumerate(key.values, len(ROW_FIELDS)):
                columns.setdefault((name, key.kind), []).append(_Part(rows, rows[:, position], key))
            for name in key.unscored:
                columns.setdefault((name, key.kind), []).append(_Part(rows, None, key))
            has_tokens = _field(rows, "untold") == 0
            if has_tokens.all():
                with_tokens = rows
            else:
                with_tokens = rows[has_tokens]
            for name, field in COSTS.items():
                if name in (SECONDS, RETRIES):
                    counted = rows
                else:
                    counted = with_tokens
                first.setdefault((name, ""), []).append(_Part(counted, _field(counted, field), key))
                if len(counted) < len(rows):
                    first[name, ""].append(_Part(rows[~has_tokens], None, key))
        join = _Joiner(self)
        joined: dict[tuple[ResultGroup, int], Columns] = {}
        for group_id, columns in parts.items():
            joined[group_id] = {name: join.column(those) for name, those in columns.items()}
        return joined


def _unpack(key: ColumnKey, packed: "array[float]") -> Floats:
    """Return the rows of the records with a key; shape (records, fields and scores)."""
    return np.frombuffer(packed).reshape(-1, len(ROW_FIELDS) + len(key.values))


def _field(rows: Floats, name: str) -> Floats:
    """Return the values of one of `ROW_FIELDS`; shape (records,)."""
    return rows[:, ROW_FIELDS.index(name)]


class _Part(NamedTuple):
    """Rows of the records with a key, and their values in a column; None if these are missing."""

    rows: Floats
    values: Floats | None
    key: ColumnKey


class _Joiner:
    """Joins parts into columns; columns over the same rows share their arrays of cases.

    Args:
        table: table that the rows belong to.
    """

    def __init__(self, table: RecordTable) -> None:
        self._cases = np.array([table.cases[case] for case, _ in table.attempts], np.int64)
        self._attempts = np.array([*table.attempts.values()], np.int64)
        self._known: dict[tuple[int, ...], tuple[Integers, ColumnRows]] = {}

    def column(self, parts: Sequence[_Part]) -> Column:
        """Join parts into a column, in the order of the records."""
        scored = [(part.rows, part.values) for part in parts if part.values is not None]
        missing = [part for part in parts if part.values is None]
        order, rows = self._in_order([rows for rows, _ in scored])
        missing_order, missing_rows = self._in_order([part.rows for part in missing])
        silent = [np.full(len(part.rows), part.key.no_answer) for part in missing]
        return Column(
            values=np.concatenate([np.empty(0), *(values for _, values in scored)])[order],
            scored=rows,
            missing=missing_rows,
            silent=np.concatenate([NONE_SILENT, *silent])[missing_order],
            forms=frozenset(part.key.form for part in parts if part.key.form),
            cut_off=sum(len(part.rows) for part in parts if part.key.is_cut_off),
        )

    def _in_order(self, parts: Sequence[Floats]) -> tuple[Integers, ColumnRows]:
        """Return the sort order of the parts' records, and their rows in that order."""
        # The ids stay unique because the arrays live until every column is joined.
        key = tuple(map(id, parts))
        if key not in self._known:
            # A stable sort is fast on rows that are already sorted.
            numbers = np.concatenate(
                [NO_CASES, *(_field(part, "record") for part in parts)]
            ).astype(np.int64)
            order = np.argsort(numbers, kind="stable")
            at = np.concatenate([NO_CASES, *(_field(part, "attempt") for part in parts)])[
                order
            ].astype(np.int64)
            self._known[key] = (
                order,
                ColumnRows(self._cases[at], self._attempts[at], numbers[order]),
            )
        return self._known[key]


def _number(*key: str | int) -> int:
    return int(content_id(*key)[:DIGITS], 16)


def gather(records: Iterable[Record]) -> RecordTable:
    """Gather a stream of records."""
    gathered = RecordTable()
    for record in records:
        gathered.add(record)
    return gathered


# Columns of a query that are the fields of a `ColumnKey`.
KEY = """
setting, mode, editor, checkpoint, kind, form, is_cut_off, no_answer,
CASE WHEN excluded = '' THEN map_keys("values") ELSE [] END AS "values",
CASE WHEN excluded = '' THEN map_keys(unscored) ELSE [] END AS unscored
"""
ATTEMPTS = (
    "SELECT case_id, repeat, min(line) AS first FROM record_lines GROUP BY ALL ORDER BY first"
)
# Query for the numbers of each record.
ROWS = """
SELECT line,
    hash(setting, mode, editor, checkpoint, kind, form, is_cut_off, no_answer, excluded = '',
        map_keys("values"), map_keys(unscored)) AS key, hash(case_id, repeat) AS attempt,
    seconds, usage_retries, usage_input_tokens, usage_output_tokens, usage_calls, usage_untold,
    from_baseline
FROM record_lines ORDER BY line
"""
# Query for the scores of all records that are not excluded, one after the other.
NUMBERS = """
SELECT unnest(map_values("values")) AS number
FROM (SELECT "values" FROM record_lines WHERE excluded = '' ORDER BY line)
"""
# Query for the reasons why records lack a score.
REASONS_GIVEN = """
SELECT reason, count(*) FROM (
    SELECT DISTINCT line, unnest(map_values(unscored)) AS reason
    FROM record_lines WHERE excluded = ''
) GROUP BY reason ORDER BY min(line), reason
"""
EXCLUDED = (
    "SELECT excluded, count(*) FROM record_lines WHERE excluded != '' GROUP BY excluded "
    "ORDER BY min(line)"
)


def gather_run(folder: Path, scoring: "Scoring | None" = None) -> RecordTable:
    """Gather the records of a run folder's complete units; a large run is read as a table.

    Args:
        folder: the run folder.
        scoring: scoring whose judges' numbers are added; the records are then read one by one.

    Raises:
        BadData: the file is missing, or a line other than a torn last one cannot be read; the
            message names file, line and field.
    """
    require_records(folder)
    if scoring is not None:
        # lazily: listing and the demo need no judge
        from emend.evals.judging.scorings.verdicts import judged_records

        return gather(judged_records(folder, scoring))
    if not is_large(folder / RECORDS):
        return gather(read_records(folder, parse_fields))
    # lazily: few runs are so large that DuckDB is needed
    from emend.evals.log.run_table import RunTable

    with RunTable(folder) as table:
        return gather_table(table)


def gather_table(table: "RunTable") -> RecordTable:
    """Gather the records of a run's table."""
    gathered = RecordTable()
    # The queries sort narrow rows, which takes DuckDB the same time on the disk.
    table.connection.execute("SET memory_limit = '64MB'")
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
    """Yield the numbers of records that share a key, in the order of the keys' first records."""
    columns = table.arrays(ROWS)
    lines = columns.pop("line")
    keys, attempts = (_in_order(columns.pop(name)) for name in ("key", "attempt"))
    costs = np.column_stack([np.arange(len(lines)), attempts, *columns.values()]).astype(
        np.float64, copy=False
    )
    columns.clear()
    numbers = np.asarray(table.arrays(NUMBERS)["number"], np.float64)
    first_lines = lines[np.unique(keys, return_index=True)[1]].tolist()
    query = (
        f"SELECT {KEY} FROM record_lines WHERE line IN ({', '.join(map(str, first_lines))}) "
        "ORDER BY line"
    )
    if first_lines:
        firsts = [ColumnKey(*map(_plain, key)) for key in table.rows(query)]
    else:
        firsts = []
    widths = np.array([len(key.values) for key in firsts], np.int64)[keys]
    starts = np.cumsum(widths) - widths
    for place, key in enumerate(firsts):
        chosen = np.flatnonzero(keys == place)
        scores = numbers[starts[chosen, None] + np.arange(len(key.values))]
        yield key, np.hstack([costs[chosen], scores])


def _in_order(hashes: NDArray[np.uint64]) -> Integers:
    """Number distinct hashes in the order of their first occurrence."""
    _, firsts, numbers = np.unique(hashes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts))[numbers]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return value
