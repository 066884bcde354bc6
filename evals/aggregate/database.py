"""The lines of a run folder as tables of a DuckDB database, for questions in SQL."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from emend.evals.case import Record
from emend.evals.log.lines import CASES, ERRORS, RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import finished_units, require_records
from emend.memory.distribution import install_command
from emend.memory.errors import BadData, BadSettings, MissingExtra
from emend.memory.files import line_ends, open_file

if TYPE_CHECKING:
    import duckdb

TABLES = {
    "records": "a row per record, of complete units: prompt, answer, gold, tokens, seconds",
    "scores": "a row per score of a record that counts: its value, or the reason why there is none",
    "cases": "a row per case and setting, with its tags",
    "edits": "a row per edit of a case: text, subject, target_new, target_true",
    "errors": "a row per failed unit",
}
TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}
NAMES = {"case": "case_id"}
"""Columns whose field is a keyword of SQL."""
MEMORY = "1GB"
"""Largest memory of a query; what does not fit goes to a temporary folder."""
FILE_FORMATS = {".parquet": "FORMAT parquet", ".csv": "FORMAT csv, HEADER", ".json": "FORMAT json"}
CASE_COLUMNS = {
    "number": "BIGINT",
    "setting": "VARCHAR",
    "case": "VARCHAR",
    "tags": "JSON",
    "edits": "STRUCT(id VARCHAR, form VARCHAR, text VARCHAR, subject VARCHAR, target_new VARCHAR, "
    "target_true VARCHAR)[]",
}
ERROR_COLUMNS = dict.fromkeys(("unit", "case", "probe", "editor", "setting", "error", "message", "at"), "VARCHAR")
SCORES = """
CREATE VIEW scores AS
WITH lines AS (SELECT * FROM record_lines WHERE excluded = '')
SELECT {keys}, unnest(map_keys("values")) AS name, unnest(map_values("values")) AS value, NULL::VARCHAR AS reason
FROM lines UNION ALL
SELECT {keys}, unnest(map_keys(unscored)), NULL, unnest(map_values(unscored)) FROM lines
"""
SCORE_KEYS = "unit, probe, case_id, kind, editor, model, setting, mode, repeat, checkpoint"
REPEATED = """
DELETE FROM record_lines WHERE rowid IN (
    SELECT rowid FROM record_lines QUALIFY row_number() OVER (PARTITION BY unit ORDER BY rowid) > "of"
)
"""


class QueryResult(NamedTuple):
    """The names of a query's columns, and its rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class RunDatabase:
    """A run's tables (`TABLES`), open for queries; nothing in it can reach a file or the network.

    Args:
        connection: a database that holds the tables.
    """

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
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
            self._connection.execute(f"COPY ({query}) TO {_text(str(path))} ({FILE_FORMATS[path.suffix]})")

    def _relation(self, sql: str) -> "duckdb.DuckDBPyRelation":
        relation: duckdb.DuckDBPyRelation | None = self._connection.sql(sql)
        if relation is None:
            raise BadSettings(f"the query gives no rows: write a SELECT over {', '.join(TABLES)}.")
        return relation


@contextmanager
def _query_errors() -> Iterator[None]:
    import duckdb

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
        MissingExtra: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtra(f"queries need DuckDB: {install_command('query')}.") from error
    Manifest.read(folder)
    require_records(folder)
    with tempfile.TemporaryDirectory(prefix="emend-query-") as scratch:
        options: dict[str, Any] = {
            "memory_limit": MEMORY,
            "temp_directory": scratch,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(str(Path(scratch) / "run.duckdb"), config=options) as connection:
            for name, make in ((RECORDS, _add_records), (CASES, _add_cases), (ERRORS, _add_errors)):
                try:
                    make(connection, folder, Path(scratch))
                except duckdb.Error as error:
                    raise BadData(f"'{folder / name}' cannot be read: {error}") from error
            if out is not None:
                connection.execute(f"SET allowed_paths = [{_text(str(out))}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield RunDatabase(connection)


def _add_records(connection: "duckdb.DuckDBPyConnection", folder: Path, scratch: Path) -> None:
    """Add the records of complete units, of which each counts once, and the views on them."""
    _, end = finished_units(folder)
    fields = Record.model_fields
    columns, values = dict[str, str](), list[str]()
    for name, field in fields.items():
        for key in (name, *_old_names(field)):
            columns[key] = column_type(field.annotation)
        values += _values(name, field)
    _load(connection, "record_lines", folder / RECORDS, end, columns, values, scratch)
    connection.execute(REPEATED)
    connection.execute('CREATE VIEW records AS SELECT * EXCLUDE ("values", unscored) FROM record_lines')
    connection.execute(SCORES.format(keys=SCORE_KEYS))


def _values(name: str, field: FieldInfo) -> Iterator[str]:
    """Columns of a record's field: one, or one for each field of a model in it; older names and defaults count."""
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for inner, part in kind.model_fields.items():
            yield f"coalesce({_name(name)}.{_name(inner)}, {_default(part)}) AS {_name(f'{name}_{inner}')}"
        return
    sources = ", ".join(map(_name, (name, *_old_names(field))))
    yield f"coalesce({sources}, {_default(field)}) AS {_name(NAMES.get(name, name))}"


def _old_names(field: FieldInfo) -> list[str]:
    choices = getattr(field.validation_alias, "choices", ())
    return [str(choice) for choice in choices[1:]]


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if isinstance(default, bool | int | float):
        return str(default)
    if isinstance(default, str):
        return _text(default)
    if isinstance(default, tuple):
        return f"[]::{column_type(field.annotation)}"
    if isinstance(default, dict):
        kind = column_type(field.annotation)
        return f"MAP {{}}::{kind}" if kind.startswith("MAP") else f"'{{}}'::{kind}"
    return f"NULL::{column_type(field.annotation)}"


def column_type(kind: Any) -> str:
    """The type of DuckDB for a field's type; JSON where a field may hold several."""
    origin, args = get_origin(kind), get_args(kind)
    if kind in TYPES:
        return TYPES[kind]
    if origin in (Union, UnionType):
        inner = [arg for arg in args if arg is not type(None)]
        return column_type(inner[0]) if len(inner) == 1 else "JSON"
    if origin is tuple:
        return f"{column_type(args[0])}[]"
    if origin is dict and args[1] in TYPES:
        return f"MAP(VARCHAR, {TYPES[args[1]]})"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        parts = (f"{_name(name)} {column_type(field.annotation)}" for name, field in kind.model_fields.items())
        return f"STRUCT({', '.join(parts)})"
    return "JSON"


def _add_cases(connection: "duckdb.DuckDBPyConnection", folder: Path, scratch: Path) -> None:
    path = folder / CASES
    values = ["number", "setting", '"case" AS case_id', "tags", "edits"]
    _load(connection, "case_lines", path, _whole_end(path), CASE_COLUMNS, values, scratch)
    connection.execute("CREATE VIEW cases AS SELECT * EXCLUDE (edits) FROM case_lines")
    connection.execute(
        "CREATE VIEW edits AS SELECT case_id, setting, edit.* FROM "
        "(SELECT case_id, setting, unnest(edits) AS edit FROM case_lines)"
    )


def _add_errors(connection: "duckdb.DuckDBPyConnection", folder: Path, scratch: Path) -> None:
    path = folder / ERRORS
    values = [f"{_name(name)} AS {_name(NAMES.get(name, name))}" for name in ERROR_COLUMNS]
    _load(connection, "errors", path, _whole_end(path), ERROR_COLUMNS, values, scratch)


def _whole_end(path: Path) -> int:
    """Offset where a file's last whole line ends; 0 without a file."""
    try:
        with open_file(path) as file:
            return next(line_ends(file), 0)
    except FileNotFoundError:
        return 0


def _load(
    connection: "duckdb.DuckDBPyConnection",
    table: str,
    path: Path,
    end: int,
    columns: Mapping[str, str],
    values: Sequence[str],
    scratch: Path,
) -> None:
    """Make a table of a file's lines up to an offset."""
    source = scratch / path.name
    _copy(path, end, source)  # its name has no sign that DuckDB takes for a pattern, and no later line is in it
    kinds = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in columns.items())
    connection.execute(
        f"CREATE TABLE {table} AS SELECT {', '.join(values)} FROM read_json({_text(str(source))}, "
        f"format = 'newline_delimited', columns = {{{kinds}}})"
    )
    source.unlink()


def _copy(path: Path, end: int, target: Path) -> None:
    """Copy the first bytes of a file."""
    with target.open("wb") as copy:
        if not end:  # there may be no such file
            return
        with open_file(path) as file:
            while end and (block := file.read(min(end, 1 << 20))):
                copy.write(block)
                end -= len(block)


def _plain(value: Any) -> Any:
    """A value as JSON has it: dates, decimals and ids as texts."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
