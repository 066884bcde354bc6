"""A run folder's lines as tables of a DuckDB database, for questions in SQL."""

import csv
import json
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from emend.evals.log.manifest import Manifest
from emend.evals.log.records import require_records
from emend.evals.log.run_table import RunTable
from emend.evals.log.table_sources import CASE_SOURCE, ERROR_SOURCE, RECORD_SOURCE, text
from emend.evals.metrics.headline import CHAT, ProbeKinds, headlines_of
from emend.evals.results.aggregate.job_tables import tables_of_job
from emend.memory.errors import BadSettings
from emend.memory.escape import safe_cell

TABLES = {
    "records": "one row per record of complete units: prompt, answer, gold, tokens, seconds",
    "scores": "one row per score of an included record: its value, or the reason why it is "
    "unscored",
    "cases": "one row per case and setting, with its tags",
    "edits": "one row per edit of a case: text, subject, target_new, target_true",
    "errors": "one row per failed unit",
    "metrics": "one row per metric and kind of probe: the averaged score, and whether it is the "
    "headline",
}
FILE_FORMATS = (".parquet", ".csv", ".json")
# Number of rows held in memory while a file is written.
FETCHED = 10_000
# Message of the RuntimeError that DuckDB raises in place of a signal handler's exception.
INTERRUPTED = "Query interrupted"
SCORE_KEYS = "unit, probe, case_id, kind, editor, model, setting, mode, repeat, checkpoint"
VIEWS = (
    "CREATE VIEW records AS SELECT * EXCLUDE "
    '("values", unscored, line_start, line_end, line) FROM record_lines',
    f"""CREATE VIEW scores AS
    WITH lines AS (SELECT * FROM record_lines WHERE excluded = '')
    SELECT {SCORE_KEYS}, unnest(map_keys("values")) AS name, unnest(map_values("values")) AS value,
        NULL::VARCHAR AS reason FROM lines
    UNION ALL SELECT {SCORE_KEYS}, unnest(map_keys(unscored)), NULL,
        unnest(map_values(unscored)) FROM lines""",
    "CREATE VIEW cases AS SELECT * EXCLUDE (edits, line_start, line_end, line) FROM case_lines",
    """CREATE VIEW edits AS SELECT case_id, setting, edit.* FROM
    (SELECT case_id, setting, unnest(edits) AS edit FROM case_lines)""",
    "CREATE VIEW errors AS SELECT * EXCLUDE (line_start, line_end, line) FROM error_lines",
)


METRICS = (
    "CREATE TABLE metrics (metric VARCHAR, name VARCHAR, kind VARCHAR, protocol VARCHAR, "
    "headline BOOLEAN)"
)
CHAT_KINDS = f"SELECT DISTINCT kind FROM record_lines WHERE form LIKE '%{CHAT}%'"


class QueryResult(NamedTuple):
    """The column names and the rows of a query."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class RunDatabase:
    """A run's tables (`TABLES` and those of its job), open for queries.

    Queries can reach no file and no network.

    Args:
        connection: a database that holds the tables.
        summaries: by table, what a row is.
        out: the one file that may be written, and its draft, see `draft_of`; None for none.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        summaries: Mapping[str, str],
        out: tuple[Path, Path] | None = None,
    ) -> None:
        self._connection, self._summaries, self._out = connection, summaries, out

    def query(self, sql: str) -> QueryResult:
        """Return the result of a query.

        Raises:
            BadSettings: the query is wrong, or gives no rows.
        """
        with _query_errors(self._summaries):
            relation = self._relation(sql)
            return QueryResult(
                list(relation.columns), [tuple(map(_plain, row)) for row in relation.fetchall()]
            )

    def tables(self) -> QueryResult:
        """Return the tables with their summaries and columns."""
        columns = self.query(
            "SELECT table_name, string_agg(column_name, ', ' ORDER BY column_index) FROM "
            "duckdb_columns() GROUP BY ALL"
        )
        names = dict(columns.rows)
        return QueryResult(
            ["table", "what", "columns"],
            [(name, what, names[name]) for name, what in self._summaries.items()],
        )

    def write(self, sql: str, path: Path) -> None:
        """Write a query's result to the file named at opening, in the format of its extension.

        The file is replaced once all rows are written. In CSV no cell can act as a spreadsheet
        formula; in JSON non-finite numbers are null.

        Raises:
            BadSettings: the query is wrong or gives no rows, or the file cannot be written.
        """
        if self._out is None or path != self._out[0]:
            raise BadSettings(f"'{path}' is not the file that was given for the query.")
        draft = self._out[1]
        try:
            with _query_errors(self._summaries):
                relation = self._relation(sql)
                if path.suffix == ".parquet":
                    self._connection.execute(
                        f"COPY ({relation.sql_query()}) TO {text(str(draft))} (FORMAT parquet)"
                    )
                else:
                    names = list(relation.columns)
                    _write_rows(names, self._connection.execute(relation.sql_query()), draft)
            draft.replace(path)
        except OSError as error:
            raise BadSettings(
                f"'{path}' cannot be written: {error.strerror}. Give another file."
            ) from error
        finally:
            draft.unlink(missing_ok=True)

    def _relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        relation: duckdb.DuckDBPyRelation | None = self._connection.sql(sql)
        if relation is None:
            names = ", ".join(self._summaries)
            raise BadSettings(f"the query gives no rows: write a SELECT over {names}.")
        return relation


def draft_of(path: Path) -> Path:
    """Return a new name beside a file, under which its new content is written."""
    return path.with_name(f".{path.stem}.{secrets.token_hex(4)}.new{path.suffix}")


def _write_rows(names: Sequence[str], cursor: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write the rows of a query as CSV with a heading line, or as a JSON object per line."""
    is_table = path.suffix == ".csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        if is_table:
            table.writerow(map(safe_cell, names))
        while rows := cursor.fetchmany(FETCHED):
            for row in rows:
                values = [_plain(value) for value in row]
                if is_table:
                    table.writerow(map(_cell, values))
                else:
                    fields = dict(zip(names, values, strict=True))
                    file.write(json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n")


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return safe_cell(value)


@contextmanager
def _query_errors(tables: Iterable[str]) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise BadSettings(
            f"the query failed: {error}. The tables are {', '.join(tables)}."
        ) from error


def check_file(path: Path, endings: Sequence[str] = FILE_FORMATS) -> None:
    """Check the output file of a query before the run is read.

    Raises:
        BadSettings: its extension is not a known format, or its folder does not exist.
    """
    if path.suffix not in endings:
        raise BadSettings(f"'{path}': give a file that ends in {' or '.join(endings)}.")
    if not path.parent.is_dir():
        raise BadSettings(f"the folder of '{path}' does not exist: make it, or give another file.")


@contextmanager
def _interrupts() -> Iterator[None]:
    """Convert DuckDB's error after Ctrl-C back into KeyboardInterrupt."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != INTERRUPTED:
            raise
        raise KeyboardInterrupt from error


@contextmanager
def open_database(folder: Path, out: Path | None = None) -> Iterator[RunDatabase]:
    """Open a run's tables.

    Args:
        folder: the run folder.
        out: the one file that may be written.

    Raises:
        BadData: there is no run in the folder, or a line other than a torn last one cannot be read.
    """
    manifest = Manifest.read(folder)
    require_records(folder)
    of_job = tables_of_job(manifest)
    sources = [job_table.source(name) for name, job_table in of_job.items()]
    with (
        _interrupts(),
        RunTable(folder, [RECORD_SOURCE, CASE_SOURCE, ERROR_SOURCE, *sources]) as table,
    ):
        for view in (*VIEWS, *map(_view_of_lines, of_job)):
            table.connection.execute(view)
        _add_metrics(table, manifest)
        files = (out, draft_of(out)) if out else None
        table.lock(files[1] if files else None)
        summaries = {name: job_table.summary for name, job_table in of_job.items()}
        yield RunDatabase(table.connection, TABLES | summaries, files)


def _view_of_lines(name: str) -> str:
    """Return the statement that creates the table of that name from its lines."""
    return f"CREATE VIEW {name} AS SELECT * EXCLUDE (line_start, line_end, line) FROM {name}_lines"


def _add_metrics(table: RunTable, manifest: Manifest) -> None:
    """Create the table of the run's metrics."""
    kinds = ProbeKinds({kind for (kind,) in table.rows(CHAT_KINDS)}, manifest.text_kinds)
    headlines = headlines_of(manifest.metrics, kinds, manifest.config.protocols)
    rows = [
        (metric.name, metric.value, kind, metric.protocol, metric.name in headlines.main)
        for metric in manifest.metrics
        for kind in metric.kinds
    ]
    table.connection.execute(METRICS)
    if rows:
        table.connection.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", rows)


def _plain(value: Any) -> Any:
    """Return a value in a JSON type: dates, decimals and ids as text, non-finite as None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)
