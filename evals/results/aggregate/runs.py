"""List of the runs in a folder, with their progress."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

from emend.evals.log.lines import COSTS, ERRORS, RECORDS, SCHEMAS, parser_of, warn_once
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.evals.log.records import read_lines
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, MissingData
from emend.memory.files import file_identity, line_ends, open_lines

# Beginning of a record: its unit, and the number of records of that unit.
HEAD = re.compile(rb'\{"unit":"([^"\\]+)","of":(\d{1,9}),')
# Maximum length of `HEAD` in bytes. Longer heads would differ between the records of a unit, so
# that each record would be parsed.
HEAD_BYTES = 64
# Number of bytes read at once.
BLOCK = 2**17
_COST = parser_of(SCHEMAS[COSTS])


class RunRow(FrozenModel):
    """A run: the main fields of its configuration and its counts of units.

    `started` is an ISO date.
    """

    folder: str
    benchmark: str
    model: str
    editors: tuple[str, ...]
    mode: str
    started: str
    units: int
    finished: int
    failed: int


def list_runs(folder: Path) -> list[RunRow]:
    """Return the runs in a folder, or the folder itself if it is a run, sorted by start time.

    Folders without a readable manifest are skipped; links are not followed.

    Raises:
        MissingData: the folder does not exist, or contains no run.
    """
    if not folder.is_dir():
        raise MissingData(f"'{folder}' is not a folder: name the folder with the run folders.")
    if (folder / MANIFEST).exists():
        places = [folder]
    else:
        places = sorted(folder.iterdir())
    runs = [row for place in places if not place.is_symlink() for row in _rows(place)]
    if not runs:
        raise MissingData(f"'{folder}' contains no run: name the folder with the run folders.")
    return sorted(runs, key=lambda row: row.started)


def _rows(folder: Path) -> Iterator[RunRow]:
    """Yield the row of a run folder; nothing if the path is not a run folder."""
    try:
        manifest = Manifest.read(folder)
    except BadData:
        return
    try:
        finished, failed = _count_units(folder)
    except BadData as error:
        warn_once(f"{error} The list does not have this run.")
        return
    config = manifest.config
    yield RunRow(
        folder=str(folder),
        benchmark=config.benchmark,
        model=config.model,
        editors=config.editors,
        mode=manifest.mode or config.mode or "",
        started=manifest.started,
        units=manifest.units,
        finished=finished,
        failed=failed,
    )


def _count_units(folder: Path) -> tuple[int, int]:
    """Return the numbers of a run's finished and failed units.

    Raises:
        BadData: a file is not a regular file.
    """
    if counts := _counts_at_end(folder):
        return counts
    units = _finished(folder)
    # Most runs have no errors, and a stat takes a tenth of the time of reading nothing.
    if not file_identity(folder / ERRORS)[1]:
        return len(units), 0
    failures = {str(line.get("unit")) for line in read_lines(folder, ERRORS)} - units
    return len(units), len(failures)


def _counts_at_end(folder: Path) -> tuple[int, int] | None:
    """Return the last process's final counts; None if there are none or records came later."""
    with suppress(FileNotFoundError, BadData, KeyError), open_lines(folder / COSTS) as file:
        end, start = islice(chain(line_ends(file), (0, 0)), 2)
        file.seek(start)
        line = _COST(file.read(end - start), str(folder / COSTS))
        if line.get("record_bytes") == file_identity(folder / RECORDS)[1]:
            finished = line["skipped"] + line["finished"]
            # This line does not count units that failed only in an earlier process.
            if finished + line["failed"] == line["units"] or not file_identity(folder / ERRORS)[1]:
                return finished, line["failed"]
    return None


def _finished(folder: Path) -> set[str]:
    """Return the units with all their records, reading only the beginning of each record."""
    heads, begin = Counter[bytes](), itemgetter(slice(HEAD_BYTES))
    with suppress(FileNotFoundError), open_lines(folder / RECORDS) as file:
        while lines := file.readlines(BLOCK):
            heads.update(map(begin, lines if lines[-1].endswith(b"\n") else lines[:-1]))
    counts, sizes = Counter[bytes](), dict[bytes, int]()
    for head, count in heads.items():
        if match := HEAD.match(head):
            counts[match[1]] += count
            sizes[match[1]] = int(match[2])
    return {unit.decode(errors="replace") for unit, count in counts.items() if count >= sizes[unit]}
