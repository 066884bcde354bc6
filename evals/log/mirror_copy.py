"""Copies of mirrors in the cache: what `emend report` and its like read when they are given an address."""

import os
import shutil
from pathlib import Path

from filelock import FileLock

from emend.evals.config.run_config import RunConfig
from emend.evals.log.lines import RECORDS
from emend.evals.log.manifest import MANIFEST, changes, decisive_fields
from emend.evals.log.mirror import MIRRORED, MirrorStore, Segment, matching, parse_manifest, reason_of, warn_of_failure
from emend.evals.log.records import write_errors
from emend.memory.edit import content_id
from emend.memory.errors import BadData, EmendError, FetchFailed, RunRefused
from emend.memory.files import open_file, private_folder, replace_file
from emend.memory.paths import cache_folder

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
