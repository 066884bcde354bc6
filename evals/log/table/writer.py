"""Writes the parts of a table: lines as JSON to a file for DuckDB, and what it reads of them as Parquet."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np

from emend.evals.log.table.columns import text
from emend.evals.log.table.parts import Part, draft_in, keep_part
from emend.evals.log.table.sources import TableRows, TableSource
from emend.memory.errors import BadData
from emend.memory.json_files import LinePlace

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

    def join(self, parts: Sequence[Part]) -> list[Part]:
        """Join the last parts that are small, for each part costs time in each query."""
        first = len(parts)
        while first and parts[first - 1].end.offset - parts[first - 1].start < STRETCH:
            first -= 1
        files = ", ".join(text(str(part.path)) for part in parts[first:])
        changed = int(parts[-1].path.name.split("-")[4])
        query = f"SELECT * FROM read_parquet([{files}])"
        joined = self._keep(query, parts[first].start, parts[-1].end, changed)
        for part in parts[first:]:
            part.path.unlink(missing_ok=True)
        return [*parts[:first], joined]

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
