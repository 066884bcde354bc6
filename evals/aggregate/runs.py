"""The runs in a folder, and how far each is."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from emend.evals.log.lines import ERRORS, RECORDS
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.evals.log.records import read_lines
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, MissingData
from emend.memory.files import open_file

HEAD = re.compile(rb'\{"unit":"([^"\\]+)","of":(\d{1,9})')
"""Beginning of a record: its unit, and the number of that unit's records."""
HEAD_BYTES = 200
"""Maximum length of that."""


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
        finished = _finished(folder)
        failed = {str(line.get("unit")) for line in read_lines(folder, ERRORS)} - finished
        config = manifest.config
        yield RunRow(
            folder=str(folder),
            benchmark=config.benchmark,
            model=config.model,
            editors=config.editors,
            mode=manifest.mode or config.mode or "",
            started=manifest.started,
            units=manifest.units,
            finished=len(finished),
            failed=len(failed),
        )


def _finished(folder: Path) -> set[str]:
    """Units with all their records, read by the records' beginnings alone."""
    heads = Counter[bytes]()
    with suppress(FileNotFoundError), open_file(folder / RECORDS) as file:
        heads.update(line[:HEAD_BYTES].partition(b',"case":')[0] for line in file if line.endswith(b"\n"))
    counts, sizes = Counter[bytes](), dict[bytes, int]()
    for head, count in heads.items():
        if match := HEAD.fullmatch(head):
            counts[match[1]] += count
            sizes[match[1]] = int(match[2])
    return {unit.decode(errors="replace") for unit, count in counts.items() if count >= sizes[unit]}
