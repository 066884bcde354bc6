"""The runs in a folder, and how far each is."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

from emend.evals.log.lines import COSTS, ERRORS, RECORDS, SCHEMAS, parser_of
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.evals.log.records import read_lines
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, MissingData
from emend.memory.files import file_identity, line_ends, open_file

HEAD = re.compile(rb'\{"unit":"([^"\\]+)","of":(\d{1,9}),')
"""Beginning of a record: its unit, and the number of that unit's records."""
HEAD_BYTES = 64
"""Maximum length of that; further bytes would differ between the records of a unit, and each be looked at."""
BLOCK = 2**17
"""Bytes that are read at once."""
_COST = parser_of(SCHEMAS[COSTS])


class RunRow(FrozenModel):
    """A run: its configuration in short, and its units; `started` is an ISO date."""

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
    """The runs in a folder, or the folder itself if it is a run, by the time of their start.

    Folders without a readable manifest are no runs; links are not followed.

    Raises:
        MissingData: there is no such folder, or no run in it.
    """
    if not folder.is_dir():
        raise MissingData(f"'{folder}' is no folder: name the one that holds the run folders.")
    places = [folder] if (folder / MANIFEST).exists() else sorted(folder.iterdir())
    runs = [row for place in places if not place.is_symlink() for row in _rows(place)]
    if not runs:
        raise MissingData(f"'{folder}' holds no run: name the folder that holds the run folders.")
    return sorted(runs, key=lambda row: row.started)


def _rows(folder: Path) -> Iterator[RunRow]:
    """The row of a run folder; none for any other place."""
    with suppress(BadData):
        manifest = Manifest.read(folder)
        finished, failed = _count_units(folder)
        config = manifest.config
        yield RunRow(
            folder=str(folder),
            **config.model_dump(include={"benchmark", "model", "editors"}),
            mode=manifest.mode or config.mode or "",
            started=manifest.started,
            units=manifest.units,
            finished=finished,
            failed=failed,
        )


def _count_units(folder: Path) -> tuple[int, int]:
    """The numbers of a run's finished and failed units.

    Raises:
        BadData: a file is no regular one.
    """
    if counts := _counts_at_end(folder):
        return counts
    units = _finished(folder)
    failures = {str(line.get("unit")) for line in read_lines(folder, ERRORS)} - units
    return len(units), len(failures)


def _counts_at_end(folder: Path) -> tuple[int, int] | None:
    """The numbers that the last process of a run wrote when it ended; None where none did, or more came since."""
    with suppress(FileNotFoundError, BadData, KeyError), open_file(folder / COSTS) as file:
        end, start = islice(chain(line_ends(file), (0, 0)), 2)
        file.seek(start)
        line = _COST(file.read(end - start), str(folder / COSTS))
        if line.get("record_bytes") == file_identity(folder / RECORDS)[1]:
            finished = line["skipped"] + line["finished"]
            # Units that failed in an earlier process alone are not among the failed ones of this line.
            if finished + line["failed"] == line["units"] or not file_identity(folder / ERRORS)[1]:
                return finished, line["failed"]
    return None


def _finished(folder: Path) -> set[str]:
    """Units with all their records, read by the records' beginnings alone."""
    heads, begin = Counter[bytes](), itemgetter(slice(HEAD_BYTES))
    with suppress(FileNotFoundError), open_file(folder / RECORDS) as file:
        while lines := file.readlines(BLOCK):
            heads.update(map(begin, lines if lines[-1].endswith(b"\n") else lines[:-1]))
    counts, sizes = Counter[bytes](), dict[bytes, int]()
    for head, count in heads.items():
        if match := HEAD.match(head):
            counts[match[1]] += count
            sizes[match[1]] = int(match[2])
    return {unit.decode(errors="replace") for unit, count in counts.items() if count >= sizes[unit]}
