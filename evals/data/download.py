"""Download of benchmark files from their origins (`sources.toml`), only over https and of limited
size.

A file gets its final name only after verification. Redirects to other servers are refused: no
source needs them (raw.githubusercontent.com and baulab.info serve their files directly), and a file
of another server is not the published one.
"""

import errno
import hashlib
import logging
import tomllib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlsplit

import pooch
import requests
from pydantic import AfterValidator, ValidationError
from urllib3.exceptions import MaxRetryError

from emend.evals.data.benchmarks.rows import sha256
from emend.evals.data.transfer import Rate, check_status, open_response, read_piece
from emend.memory.distribution import installed_version
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, FetchFailed, problem_of
from emend.memory.files import replace_file
from emend.memory.json_files import read_json
from emend.memory.registry import nearest

RAW = "https://raw.githubusercontent.com"


def _inside(name: str) -> str:
    """Return a file's path, if it lies below the data folder.

    Raises:
        ValueError: the path leads out of the data folder.
    """
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name:
        raise ValueError(f"'{name}' is not a plain path below a folder")
    return name


Name = Annotated[str, AfterValidator(_inside)]


class Remote(FrozenModel):
    """A file to download."""

    name: Name
    """Path below the data folder, where the loader looks for the file."""
    url: str
    licence: str
    repository: str = ""
    commit: str = ""
    """Git commit; "" if the origin has no versions."""
    digest: str = ""
    """`sha256:HEX`, or `git-blob:HEX`, git's id of the content; "" if neither is known."""
    size: int | None = None
    """Size in bytes; None if unknown."""


class Made(FrozenModel):
    """A file that is not published in the needed form, but made from other files."""

    name: Name
    inputs: tuple[str, ...]
    maker: str
    """Key of `MAKERS` in `pull`."""
    licence: str


class DataSource(FrozenModel):
    """All files of a benchmark; `notes` explain which files cannot be obtained, and other
    peculiarities.
    """

    name: str
    remotes: tuple[Remote, ...]
    derived: tuple[Made, ...] = ()
    notes: tuple[str, ...] = ()


def _remote(entry: dict[str, Any], repositories: dict[str, dict[str, str]]) -> Remote:
    """Build a remote file from an entry of `sources.toml`, which names a GitHub repository or a
    URL.
    """
    if "url" in entry:
        return Remote(**entry)
    repository = repositories[entry["repository"]]
    path, commit = entry["path"], entry.get("commit", repository["commit"])
    return Remote(
        **{"name": PurePosixPath(path).name, "licence": repository["licence"]}
        | {key: value for key, value in entry.items() if key in ("name", "digest", "size")},
        url=f"{RAW}/{repository['owner']}/{commit}/{path}",
        repository=f"github.com/{repository['owner']}",
        commit=commit,
    )


def _read_sources() -> dict[str, DataSource]:
    content = tomllib.loads(Path(__file__).with_name("sources.toml").read_text("utf-8"))
    sources: dict[str, DataSource] = {}
    for name, source in content["sources"].items():
        remotes = [_remote(file, content["repositories"]) for file in source["remotes"]]
        sources[name] = DataSource(name=name, **source | {"remotes": remotes})
    return sources


SOURCES: dict[str, DataSource] = _read_sources()


def source_of(name: str) -> DataSource:
    """Return the sources of a benchmark's files.

    Raises:
        BadSettings: the benchmark does not exist or needs no files.
    """
    if name == "tinyworld":
        raise BadSettings("tinyworld needs no data: its world is generated on use.")
    if name not in SOURCES:
        raise BadSettings(f"unknown data '{name}': {nearest(name, list(SOURCES))}")
    return SOURCES[name]


LEDGER = "SOURCES.json"
POINTER = b"version https://git-lfs.github.com/spec/"


class SourceEntry(FrozenModel):
    """Origin, version, licence, date and checksum of one file."""

    origin: str
    url: str = ""
    commit: str = ""
    licence: str
    sha256: str
    bytes: int
    pinned: bool
    """True if the file matches a checksum that was known before the download."""
    fetched: str
    made_of: tuple[str, ...] = ()


class SourceLedger(FrozenModel):
    """Content of SOURCES.json, which is stored beside the files."""

    data: str
    files: dict[str, SourceEntry] = {}

    @classmethod
    def read(cls, folder: Path, data: str = "") -> "SourceLedger":
        """Read the ledger of a folder; it is empty if the folder has no SOURCES.json.

        Raises:
            BadData: the file is malformed.
        """
        path = folder / LEDGER
        if not path.is_file():
            return cls(data=data)
        try:
            return cls.model_validate(read_json(path, links=True))
        except (BadData, ValidationError) as error:
            reason = str(error)
            if isinstance(error, ValidationError):
                reason = problem_of(error.errors(include_url=False)[0])
            raise BadData(
                f"{path}: {reason}. Remove it: without it, changes of the files are not detected."
            ) from error

    def put(self, folder: Path, name: str, entry: SourceEntry) -> "SourceLedger":
        """Write the ledger with one more entry, and return the new ledger."""
        ledger = self.model_copy(update={"files": {**self.files, name: entry}})
        replace_file(folder / LEDGER, (ledger.model_dump_json(indent=1) + "\n").encode())
        return ledger


def digest_like(path: Path, digest: str) -> str:
    """Return the file's checksum in the format of `digest`: `sha256:HEX` or `git-blob:HEX`."""
    kind = digest.partition(":")[0]
    if kind == "sha256":
        return f"sha256:{sha256(path)}"
    if kind == "git-blob":
        with path.open("rb") as file:
            # Git's blob id uses SHA-1; it identifies the content and is not used for security.
            digest_ = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
            while chunk := file.read(1 << 20):
                digest_.update(chunk)
        return f"git-blob:{digest_.hexdigest()}"
    raise ValueError(f"unknown kind of checksum: {digest}")


def is_pointer(path: Path) -> bool:
    """Return True if the file is a Git LFS pointer instead of the actual file."""
    with path.open("rb") as file:
        return file.read(len(POINTER)) == POINTER


# Called with the number of bytes received and the file's size (None if the server does not send
# it).
Report = Callable[[int, int | None], None]
RETRIES = 3
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Maximum size in bytes of a file of unknown size; ten times the largest source.
LARGEST = 1 << 30


class HostUnreachable(FetchFailed):
    """Raised if a server does not respond at all, so that its other files are not tried."""


def check_url(url: str) -> None:
    """Check that a URL is https, or http on this machine.

    Raises:
        BadSettings: any other URL.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise BadSettings(
            f"'{url}' cannot be fetched: only https is supported, and http on this machine."
        )


def download(remote: Remote, folder: Path, report: Report, retries: int = RETRIES) -> Path:
    """Download a file to `folder / remote.name`; pooch retries, verifies a SHA-256, and moves the
    file to its final path.

    Raises:
        FetchFailed: the file does not exist, the server refuses it or interrupts the transfer too
            often, or the file cannot be written.
        HostUnreachable: the server cannot be reached.
        BadData: the content differs from the expected one.
        BadSettings: the URL is not https.
    """
    check_url(remote.url)
    logging.getLogger(pooch.get_logger().name).setLevel(logging.WARNING)
    downloader = ResumingDownloader(remote, folder / f"{remote.name}.part", report)
    known = remote.digest if remote.digest.startswith("sha256:") else None
    urls, registry = {remote.name: remote.url}, {remote.name: known}
    source = pooch.create(
        path=folder, base_url="", registry=registry, urls=urls, retry_if_failed=retries
    )
    try:
        return Path(source.fetch(remote.name, downloader=downloader))
    except requests.TooManyRedirects as error:
        raise FetchFailed(f"{remote.url} cannot be resolved: {error}.") from error
    except requests.RequestException as error:
        raise downloader.interrupted(error) from error
    except OSError as error:
        raise unwritable(downloader.part, error) from error
    except ValueError as error:
        raise BadData(
            f"{remote.url} is not the expected file: {error} Fetch it again; if that fails, the "
            "origin has changed."
        ) from error


class ResumingDownloader:
    """Downloader for pooch that keeps an interrupted transfer as `part` and resumes after the bytes
    received.

    Only files that cannot change between two attempts are resumed: those of a fixed commit or with
    a known checksum.
    """

    def __init__(self, remote: Remote, part: Path, report: Report) -> None:
        self.remote, self._report = remote, report
        self._fixed = remote.digest or remote.commit
        self.part = part.with_name(f"{part.stem}.{self._fixed[-12:]}.part") if self._fixed else part

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Write the verified content to `output_file`.

        Raises:
            requests.RequestException, ValueError: a retry may help. FetchFailed, BadData,
                BadSettings: a retry cannot help.
        """
        offset = 0
        if self._fixed and self.part.is_file():
            offset = self.part.stat().st_size
        headers = {"Accept-Encoding": "identity", "User-Agent": f"emend/{installed_version()}"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        with open_response(url, headers) as response:
            if response.status_code == 416:
                self.part.unlink()
            check_status(response)
            self._receive(response, offset if response.status_code == 206 else 0)
        self._verify()
        self.part.replace(output_file)

    def interrupted(self, error: requests.RequestException) -> FetchFailed:
        """Return the error to raise after the last attempt failed; it states how many bytes are
        kept.
        """
        reason = error.args[0] if error.args else type(error).__name__
        remedy = "Try again later."
        if self._fixed and self.part.exists():
            remedy += (
                f" {self.part.stat().st_size:,} bytes are kept; the same command continues from "
                "there."
            )
        if isinstance(reason, MaxRetryError):
            return HostUnreachable(
                f"no connection to {urlsplit(self.remote.url).hostname}: {reason.reason}. {remedy}"
            )
        return FetchFailed(f"{self.remote.url} was interrupted: {reason}. {remedy}")

    def _receive(self, response: requests.Response, size: int) -> None:
        length = response.headers.get("Content-Length", "")
        if length.isdecimal() and len(length) < 20:
            total = size + int(length)
        else:
            total = None
        most = self.remote.size or LARGEST
        rate = Rate(size)
        with self.part.open("ab" if size else "wb") as file:
            while chunk := read_piece(response):
                file.write(chunk)
                file.flush()
                size += len(chunk)
                if size > most:
                    break
                rate.check(size)
                self._report(size, total)
        if size > most:
            self.part.unlink()
            raise BadData(
                f"{self.remote.url} is larger than the expected file: more than {most:,} bytes."
            )

    def _verify(self) -> None:
        """Check what pooch cannot: Git LFS pointers and git blob ids."""
        if is_pointer(self.part):
            self.part.unlink()
            raise BadData(
                f"{self.remote.url} is only Git LFS's pointer to the file: clone "
                f"https://{self.remote.repository} with git lfs installed, and put the file into "
                f"the data folder as {self.remote.name}."
            )
        if self.remote.size is not None and (size := self.part.stat().st_size) != self.remote.size:
            raise ValueError(
                f"{size:,} bytes were received, but {self.remote.size:,} are expected."
            )
        expected = self.remote.digest
        if (
            expected.startswith("git-blob:")
            and (actual := digest_like(self.part, expected)) != expected
        ):
            self.part.unlink()
            raise ValueError(f"expected {expected} but got {actual}.")


def unwritable(path: Path, error: OSError) -> FetchFailed:
    """Return the error for a file or folder that cannot be written."""
    if error.errno == errno.ENOSPC:
        return FetchFailed(f"no space left for '{path}': free some, or give another --to.")
    return FetchFailed(
        f"cannot write to '{path}': {error.strerror or error}. Make it writable, or "
        "give another --to."
    )
