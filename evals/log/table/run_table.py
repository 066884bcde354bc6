"""The tables of a run folder, which are queried with DuckDB; what was parsed once is not parsed again."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import duckdb

from emend.evals.log.lines import RECORDS
from emend.evals.log.table.columns import text
from emend.evals.log.table.parts import Part, find_parts, is_large, parts_folder, remove_oldest
from emend.evals.log.table.sources import RECORD_SOURCE, STEP_SOURCE, TableSource
from emend.evals.log.table.writer import PLACES, PartWriter
from emend.evals.log.units import warn_once
from emend.memory.errors import BadData
from emend.memory.json_files import BEGINNING, LinePlace

MAX_PARTS = 24
"""Parts of a file from which on small ones are joined."""
BATCH = 4096
"""Rows that are taken of a long result at once."""
OPTIONS: dict[str, Any] = {
    "threads": 1,
    "memory_limit": "256MB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # DuckDB 2.0.1 bounds some sums over joins by too small a number, and leaves out groups whose sum is above it.
    "disabled_optimizers": "statistics_propagation",
}
SAME = "OVER (PARTITION BY unit ORDER BY line)"
FIRST_ONES = f' QUALIFY row_number() {SAME} <= first_value("of") {SAME}'
"""Records of a unit that is there twice: the first ones count."""


class RunTable:
    """The tables of a run folder, each with what its file holds when this is opened; a context manager.

    Args:
        folder: a run folder.
        sources: the tables.
        is_continued: read what the kept parts lack; else the tables have what these have.
        large: size in bytes of a file from which on its parts are kept; default: `parts.LARGE`.

    Raises:
        BadData: a line cannot be read; names file, line and field.
    """

    def __init__(
        self,
        folder: Path,
        sources: Sequence[TableSource] = (RECORD_SOURCE,),
        is_continued: bool = True,
        large: int | None = None,
    ) -> None:
        self.folder, self._sources, self._is_continued, self._large = folder, sources, is_continued, large
        self._is_kept = True
        self.ends: dict[str, LinePlace] = {}
        """By table, the place in its file up to which it has the lines."""
        self.parts: list[Path] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="emend-table-")))
            options = OPTIONS | {"temp_directory": str(self._scratch)}
            self.connection = stack.enter_context(duckdb.connect(config=options))
            # Where Python is used interactively DuckDB writes a bar to the output of whoever waits for a long query.
            self.connection.execute("SET enable_progress_bar = false")
            self._open()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._execute(sql, *values).fetchall()

    def stream(self, sql: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, which are not held together."""
        result = self._execute(sql, *values)
        while rows := result.fetchmany(BATCH):
            yield from rows

    def arrays(self, sql: str, *values: object) -> dict[str, Any]:
        """The columns of a query as arrays of NumPy."""
        return dict(self._execute(sql, *values).fetchnumpy())

    def lock(self, out: Path | None) -> None:
        """Let further queries reach the parts alone, and the one file that may be written."""
        allowed = ", ".join(text(str(path)) for path in (*self.parts, *([out] if out else [])))
        self.connection.execute(f"SET allowed_paths = [{allowed}]")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def _execute(self, sql: str, *values: object) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(sql, values)
        except duckdb.IOException:  # another process has deleted a part
            self._is_kept = False
            self._open()
            return self.connection.execute(sql, values)

    def _open(self) -> None:
        self.parts = []
        for source in self._sources:
            parts = self._parts(source)
            self.ends[source.table] = parts[-1].end if parts else BEGINNING
            self.parts += [part.path for part in parts]
            self._make_view(source, parts)

    def _make_view(self, source: TableSource, parts: Sequence[Part]) -> None:
        columns = ", ".join(f"NULL::{kind} AS {text(name)}" for name, kind in source.fields.items())
        places = ", ".join(f"0 AS {name}" for name in PLACES)
        content = f"SELECT {places}, {', '.join(source.columns)} FROM (SELECT {columns}) WHERE false"
        if parts:
            files = ", ".join(text(str(part.path)) for part in parts)
            content = f"SELECT * FROM read_parquet([{files}])"
        view = f"CREATE OR REPLACE VIEW {source.table} AS {content}"
        self.connection.execute(view)
        if source.file == RECORDS and (unit := self._repeated_unit(source.table)):
            path = self.folder / source.file
            warn_once(f"{path}: the records of unit {unit} are there twice; the first ones count")
            self.connection.execute(view + FIRST_ONES)

    def _repeated_unit(self, table: str) -> str | None:
        repeated = 'HAVING count(*) > arg_min("of", line) ORDER BY min(line) LIMIT 1'
        query = f"SELECT unit FROM {table} GROUP BY unit {repeated}"
        return next((unit for (unit,) in self.connection.execute(query).fetchall()), None)

    def _parts(self, source: TableSource) -> list[Part]:
        """The parts of a table, after what they lack of the file was read."""
        path = self.folder / source.file
        try:
            status = path.stat()
        except FileNotFoundError:
            return []
        folder = parts_folder(self.folder) if self._is_kept and is_large(path, self._large) else None
        parts = find_parts(folder, source.table, path) if folder else []
        start = parts[-1].end if parts else BEGINNING
        if self._is_continued and start.offset < status.st_size:
            writer = PartWriter(self.connection, source, self.folder, self._scratch, folder)
            parts += writer.write(start, status.st_mtime_ns)
            parts = writer.join(parts) if len(parts) > MAX_PARTS else parts
            if folder:
                remove_oldest(folder)
        return parts


def keep_steps(folder: Path) -> None:
    """Make, or continue, the table of a run's steps for those who will look at its overview."""
    with suppress(OSError, BadData, duckdb.Error), RunTable(folder, [STEP_SOURCE]):
        pass
