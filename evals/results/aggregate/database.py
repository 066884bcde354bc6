"""The lines of a run folder as tables of a DuckDB database, for questions in SQL."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from emend.evals.log.manifest import Manifest
from emend.evals.log.records import require_records
from emend.evals.log.run_table import RunTable
from emend.evals.log.table_sources import CASE_SOURCE, ERROR_SOURCE, RECORD_SOURCE, text
from emend.memory.errors import BadSettings

TABLES = {
    "records": "a row per record, of complete units: prompt, answer, gold, tokens, seconds",
    "scores": "a row per score of a record that counts: its value, or the reason why there is none",
    "cases": "a row per case and setting, with its tags",
    "edits": "a row per edit of a case: text, subject, target_new, target_true",
    "errors": "a row per failed unit",
}
FILE_FORMATS = {".parquet": "FORMAT parquet", ".csv": "FORMAT csv, HEADER", ".json": "FORMAT json"}
SCORE_KEYS = "unit, probe, case_id, kind, editor, model, setting, mode, repeat, checkpoint"
VIEWS = (
    'CREATE VIEW records AS SELECT * EXCLUDE ("values", unscored, line_start, line_end, line) FROM record_lines',
    f"""CREATE VIEW scores AS
    WITH lines AS (SELECT * FROM record_lines WHERE excluded = '')
    SELECT {SCORE_KEYS}, unnest(map_keys("values")) AS name, unnest(map_values("values")) AS value,
        NULL::VARCHAR AS reason FROM lines
    UNION ALL SELECT {SCORE_KEYS}, unnest(map_keys(unscored)), NULL, unnest(map_values(unscored)) FROM lines""",
    "CREATE VIEW cases AS SELECT * EXCLUDE (edits, line_start, line_end, line) FROM case_lines",
    """CREATE VIEW edits AS SELECT case_id, setting, edit.* FROM
    (SELECT case_id, setting, unnest(edits) AS edit FROM case_lines)""",
    "CREATE VIEW errors AS SELECT * EXCLUDE (line_start, line_end, line) FROM error_lines",
)


class QueryResult(NamedTuple):
    """The names of a query's columns, and its rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class RunDatabase:
    """A run's tables (`TABLES`), open for queries; nothing in it can reach a file or the network.

    Args:
        connection: a database that holds the tables.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def query(self, sql: str) -> QueryResult:
        """The result of a query.

        Raises:
            BadSettings: the query is wrong, or gives no rows.
        """
        with _query_errors():
            relation = self._relation(sql)
            return QueryResult(list(relation.columns), [tuple(map(_plain, row)) for row in relation.fetchall()])

    def tables(self) -> QueryResult:
        """The tables: what each holds, and its columns."""
        columns = self.query(
            "SELECT table_name, string_agg(column_name, ', ' ORDER BY column_index) FROM duckdb_columns() GROUP BY ALL"
        )
        names = dict(columns.rows)
        return QueryResult(["table", "what", "columns"], [(name, what, names[name]) for name, what in TABLES.items()])

    def write(self, sql: str, path: Path) -> None:
        """Write the result of a query to the file that was named when the tables were opened, as its ending says.

        Raises:
            BadSettings: the query is wrong or gives no rows, or the file cannot be written.
        """
        with _query_errors():
            query = self._relation(sql).sql_query()
            self._connection.execute(f"COPY ({query}) TO {text(str(path))} ({FILE_FORMATS[path.suffix]})")

    def _relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        relation: duckdb.DuckDBPyRelation | None = self._connection.sql(sql)
        if relation is None:
            raise BadSettings(f"the query gives no rows: write a SELECT over {', '.join(TABLES)}.")
        return relation


@contextmanager
def _query_errors() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise BadSettings(f"the query failed: {error}. The tables are {', '.join(TABLES)}.") from error


def check_file(path: Path, endings: Sequence[str] = tuple(FILE_FORMATS)) -> None:
    """Refuse a file for a query's result before the run is read.

    Raises:
        BadSettings: its ending names no known format, or its folder does not exist.
    """
    if path.suffix not in endings:
        raise BadSettings(f"'{path}': give a file that ends in {' or '.join(endings)}.")
    if not path.parent.is_dir():
        raise BadSettings(f"the folder of '{path}' does not exist: make it, or give another file.")


@contextmanager
def open_database(folder: Path, out: Path | None = None) -> Iterator[RunDatabase]:
    """Open a run's tables.

    Args:
        folder: the run folder.
        out: the one file that may be written.

    Raises:
        BadData: there is no run in the folder, or a line that is not at the torn end cannot be read.
    """
    Manifest.read(folder)
    require_records(folder)
    with RunTable(folder, [RECORD_SOURCE, CASE_SOURCE, ERROR_SOURCE]) as table:
        for view in VIEWS:
            table.connection.execute(view)
        table.lock(out)
        yield RunDatabase(table.connection)


def _plain(value: Any) -> Any:
    """A value as JSON has it: dates, decimals and ids as texts."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)
