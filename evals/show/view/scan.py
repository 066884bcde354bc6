"""Search for the runs below the viewer's folders.

URLs identify a run by an id, never by a path.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from emend.evals.corrections.correction import CORRECTIONS
from emend.evals.log.folder import LOCK
from emend.evals.log.lines import BASELINE, CASES, COSTS, ERRORS, EVENTS, RECORDS
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.memory.errors import BadData, EmendError, MissingData
from emend.memory.files import file_identity

# Depth to which the folders are searched for runs.
DEPTH = 3
MAX_FOLDERS = 20_000
# Seconds for which the result of a scan is reused.
SCAN_SECONDS = 3.0
# A run counts as running if its last write is at most this many seconds ago, since file locks
# cannot be read on every system.
RECENT = 60.0
FILES = (MANIFEST, RECORDS, EVENTS, ERRORS, CASES, COSTS, BASELINE, CORRECTIONS)
_SLUG = re.compile(r"[^a-z0-9]+")

# Inode, size and modification time of each file of a run; zeros for a missing file.
FileState = tuple[tuple[int, int, int], ...]


class RunLocation(NamedTuple):
    """A run folder with its id, its name after resolving links, and its manifest."""

    id: str
    name: str
    folder: Path
    manifest: Manifest


@lru_cache(4096)
def run_id(folder: Path) -> str:
    """Return the id of a resolved run folder.

    The id is the lower-case name of the folder and a digest of its path.

    >>> run_id(Path("/runs/My run"))[:7]
    'my-run-'
    """
    slug = _SLUG.sub("-", folder.name.lower()).strip("-")[:40] or "run"
    return f"{slug}-{hashlib.blake2b(os.fsencode(folder), digest_size=3).hexdigest()}"


def file_state(folder: Path, names: Sequence[str] = FILES) -> FileState:
    """Return the state of a run's files, which changes when their content changes."""
    return tuple(file_identity(folder / name) for name in names)


def is_written(folder: Path) -> bool:
    """Return True if a process seems to write to the run folder: it is locked or changed recently.

    The folder is not modified.
    """
    if file_identity(folder / LOCK)[0] in _locked(int(time.monotonic())):
        return True
    changed = max(file_identity(folder / name)[2] for name in (RECORDS, EVENTS, ERRORS))
    return time.time() - changed / 1e9 < RECENT


@lru_cache(1)
def _locked(now: int) -> frozenset[int]:
    """Return the inodes of locked files, read once a second; empty if /proc/locks is missing."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
        return frozenset(
            int(line.split()[5].rpartition(":")[2]) for line in lines if "->" not in line
        )
    except (OSError, ValueError, IndexError):
        return frozenset()


class Scan:
    """Scan for run folders; symbolic links below the given folders are not followed.

    Args:
        folders: run folders, or folders that contain run folders.

    Raises:
        MissingData: one of `folders` is not a folder.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise MissingData(
                    f"'{folder}' is not a folder: name a run folder, or a folder with run folders."
                )
        self.folders = tuple(dict.fromkeys(folders))
        self.problems: tuple[str, ...] = ()
        self._runs: dict[str, RunLocation] = {}
        self._manifests: dict[Path, tuple[tuple[int, int, int], Manifest | str]] = {}
        self._until = 0.0

    def runs(self) -> dict[str, RunLocation]:
        """Return the runs by id, the latest first."""
        if time.monotonic() >= self._until:
            locations = sorted(
                self._locations(), key=lambda location: location.manifest.started, reverse=True
            )
            self._runs = {location.id: location for location in locations}
            self._until = time.monotonic() + SCAN_SECONDS
        return self._runs

    def find(self, name: str) -> RunLocation | None:
        """Return the run with that id, or None."""
        return self.runs().get(name)

    def _locations(self) -> Iterator[RunLocation]:
        problems = list[str]()
        for folder in dict.fromkeys(path for top in self.folders for path in _run_folders(top)):
            manifest = self._manifest(folder)
            if isinstance(manifest, str):
                problems.append(manifest)
            else:
                resolved = folder.resolve()
                yield RunLocation(run_id(resolved), resolved.name, folder, manifest)
        self.problems = tuple(problems)

    def _manifest(self, folder: Path) -> Manifest | str:
        """Return the manifest, reloaded if it changed, or the error text if it cannot be read."""
        state = file_identity(folder / MANIFEST)
        cached = self._manifests.get(folder)
        if cached is None or cached[0] != state:
            try:
                cached = state, Manifest.read(folder)
            except EmendError as error:
                cached = state, str(error)
            self._manifests[folder] = cached
        return cached[1]


def _run_folders(top: Path) -> Iterator[Path]:
    """Yield the folders with a manifest at or below a folder, breadth first."""
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
            names = [
                e.name
                for e in entries
                if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return [folder / name for name in sorted(names)]


def require_runs(scan: Scan) -> None:
    """Raise an error if a scan found no run.

    Raises:
        MissingData: there is no run.
        BadData: there are only runs that cannot be read.
    """
    if not scan.runs():
        if scan.problems:
            raise BadData(scan.problems[0])
        names = ", ".join(f"'{folder}'" for folder in scan.folders)
        raise MissingData(
            f"{names}: no run found. Make one with emend demo, or name the folder of your runs."
        )
