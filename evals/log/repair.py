"""The finished units of a run folder, and its repair after a crash."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from emend.evals.log.lines import (
    BASELINE,
    COSTS,
    ERRORS,
    EVENTS,
    RECORDS,
    SCHEMAS,
    complete_units,
    fields_head,
    parser_of,
)
from emend.evals.log.records import cut_file, parse_head
from emend.evals.log.table.parts import find_parts, parts_folder
from emend.evals.log.table.sources import RECORD_SOURCE
from emend.memory.errors import BadData
from emend.memory.files import line_ends, open_file
from emend.memory.json_files import BEGINNING, JsonLine, JsonLines, LinePlace


def repair_torn_tail(folder: Path, whole: tuple[set[str], int] | None = None) -> tuple[set[str], list[dict[str, Any]]]:
    """Cut off what a killed process left half written.

    Args:
        folder: the run folder.
        whole: what `finished_units` returned for it, if it was called.

    Returns:
        The keys of finished units, and one event per file that was cut.

    Raises:
        BadData: a line that is not at the end is damaged; names file and line.
    """
    finished, end = whole or finished_units(folder)
    ends = {RECORDS: end, EVENTS: _events_end(folder / EVENTS, finished), ERRORS: None, BASELINE: None, COSTS: None}
    cut = {name: cut_file(folder / name, end) for name, end in ends.items()}
    repairs = [{"event": "torn end cut off", "file": name, "bytes": size} for name, size in cut.items() if size]
    return finished, repairs


def finished_units(folder: Path) -> tuple[set[str], int]:
    """Return the keys of the units whose lines are all there, and the offset where the last of them ends.

    Raises:
        BadData: a line that is not at the end is damaged; names file and line.
    """
    path = folder / RECORDS
    finished, place = _kept_units(folder)
    end = place.offset
    for unit in complete_units(_neighbours(path, place), lambda line: fields_head(line.fields)):
        if unit[0].offset != end:
            raise BadData(
                f"{path}: the lines before line {unit[0].number} are damaged, though finished units follow. "
                "Restore the file, or start a new run in another folder."
            )
        finished.add(unit[0].fields["unit"])
        end = unit[-1].end
    return finished, end


def _kept_units(folder: Path) -> tuple[set[str], LinePlace]:
    """The units of the table of a large run, as far as it is kept, and the place up to which every line is in it."""
    if not find_parts(parts_folder(folder), RECORD_SOURCE.table, folder / RECORDS):
        return set(), BEGINNING
    from emend.evals.log.table.run_table import RunTable  # lazily, since few runs are so large that DuckDB is needed

    with RunTable(folder, is_continued=False) as table:
        units = {unit for (unit,) in table.rows("SELECT DISTINCT unit FROM record_lines")}
        return units, table.ends[RECORD_SOURCE.table]


def _neighbours(path: Path, start: LinePlace) -> Iterator[JsonLine | None]:
    """Yield the lines of a file of records from a place on; None where a line between them cannot be read."""
    end = start.offset
    for line in JsonLines(path, _ignore, parse=parse_head, start=start):
        if line.offset != end:
            yield None
        yield line
        end = line.end


def _ignore(error: BadData) -> None:
    """Go on: what cannot be read is cut off, or named with the lines after it."""


def _events_end(path: Path, finished: set[str]) -> int:
    """Offset where the last line ends that belongs to a finished unit or to the run itself."""
    parse = parser_of(SCHEMAS[EVENTS])
    with suppress(FileNotFoundError), open_file(path) as file:
        for end, start in pairwise(chain(line_ends(file), (0,))):
            file.seek(start)
            with suppress(BadData):  # what cannot be read is cut off
                event = parse(file.read(end - start), str(path))
                if "unit" not in event or event["unit"] in finished:
                    return end
    return 0
