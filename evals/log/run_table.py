"""Tables of a run folder for DuckDB queries; parsed lines are cached as Parquet files."""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import duckdb

from emend.evals.log.table_parts import (
    Part,
    draft_in,
    find_parts,
    hold_parts,
    is_large,
    keep_part,
    parts_folder,
    remove_oldest,
)
from emend.evals.log.table_sources import RECORD_SOURCE, STEP_SOURCE, TableRows, TableSource, text
from emend.memory.errors import BadData
from emend.memory.files import require_regular
from emend.memory.json_files import BEGINNING, LinePlace

# Bytes of lines in a part, which limits the memory while it is written.
STRETCH = 32 * 2**20
PARQUET = "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 16384"
# Columns of every table: start and end offset of the row's line in the file, and its number.
PLACES = ("line_start", "line_end", "line")
# Exclusive bound of the integers in a column.
INTEGERS = 2**63


class PartWriter:
    """Writes the parts of a table.

    Args:
        connection: of DuckDB.
        source: the table.
        run: the run folder.
        scratch: a folder for temporary files and parts that are not cached.
        folder: the cache folder for parts; None caches none.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        source: TableSource,
        run: Path,
        scratch: Path,
        folder: Path | None,
    ) -> None:
        self._connection, self._source, self._run = connection, source, run
        self._folder, self._scratch = folder, scratch
        self._lines = scratch / f"{source.table}.json"

    def write(self, start: LinePlace, changed: int) -> list[Part]:
        """Write the parts of a file from a position on; `changed` is its change time before
        reading.

        Raises:
            BadData: a line cannot be read.
        """
        import numpy as np  # imported here, since reading a cached table does not need it

        parts, groups = list[Part](), self._source.rows(self._run, start)
        while places := self._write_lines(groups):
            end = LinePlace(places.ends[-1], places.numbers[-1])
            # lines were skipped, which must be reported on every reading
            if end.lines - start.lines != len(places.ends):
                self._folder = None
            arrays = dict(zip(PLACES, map(np.array, places[1:]), strict=True))
            self._connection.register("places", arrays)
            columns = ", ".join([*PLACES, *self._source.columns])
            query = f"SELECT {columns} FROM {self._read_json()} POSITIONAL JOIN places"
            parts.append(self._keep(query, start.offset, end, changed))
            start = end
        return parts

    def _write_lines(self, groups: Iterator[TableRows]) -> TableRows | None:
        """Write the rows of a part as JSON; return their positions, or None if there are no
        more.
        """
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
        """Write a part, or write it to the scratch folder if it cannot be cached."""
        if self._folder is not None:
            with suppress(OSError, BadData):
                draft = draft_in(self._folder)
                self._copy(query, draft)
                return keep_part(
                    draft, self._source.table, self._run / self._source.file, start, end, changed
                )
            self._folder = None
        path = self._scratch / f"{self._source.table}-{start}.parquet"
        self._copy(query, path)
        return Part(path, start, end)

    def _copy(self, query: str, path: Path) -> None:
        """Write the rows of a query; JSON that DuckDB cannot read is first simplified."""
        copy = f"COPY ({query}) TO {text(str(path))} ({PARQUET})"
        try:
            self._connection.execute(copy)
        except duckdb.IOException as error:
            raise OSError(str(error)) from error
        except duckdb.Error:
            self._write_plainly()
            try:
                self._connection.execute(copy)
            except duckdb.OutOfMemoryException as error:
                raise too_long(self._run / self._source.file) from error
            except duckdb.Error as error:
                raise BadData(
                    f"'{self._run / self._source.file}' cannot be converted to a table: {error}"
                ) from error

    def _write_plainly(self) -> None:
        """Rewrite the lines without duplicate names in objects and without too large integers."""

        def integer(digits: str) -> int:
            return max(-INTEGERS, min(INTEGERS - 1, int(digits)))

        plain = self._lines.with_suffix(".plain")
        with self._lines.open("rb") as file, plain.open("w", encoding="utf-8") as copy:
            for line in file:
                copy.write(json.dumps(json.loads(line, parse_int=integer)) + "\n")
        os.replace(plain, self._lines)

    def _read_json(self) -> str:
        kinds = ", ".join(
            f"{text(name)}: {text(kind)}" for name, kind in self._source.fields.items()
        )
        size = max(2**24, self._lines.stat().st_size)  # a single line may be this long
        return (
            f"read_json({text(str(self._lines))}, format = 'newline_delimited', "
            f"maximum_object_size = {size}, columns = {{{kinds}}})"
        )


# Number of parts of a file above which small ones are merged.
MAX_PARTS = 24
# Rows fetched at once of a long result: as many as DuckDB computes at once.
BATCH = 2048
OPTIONS: dict[str, Any] = {
    "threads": 1,
    "memory_limit": "256MB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # DuckDB 2.0.1 computes too small an upper bound for some sums over joins, and drops groups
    # whose sum exceeds it.
    "disabled_optimizers": "statistics_propagation",
}


def too_long(path: Path) -> BadData:
    """Return the error for texts that do not fit into the memory of a table."""
    return BadData(
        f"'{path}' has texts of many megabytes, which do not fit into a table's "
        f"{OPTIONS['memory_limit']}: shorten or remove these lines."
    )


class RunTable:
    """A context manager for the tables of a run folder, as of its opening.

    Args:
        folder: a run folder.
        sources: the tables.
        is_continued: whether to add lines that the cached parts lack; otherwise the tables only
            have the cached parts.
        large: minimum size in bytes of a file whose parts are cached; default: `parts.LARGE`.

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
        self.folder, self._sources, self._is_continued, self._large = (
            folder,
            sources,
            is_continued,
            large,
        )
        self._is_kept = True
        self.ends: dict[str, LinePlace] = {}
        """By table, the place in its file up to which it has the lines."""
        self.parts: list[Path] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._stack = stack
            self._scratch = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="emend-table-"))
            )
            options = OPTIONS | {"temp_directory": str(self._scratch)}
            self.connection = stack.enter_context(duckdb.connect(config=options))
            # In interactive Python, DuckDB would print a progress bar for long queries.
            self.connection.execute("SET enable_progress_bar = false")
            self._open()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._execute(sql, *values).fetchall()

    def stream(self, sql: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query without loading all of them."""
        result = self._execute(sql, *values)
        while rows := result.fetchmany(BATCH):
            yield from rows

    def arrays(self, sql: str, *values: object) -> dict[str, Any]:
        """Return the columns of a query as NumPy arrays."""
        return dict(self._execute(sql, *values).fetchnumpy())

    def lock(self, out: Path | None) -> None:
        """Restrict further queries to the parts and the one output file."""
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
        except duckdb.OutOfMemoryException as error:
            raise too_long(self.folder) from error

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
        content = (
            f"SELECT {places}, {', '.join(source.columns)} FROM (SELECT {columns}) WHERE false"
        )
        if parts:
            files = ", ".join(text(str(part.path)) for part in parts)
            content = f"SELECT * FROM read_parquet([{files}])"
        self.connection.execute(f"CREATE OR REPLACE VIEW {source.table} AS {content}")

    def _parts(self, source: TableSource) -> list[Part]:
        """Return the parts of a table after adding missing lines of the file."""
        path = self.folder / source.file
        require_regular(path)
        try:
            status = path.stat()
        except FileNotFoundError:
            return []
        folder = (
            parts_folder(self.folder) if self._is_kept and is_large(path, self._large) else None
        )
        parts = find_parts(folder, source.table, path) if folder else []
        if self._is_continued and (parts[-1].end if parts else BEGINNING).offset < status.st_size:
            # merge the last small parts, since each part costs time in each query
            if len(parts) >= MAX_PARTS:
                while parts and parts[-1].end.offset - parts[-1].start < STRETCH:
                    parts.pop().path.unlink(missing_ok=True)
            writer = PartWriter(self.connection, source, self.folder, self._scratch, folder)
            parts += writer.write(parts[-1].end if parts else BEGINNING, status.st_mtime_ns)
            if folder:
                remove_oldest(folder)
        if folder is None or not parts:
            return parts
        try:
            return hold_parts(parts, folder, self._stack)
        except FileNotFoundError:  # another process has deleted a part
            self._is_kept = False
            return self._parts(source)


def keep_steps(folder: Path) -> None:
    """Build or extend the table of a run's steps, for later overviews."""
    with suppress(OSError, BadData, duckdb.Error), RunTable(folder, [STEP_SOURCE]):
        pass
