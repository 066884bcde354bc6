"""Fetches all files of a benchmark into a folder, checks them, and writes down whence they came."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import httpx
from filelock import FileLock, Timeout

from emend.evals.benchmarks.files import sha256
from emend.evals.data.digests import Entry, Ledger, digest_like, is_pointer
from emend.evals.data.fetch import PATIENCE, HostGone, client, download, finish, forget
from emend.evals.data.make import make
from emend.evals.data.progress import Progress, Quiet
from emend.evals.data.sources import DataSource, Made, Remote
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, EmendError, FetchFailed

LOCK = ".pull.lock"
Status = Literal["fetched", "made", "there", "kept", "failed"]


class Outcome(FrozenModel):
    """What became of one file: `there` is as it was fetched before, `kept` is the user's own and was not touched."""

    name: str
    status: Status
    bytes: int = 0
    sha256: str = ""
    pinned: bool = False
    licence: str = ""
    problem: str = ""


class Puller:
    """Fetches the files of one source into one folder; use once, from one thread.

    A file that fails does not stop the others. Nothing stands under its final name before it was checked.
    """

    def __init__(
        self, source: DataSource, folder: Path, progress: Progress | None = None, patience: Sequence[float] = PATIENCE
    ) -> None:
        self.source, self.folder = source, folder
        self._progress: Progress = progress or Quiet()
        self._patience = patience
        self._gone: dict[str, str] = {}
        """Hosts that did not answer, and what is said of them."""

    def pull(self) -> list[Outcome]:
        """Fetch what is missing, make what is made of it, and say what became of each file.

        Raises:
            FetchFailed: the folder cannot be written, or another process fetches into it.
            BadData: the folder's SOURCES.json is broken.
        """
        with _owned(self.folder):
            self._ledger = Ledger.read(self.folder, self.source.name)
            with client() as http:
                found = [self._try(remote, http) for remote in self.source.remotes]
            done = {outcome.name: outcome for outcome in found}
            return found + [self._try_made(made, done) for made in self.source.made]

    def _try(self, remote: Remote, http: httpx.Client) -> Outcome:
        host = httpx.URL(remote.url).host
        try:
            return self._there(remote, remote.digest) or self._fetch(remote, http, host)
        except HostGone as error:
            self._gone[host] = str(error)
            return self._failed(remote, error)
        except (EmendError, OSError) as error:
            return self._failed(remote, error)

    def _fetch(self, remote: Remote, http: httpx.Client, host: str) -> Outcome:
        if host in self._gone:
            raise FetchFailed(f"not tried, as {host} did not answer before.")
        target = self._place(remote.name)
        part = target.with_name(f"{target.name}.part")
        with self._progress.file(remote.name, remote.size) as told:
            download(http, remote.url, part, told, self._patience)
        _check(part, remote)
        entry = Entry(
            origin=remote.repository or httpx.URL(remote.url).host,
            url=remote.url,
            commit=remote.commit,
            licence=remote.licence,
            sha256=sha256(part),
            bytes=part.stat().st_size,
            pinned=bool(remote.digest),
            fetched=_now(),
        )
        finish(part, target)
        return self._kept("fetched", remote.name, entry)

    def _try_made(self, made: Made, done: dict[str, Outcome]) -> Outcome:
        if broken := [name for name in made.inputs if done[name].status == "failed"]:
            return self._failed(made, FetchFailed(f"is made of {', '.join(broken)}, which failed."))
        try:
            fresh = any(done[name].status == "fetched" for name in made.inputs)
            there = self._there(made, "")
            if there and not (fresh and there.status == "there"):
                return there
            return self._make(made)
        except (EmendError, OSError) as error:
            return self._failed(made, error)

    def _make(self, made: Made) -> Outcome:
        target = self._place(made.name)
        make(made.maker, self.folder, target)
        entry = Entry(
            origin="made by emend data pull",
            licence=made.licence,
            sha256=sha256(target),
            bytes=target.stat().st_size,
            pinned=False,
            fetched=_now(),
            made_of=made.inputs,
        )
        return self._kept("made", made.name, entry)

    def _there(self, file: Remote | Made, digest: str) -> Outcome | None:
        """What is said of a file that is there already; None if it is not.

        Raises:
            BadData: it is not the file that it should be; it is left alone.
        """
        target = self._place(file.name)
        if not target.is_file():
            return None
        size, entry = target.stat().st_size, self._ledger.files.get(file.name)
        found, wanted = f"sha256:{sha256(target)}", f"sha256:{entry.sha256}" if entry else ""
        if digest:
            found, wanted = digest_like(target, digest), digest
        if wanted and found != wanted:
            raise BadData(
                f"{target} is there already and is another file: {found}, expected {wanted}. "
                "It is left as it is: move it away to fetch the right one."
            )
        status: Status = "there" if wanted else "kept"
        sum_ = sha256(target)
        return Outcome(
            name=file.name, status=status, bytes=size, sha256=sum_, pinned=bool(digest), licence=file.licence
        )

    def _place(self, name: str) -> Path:
        """Where the file goes.

        Raises:
            FetchFailed: a link leads out of the folder, or a folder cannot be made.
        """
        target = self.folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(target.parent, error) from error
        if not target.resolve().is_relative_to(self.folder.resolve()):
            raise FetchFailed(f"'{target}' leads out of the folder: take the link away.")
        return target

    def _kept(self, status: Status, name: str, entry: Entry) -> Outcome:
        self._ledger = self._ledger.put(self.folder, name, entry)
        told = {"bytes": entry.bytes, "sha256": entry.sha256, "pinned": entry.pinned, "licence": entry.licence}
        return Outcome.model_validate({"name": name, "status": status, **told})

    def _failed(self, file: Remote | Made, error: Exception) -> Outcome:
        return Outcome(name=file.name, status="failed", licence=file.licence, problem=str(error))


def _check(part: Path, remote: Remote) -> None:
    """Refuse a wrong file and keep nothing of it.

    Raises:
        BadData: the checksum is another, or this is a pointer to a file that is kept elsewhere.
    """
    if is_pointer(part):
        forget(part)
        raise BadData(
            f"{remote.url} is only Git LFS's pointer to the file: clone https://{remote.repository} with git lfs "
            f"installed, and put the file into the data folder as {remote.name}."
        )
    found = digest_like(part, remote.digest) if remote.digest else ""
    if found != remote.digest:
        size = part.stat().st_size
        forget(part)
        raise BadData(
            f"{remote.url} is not the file that is meant: it came with {size:,} bytes and {found}, expected "
            f"{remote.digest}. Nothing is kept of it. Fetch again; if it stays so, the origin has changed."
        )


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """The folder, made if need be, while no other process fetches into it."""
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise FetchFailed(f"another process fetches into '{folder}' (it holds {LOCK}): wait for it.") from error
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        yield
    finally:
        lock.release()


def _unwritable(folder: Path, error: OSError) -> FetchFailed:
    why = error.strerror or error
    return FetchFailed(f"cannot write to '{folder}': {why}. Make it writable, or give another --to.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
