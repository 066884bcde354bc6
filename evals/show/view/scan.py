"""The runs below the viewer's folders, found by a scan: an address names a run by an id, never by a path."""

import hashlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from emend.evals.log.folder import LOCK
from emend.evals.log.lines import BASELINE, CASES, COSTS, ERRORS, EVENTS, RECORDS
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.memory.errors import BadData, EmendError, MissingData
from emend.memory.files import file_identity

DEPTH = 3
"""Number of levels of folders below a given one that are searched for runs."""
MAX_FOLDERS = 20_000
SCAN_SECONDS = 3.0
"""Time for which a scan holds."""
RECENT = 60.0
"""Seconds since the last write within which an unfinished run counts as running where locks cannot be read."""
FILES = (MANIFEST, RECORDS, EVENTS, ERRORS, CASES, COSTS, BASELINE)
_SLUG = re.compile(r"[^a-z0-9]+")

FileState = tuple[tuple[int, int, int], ...]
"""Inode, size and time of change of each file of a run; zeros for one that is missing."""


class RunPlace(NamedTuple):
    """A run folder with its id, its name without links, and its manifest."""

    id: str
    name: str
    folder: Path
    manifest: Manifest


@lru_cache(4096)
def run_id(folder: Path) -> str:
    """The id of a run folder without links: its name as lower-case letters and digits, and a digest of its place.

    >>> run_id(Path("/runs/My run"))[:7]
    'my-run-'
    """
    slug = _SLUG.sub("-", folder.name.lower()).strip("-")[:40] or "run"
    return f"{slug}-{hashlib.blake2b(os.fsencode(folder), digest_size=3).hexdigest()}"


def file_state(folder: Path, names: Sequence[str] = FILES) -> FileState:
    """State of a run's files, which changes with their content."""
    return tuple(file_identity(folder / name) for name in names)


def is_written(folder: Path) -> bool:
    """True if a process works in the run folder, as far as the system tells; nothing in the folder is touched."""
    if file_identity(folder / LOCK)[0] in _locked(int(time.monotonic())):
        return True
    changed = max(file_identity(folder / name)[2] for name in (RECORDS, EVENTS, ERRORS))
    return time.time() - changed / 1e9 < RECENT


@lru_cache(1)
def _locked(now: int) -> frozenset[int]:
    """Inodes of files that are locked, read once a second; none where the system does not tell."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
        return frozenset(int(line.split()[5].rpartition(":")[2]) for line in lines if "->" not in line)
    except (OSError, ValueError, IndexError):
        return frozenset()


class Scan:
    """Finds run folders; symbolic links below the given folders are not followed.

    Args:
        folders: run folders, or folders that hold some.

    Raises:
        MissingData: one is no folder.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise MissingData(f"'{folder}' is no folder: name a run folder, or one that holds run folders.")
        self.folders = tuple(dict.fromkeys(folders))
        self.problems: tuple[str, ...] = ()
        self._runs: dict[str, RunPlace] = {}
        self._manifests: dict[Path, tuple[tuple[int, int, int], Manifest | str]] = {}
        self._until = 0.0

    def runs(self) -> dict[str, RunPlace]:
        """The runs by id, the latest first."""
        if time.monotonic() >= self._until:
            places = sorted(self._places(), key=lambda place: place.manifest.started, reverse=True)
            self._runs = {place.id: place for place in places}
            self._until = time.monotonic() + SCAN_SECONDS
        return self._runs

    def find(self, name: str) -> RunPlace | None:
        """The run of that id."""
        return self.runs().get(name)

    def _places(self) -> Iterator[RunPlace]:
        problems = list[str]()
        for folder in dict.fromkeys(path for top in self.folders for path in _run_folders(top)):
            manifest = self._manifest(folder)
            if isinstance(manifest, str):
                problems.append(manifest)
            else:
                resolved = folder.resolve()
                yield RunPlace(run_id(resolved), resolved.name, folder, manifest)
        self.problems = tuple(problems)

    def _manifest(self, folder: Path) -> Manifest | str:
        """The manifest, read again when it has changed; the error if it cannot be read."""
        state = file_identity(folder / MANIFEST)
        known = self._manifests.get(folder)
        if known is None or known[0] != state:
            try:
                known = state, Manifest.read(folder)
            except EmendError as error:
                known = state, str(error)
            self._manifests[folder] = known
        return known[1]


def _run_folders(top: Path) -> Iterator[Path]:
    """Folders with a manifest, the given one or those below it, breadth first."""
    level, count = [top], 0
    for _ in range(DEPTH + 1):
        below = list[Path]()
        for folder in level:
            count += 1
            if (folder / MANIFEST).exists():
                yield folder
            elif count < MAX_FOLDERS:
                below += _folders_in(folder)
        level = below


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names)]


def require_runs(scan: Scan) -> None:
    """Check that there is a run.

    Raises:
        MissingData: there is none.
        BadData: the only one cannot be read.
    """
    if not scan.runs():
        if scan.problems:
            raise BadData(scan.problems[0])
        names = ", ".join(f"'{folder}'" for folder in scan.folders)
        raise MissingData(f"{names}: no run is there. Make one with emend demo, or name the folder of your runs.")
