"""The tables of a run folder, which are queried with DuckDB; what was parsed once is not parsed again."""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import duckdb

from emend.evals.log.lines import RECORDS, warn_once
from emend.evals.log.table_parts import Part, draft_in, find_parts, is_large, keep_part, parts_folder, remove_oldest
from emend.evals.log.table_sources import RECORD_SOURCE, STEP_SOURCE, TableRows, TableSource, text
from emend.memory.errors import BadData
from emend.memory.json_files import BEGINNING, LinePlace

STRETCH = 32 * 2**20
"""Bytes of lines in a part, which bound the memory while it is made."""
PARQUET = "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 16384"
PLACES = ("line_start", "line_end", "line")
"""Columns of every table: where in the file the line of a row begins and ends, and its number."""
INTEGERS = 2**63
"""Integers from minus this up to one less than this can be in a column."""


class PartWriter:
    """Writes the parts of a table.

    Args:
        connection: of DuckDB.
        source: the table.
        run: the run folder.
        scratch: a folder for what is needed meanwhile, and for parts that are not kept.
        folder: where parts are kept; None keeps none.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, source: TableSource, run: Path, scratch: Path, folder: Path | None
    ) -> None:
        self._connection, self._source, self._run = connection, source, run
        self._folder, self._scratch = folder, scratch
        self._lines = scratch / f"{source.table}.json"

    def write(self, start: LinePlace, changed: int) -> list[Part]:
        """Write what a file has from a place on; `changed` is the time at which it had been changed before.

        Raises:
            BadData: a line cannot be read.
        """
        import numpy as np  # lazily: a table that is there already is read without it

        parts, groups = list[Part](), self._source.rows(self._run, start)
        while places := self._write_lines(groups):
            end = LinePlace(places.ends[-1], places.numbers[-1])
            if end.lines - start.lines != len(places.ends):  # lines were left out, which is to be said at every reading
                self._folder = None
            arrays = dict(zip(PLACES, map(np.array, places[1:]), strict=True))
            self._connection.register("places", arrays)
            columns = ", ".join([*PLACES, *self._source.columns])
            query = f"SELECT {columns} FROM {self._read_json()} POSITIONAL JOIN places"
            parts.append(self._keep(query, start.offset, end, changed))
            start = end
        return parts

    def _write_lines(self, groups: Iterator[TableRows]) -> TableRows | None:
        """Write the rows of a part as JSON; return their places, or None if nothing is left."""
        starts, ends, numbers = list[int](), list[int](), list[int]()
        with self._lines.open("wb") as file:
            for group in groups:
                file.writelines(group.rows)
                starts += group.starts
                ends += group.ends
                numbers += group.numbers
                if file.tell() >= STRETCH:
                    break
        return TableRows((), starts, ends, numbers) if ends else None

    def _keep(self, query: str, start: int, end: LinePlace, changed: int) -> Part:
        """Write a part; where it cannot be kept, into the scratch folder."""
        if self._folder is not None:
            with suppress(OSError, BadData):
                draft = draft_in(self._folder)
                self._copy(query, draft)
                return keep_part(draft, self._source.table, self._run / self._source.file, start, end, changed)
            self._folder = None
        path = self._scratch / f"{self._source.table}-{start}.parquet"
        self._copy(query, path)
        return Part(path, start, end)

    def _copy(self, query: str, path: Path) -> None:
        """Write the rows of a query; what DuckDB does not read of Emend's JSON is written to it in a plainer form."""
        copy = f"COPY ({query}) TO {text(str(path))} ({PARQUET})"
        try:
            self._connection.execute(copy)
        except duckdb.IOException as error:
            raise OSError(str(error)) from error
        except duckdb.Error:
            self._write_plainly()
            try:
                self._connection.execute(copy)
            except duckdb.Error as error:
                raise BadData(f"'{self._run / self._source.file}' cannot be made a table: {error}") from error

    def _write_plainly(self) -> None:
        """Write the lines anew, without names that are twice in an object, and with integers that are not too large."""

        def integer(digits: str) -> int:
            return max(-INTEGERS, min(INTEGERS - 1, int(digits)))

        plain = self._lines.with_suffix(".plain")
        with self._lines.open("rb") as file, plain.open("w", encoding="utf-8") as copy:
            for line in file:
                copy.write(json.dumps(json.loads(line, parse_int=integer)) + "\n")
        os.replace(plain, self._lines)

    def _read_json(self) -> str:
        kinds = ", ".join(f"{text(name)}: {text(kind)}" for name, kind in self._source.fields.items())
        size = max(2**24, self._lines.stat().st_size)  # a line may be that long
        return (
            f"read_json({text(str(self._lines))}, format = 'newline_delimited', "
            f"maximum_object_size = {size}, columns = {{{kinds}}})"
        )


MAX_PARTS = 24
"""Parts of a file from which on small ones are read again as one."""
BATCH = 2048
"""Rows that are taken of a long result at once: as many as DuckDB computes at once."""
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
        self.order = ""
        """Clause that puts records in the order of their lines; empty where they come in it, as rows of files do."""

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
        self.order = ""
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
            self.order = " ORDER BY line"

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
        if self._is_continued and (parts[-1].end if parts else BEGINNING).offset < status.st_size:
            if len(parts) >= MAX_PARTS:  # the last small ones are made anew as one, for each costs time in each query
                while parts and parts[-1].end.offset - parts[-1].start < STRETCH:
                    parts.pop().path.unlink(missing_ok=True)
            writer = PartWriter(self.connection, source, self.folder, self._scratch, folder)
            parts += writer.write(parts[-1].end if parts else BEGINNING, status.st_mtime_ns)
            if folder:
                remove_oldest(folder)
        return parts


def keep_steps(folder: Path) -> None:
    """Make, or continue, the table of a run's steps for those who will look at its overview."""
    with suppress(OSError, BadData, duckdb.Error), RunTable(folder, [STEP_SOURCE]):
        pass
