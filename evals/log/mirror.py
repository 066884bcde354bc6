"""Mirror of a run in object storage: segments uploaded while the run goes on, and copies of them in the cache.

Object storage cannot append, so what a file has grown by is one object, `FILE/START-END-DIGEST`; the objects of a
file in the order of their names are the file.
"""

import hashlib
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from filelock import FileLock
from pydantic import TypeAdapter

from emend.evals.config.run_config import RunConfig
from emend.evals.log.lines import BASELINE, CASES, COSTS, ERRORS, EVENTS, RECORDS, parser_of
from emend.evals.log.manifest import MANIFEST, Manifest, changes, decisive_fields
from emend.evals.log.records import write_errors
from emend.memory.distribution import install_command
from emend.memory.edit import content_id
from emend.memory.errors import BadData, BadSettings, EmendError, FetchFailed, MissingExtra, RunRefused
from emend.memory.files import open_file, private_folder, replace_file
from emend.memory.paths import cache_folder
from emend.memory.redaction import hide_keys

MIRRORED = (CASES, EVENTS, RECORDS, ERRORS, BASELINE, COSTS)
"""In the order of their upload: the events of a mirrored unit are always there."""
SEGMENT_BYTES = 16 * 2**20
MANIFEST_BYTES = 64 * 2**20
PERIOD = 30.0
"""Seconds between uploads."""
PATIENCE = 120.0
"""Seconds that the start and the end of a run wait for a store from which nothing comes."""
CALL_SECONDS = 600.0
"""Seconds that one call may take: a store could list names, or send a byte from time to time, without end."""
TRIES_AT_END = 3
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://(?:([^/@]*)@)?[^@?#]*", re.ASCII)
_USER_IS_CONTAINER = ("abfs", "abfss")
_SEGMENT = re.compile(r"(\d{15})-(\d{15})-([0-9a-f]{32})", re.ASCII)


class Segment(NamedTuple):
    """A part of a file, by offset of its start and end, and the digest of its bytes."""

    start: int
    end: int
    digest: str

    @classmethod
    def of(cls, start: int, content: bytes) -> Self:
        """Make the segment of that content."""
        return cls(start, start + len(content), hashlib.sha256(content).hexdigest()[:32])

    @property
    def name(self) -> str:
        """Name of its object; names sort as the segments do."""
        return f"{self.start:015}-{self.end:015}-{self.digest}"


class MirrorStore:
    """The objects of one run at an address of fsspec; a store's own errors pass through.

    Args:
        address: PROTOCOL://..., without credentials.

    Raises:
        BadSettings: the address has another form, or credentials, which would be shown.
        MissingExtra: the protocol needs a package.
    """

    def __init__(self, address: str) -> None:
        self.address = check_address(address)
        from fsspec.core import url_to_fs

        options = {"auto_mkdir": True} if address.startswith(("file:", "local:")) else {}
        try:
            self._fs, root = url_to_fs(address, use_listings_cache=False, skip_instance_cache=True, **options)
        except ImportError as error:
            raise MissingExtra(f"'{address}' needs a package: {install_command('mirror')} ({error}).") from error
        except ValueError as error:
            raise BadSettings(f"'{address}': {hide_keys(str(error))}: give for example s3://BUCKET/FOLDER.") from error
        self._root = str(root).rstrip("/")
        self._limits = {"timeout": CALL_SECONDS} if self._fs.async_impl else {}  # others have no remote side that waits

    def segments(self, name: str) -> list[Segment]:
        """List the segments of a file, in their order; what is no whole segment is left out."""
        segments = []
        try:
            listed = self._fs.ls(f"{self._root}/{name}", detail=True, **self._limits)
        except FileNotFoundError:
            return []
        for item in listed:
            match = _SEGMENT.fullmatch(str(item["name"]).rpartition("/")[2])
            if match and item["type"] == "file":
                segment = Segment(int(match[1]), int(match[2]), match[3])
                if item["size"] == segment.end - segment.start <= SEGMENT_BYTES:
                    segments.append(segment)
        return sorted(segments)

    def read(self, name: str, segment: Segment) -> bytes:
        """Read a segment, and at most a byte more than it should have."""
        content: bytes = self._fs.cat_file(
            self._path(name, segment), start=0, end=segment.end - segment.start + 1, **self._limits
        )
        return content

    def write(self, name: str, segment: Segment, content: bytes) -> None:
        """Write a segment."""
        self._fs.pipe_file(self._path(name, segment), content, **self._limits)

    def remove(self, name: str, segment: Segment) -> None:
        """Remove a segment."""
        self._fs.rm_file(self._path(name, segment), **self._limits)

    def manifest(self) -> bytes | None:
        """Read the manifest; None if there is none."""
        path = f"{self._root}/{MANIFEST}"
        try:
            state = self._fs.info(path, **self._limits)
            if state["type"] != "file" or state["size"] > MANIFEST_BYTES:
                raise BadData(f"'{self.address}/{MANIFEST}' is no manifest of a run: give another address.")
            content: bytes = self._fs.cat_file(path, start=0, end=state["size"], **self._limits)
        except FileNotFoundError:
            return None
        return content

    def write_manifest(self, content: bytes) -> None:
        """Write the manifest."""
        self._fs.pipe_file(f"{self._root}/{MANIFEST}", content, **self._limits)

    def _path(self, name: str, segment: Segment) -> str:
        return f"{self._root}/{name}/{segment.name}"


def check_address(address: str) -> str:
    """Return the address of a mirror without its last slash.

    Raises:
        BadSettings: it has another form, or a user, password or query, which would be shown.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or "::" in address or (match[2] is not None and match[1] not in _USER_IS_CONTAINER):
        protocol = re.match(r"[\w+.-]{0,20}://", address, re.ASCII)
        raise BadSettings(
            f"--mirror is '{hide_keys(protocol[0]) + '...' if protocol else hide_keys(address[:80])}': give an address "
            "such as s3://BUCKET/FOLDER, without user, password or query; credentials are those of the environment."
        )
    return address.rstrip("/")


def matching(file: BinaryIO, segments: Sequence[Segment]) -> list[Segment]:
    """Return the first segments that follow each other from the file's start and have its bytes."""
    same: list[Segment] = []
    for segment in segments:
        start = same[-1].end if same else 0
        file.seek(start)
        if segment.start != start or Segment.of(start, file.read(segment.end - segment.start)) != segment:
            break
        same.append(segment)
    return same


class Mirror:
    """Uploads what a run's files have grown by, on a thread of its own; a context manager.

    A failure of the store is a warning, and tried again, at the latest when the `with` ends.

    Args:
        address: of the mirror; it holds nothing, or this run.
        folder: of the run, with its manifest.
        sizes: returns the sizes of files that grow, between two units.

    Raises:
        BadSettings: the address cannot be one.
        RunRefused: the address holds another run.
    """

    def __init__(self, address: str, folder: Path, sizes: Callable[[], Mapping[str, int]]) -> None:
        self._store, self._folder, self._sizes = MirrorStore(address), folder, sizes
        self._ends: dict[str, int] | None = None
        """Uploaded bytes of each file, once they are compared with what the store has."""
        self._manifest = b""
        self._uploads = 0
        self._failure: Exception | None = None
        self._warned: set[str] = set()
        self._started, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="emend-mirror", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(PATIENCE):
            self._warn(TimeoutError("no answer yet"))
        if isinstance(self._failure, RunRefused):
            raise self._failure
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        before = -1
        while self._thread.is_alive() and before < self._uploads:
            before = self._uploads
            self._thread.join(PATIENCE)
        if self._thread.is_alive() or self._failure is not None:
            logging.getLogger(__name__).warning(
                f"{self._store.address} lacks a part of the run ({reason_of(self._failure)}), which is whole in "
                f"{self._folder}; to upload the rest: emend resume {self._folder} --mirror {self._store.address}"
            )

    def _work(self) -> None:
        while not self._ending.wait(PERIOD if self._started.is_set() else 0):
            self._try()
            self._started.set()
            if isinstance(self._failure, RunRefused):
                return
        for seconds in range(TRIES_AT_END):
            time.sleep(seconds)
            self._try()
            if self._failure is None:
                return

    def _try(self) -> None:
        try:
            self._upload()
            self._failure = None
        except Exception as error:  # stores' packages raise errors of their own kinds
            self._failure = error
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        reason = reason_of(error)
        if reason not in self._warned and not isinstance(error, RunRefused):
            self._warned.add(reason)
            warn_of_failure(self._store, error)

    def _upload(self) -> None:
        manifest = (self._folder / MANIFEST).read_bytes()
        if self._ends is None:
            self._refuse_other_run(manifest)
            self._ends = {name: self._compare(name) for name in MIRRORED}
        if manifest != self._manifest:
            self._store.write_manifest(manifest)
            self._manifest = manifest
        sizes = {CASES: (self._folder / CASES).stat().st_size} | dict(self._sizes())
        for name in MIRRORED:
            with open_file(self._folder / name) as file:
                while self._ends[name] < sizes[name]:
                    self._ends[name] = self._send(name, file, self._ends[name], sizes[name])

    def _refuse_other_run(self, manifest: bytes) -> None:
        other = self._store.manifest()
        if other is not None and _identity(other) != _identity(manifest):
            raise RunRefused(
                f"'{self._store.address}' holds another run than '{self._folder}': give another --mirror address, one "
                "for each run and share."
            )

    def _compare(self, name: str) -> int:
        """Return how many bytes are in the store already; remove segments that the file does not have."""
        segments = self._store.segments(name)
        with open_file(self._folder / name) as file:
            same = matching(file, segments)
        for segment in reversed(segments[len(same) :]):
            self._store.remove(name, segment)
        return same[-1].end if same else 0

    def _send(self, name: str, file: BinaryIO, start: int, size: int) -> int:
        file.seek(start)
        content = file.read(min(SEGMENT_BYTES, size - start))
        segment = Segment.of(start, content)
        self._store.write(name, segment, content)
        self._uploads += 1
        return segment.end


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Parse the manifest of a run.

    Raises:
        BadData: it is damaged; `where` says which.
    """
    return parser_of(TypeAdapter(Manifest))(content, where)


def _identity(manifest: bytes) -> Any:
    """Return what tells a run, or share of one, from others; a damaged manifest is that of no run."""
    try:
        read = parse_manifest(manifest, MANIFEST)
    except BadData:
        return content_id(manifest.decode(errors="replace"))
    return read.started, read.share, decisive_fields(read.model_dump(mode="json"))


def warn_of_failure(store: MirrorStore, error: Exception) -> None:
    """Warn that the store failed, and that the run goes on."""
    logging.getLogger(__name__).warning(
        f"the mirror {store.address} failed ({reason_of(error)}). The run goes on, and the upload is tried again."
    )


def reason_of(error: Exception | None) -> str:
    """One line about an error, without keys."""
    text = str(error) if isinstance(error, EmendError) else f"{type(error).__name__}: {error}"
    return hide_keys(" ".join(text.split()))[:300] if error is not None else "the upload is not finished"


COPY_BYTES = 100 * 2**30
SPARE_BYTES = 100 * 2**20
LOCK_SECONDS = 600
ROOM = "Make room, or set EMEND_CACHE to another folder."


def copy_mirror(address: str) -> Path:
    """Return the run folder with a copy of what the mirror holds now.

    Raises:
        BadSettings: it is no address of a mirror.
        FetchFailed: the store cannot be read, or there is no room for the copy.
        BadData: the mirror is damaged.
    """
    store = MirrorStore(address)
    name = store.address.rpartition("/")[2] or "run"
    folder = cache_folder("mirrors") / content_id(store.address) / name.replace("\\", "")[:100]
    try:
        with write_errors(f"'{folder}'", ROOM):
            private_folder(folder)
            open_file(folder.parent / "copy.lock", "ab").close()
        with FileLock(folder.parent / "copy.lock", timeout=LOCK_SECONDS):
            _copy(store, folder, ROOM)
    except EmendError:
        raise
    except Exception as error:  # stores' packages raise errors of their own kinds
        raise FetchFailed(
            f"cannot read '{store.address}' ({reason_of(error)}): check address, connection and rights."
        ) from error
    return folder


def restore_run(address: str, folder: Path, config: RunConfig) -> None:
    """Bring the files of a run back into a folder that has none; that the store cannot be read is a warning.

    Raises:
        BadSettings: it is no address of a mirror.
        RunRefused: another run is mirrored there.
        BadData: the mirror is damaged.
    """
    store = MirrorStore(address)
    if os.path.lexists(folder / MANIFEST):
        return
    try:
        if (content := store.manifest()) is None:
            return
        manifest = parse_manifest(content, f"{store.address}/{MANIFEST}")
        then, now = (decisive_fields({"config": each.model_dump(mode="json")}) for each in (manifest.config, config))
        if different := "; ".join(changes(then, now)):
            raise RunRefused(f"'{store.address}' holds another run ({different}): give another --mirror address.")
        _copy(store, folder, "Make room, or give another --out.")
    except EmendError:
        raise
    except Exception as error:  # stores' packages raise errors of their own kinds
        warn_of_failure(store, error)


def _copy(store: MirrorStore, folder: Path, remedy: str) -> None:
    manifest = store.manifest()
    if manifest is None:
        raise BadData(f"'{store.address}' is no mirror of a run: it has no {MANIFEST}. `emend run --mirror` makes one.")
    # Records are listed first: the events of the ones listed are there.
    listed = {name: _whole(store, name) for name in sorted(MIRRORED, key=lambda name: name != RECORDS)}
    size = sum(segments[-1].end for segments in listed.values() if segments)
    there = sum(path.stat().st_size for path in folder.iterdir())
    if size > COPY_BYTES or size - there + SPARE_BYTES > shutil.disk_usage(folder).free:
        raise FetchFailed(
            f"'{store.address}' has {size // 2**20} MB, too many for '{folder}' (at most {COPY_BYTES // 2**30} GB, and "
            "what is free): make room, or set EMEND_CACHE to another folder."
        )
    for name, segments in listed.items():
        _update(store, folder / name, segments, remedy)
    with write_errors(f"'{folder / MANIFEST}'", remedy):
        replace_file(folder / MANIFEST, manifest)


def _whole(store: MirrorStore, name: str) -> list[Segment]:
    segments, end = store.segments(name), 0
    for segment in segments:
        if segment.start != end or segment.end <= end:
            raise BadData(
                f"'{store.address}/{name}' lacks what is between byte {end} and {segment.start}: upload it again with "
                "`emend resume RUN --mirror` where the run is."
            )
        end = segment.end
    return segments


def _update(store: MirrorStore, path: Path, segments: list[Segment], remedy: str) -> None:
    """Bring the copy of a file up to date; what it has already is compared, not read again."""
    with write_errors(f"'{path}'", remedy):
        open_file(path, "ab").close()
    with open_file(path, "r+b", buffering=0) as file:
        same = matching(file, segments)
        end = same[-1].end if same else 0
        file.truncate(end)
        file.seek(end)
        for segment in segments[len(same) :]:
            content = store.read(path.name, segment)
            if Segment.of(segment.start, content) != segment:
                raise BadData(f"'{store.address}/{path.name}/{segment.name}' is damaged: its digest is another.")
            with write_errors(f"'{path}'", remedy):  # around this alone: a store's errors are OSErrors, too
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
