"""Download of benchmarks' files from their origins (`sources.toml`): only over https, and of bounded size.

A file gets its name only after it was verified. Redirects to another server are refused: none of the sources needs
one (raw.githubusercontent.com and baulab.info send their files themselves), and another server's file is not the
published one.
"""

import errno
import hashlib
import logging
import tomllib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import urljoin, urlsplit

import pooch
import requests
from pydantic import AfterValidator, ValidationError
from urllib3.exceptions import MaxRetryError

from emend.evals.data.benchmarks.rows import sha256
from emend.memory.distribution import installed_version
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, FetchFailed
from emend.memory.files import replace_file
from emend.memory.json_files import read_json
from emend.memory.registry import nearest

RAW = "https://raw.githubusercontent.com"


def _inside(name: str) -> str:
    """Return a file's path below the data folder.

    Raises:
        ValueError: it would lie elsewhere.
    """
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name:
        raise ValueError(f"'{name}' is no plain path below a folder")
    return name


Name = Annotated[str, AfterValidator(_inside)]


class Remote(FrozenModel):
    """File to fetch."""

    name: Name
    """Its place below the data folder, where the loader looks."""
    url: str
    licence: str
    repository: str = ""
    commit: str = ""
    """"" where the origin has no versions."""
    digest: str = ""
    """`sha256:HEX`, or `git-blob:HEX`, git's own id of the content; "" where neither is known."""
    size: int | None = None
    """In bytes, where it is known."""


class Made(FrozenModel):
    """File that is not published in the needed form, made from others of the table."""

    name: Name
    inputs: tuple[str, ...]
    maker: str
    """A key of `make.MAKERS`."""
    licence: str


class DataSource(FrozenModel):
    """All files of a benchmark; `notes` say what cannot be had, or what else must be known."""

    name: str
    remotes: tuple[Remote, ...]
    derived: tuple[Made, ...] = ()
    notes: tuple[str, ...] = ()


def _remote(entry: dict[str, Any], repositories: dict[str, dict[str, str]]) -> Remote:
    """Build a remote file of `sources.toml`: one of a repository at GitHub, or one with a URL of its own."""
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
    return {
        name: DataSource(
            name=name, **source | {"remotes": [_remote(file, content["repositories"]) for file in source["remotes"]]}
        )
        for name, source in content["sources"].items()
    }


SOURCES: dict[str, DataSource] = _read_sources()


def source_of(name: str) -> DataSource:
    """The sources of a benchmark's files.

    Raises:
        BadSettings: there is no such benchmark, or it needs no files.
    """
    if name == "tinyworld":
        raise BadSettings("tinyworld needs no data: its world is made when it is used.")
    if name not in SOURCES:
        raise BadSettings(f"no data called '{name}': {nearest(name, list(SOURCES))}")
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
    """True if a checksum was known before the download, and agreed."""
    fetched: str
    made_of: tuple[str, ...] = ()


class SourceLedger(FrozenModel):
    """Content of SOURCES.json, which lies beside the files."""

    data: str
    files: dict[str, SourceEntry] = {}

    @classmethod
    def read(cls, folder: Path, data: str = "") -> "SourceLedger":
        """Read the ledger of a folder; an empty one if the folder has no SOURCES.json.

        Raises:
            BadData: the file is malformed.
        """
        path = folder / LEDGER
        if not path.is_file():
            return cls(data=data)
        try:
            return cls.model_validate(read_json(path, links=True))
        except (BadData, ValidationError) as error:
            reason = error if isinstance(error, BadData) else error.errors(include_url=False)[0]["msg"]
            raise BadData(f"{path}: {reason}. Remove it: without it, changes of the files are not noticed.") from error

    def put(self, folder: Path, name: str, entry: SourceEntry) -> "SourceLedger":
        """Write the ledger with one more entry, and return it."""
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
            # Git's id of a content; SHA-1, which git chose, is not this project's choice of a safe hash.
            digest_ = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
            while chunk := file.read(1 << 20):
                digest_.update(chunk)
        return f"git-blob:{digest_.hexdigest()}"
    raise ValueError(f"unknown kind of checksum: {digest}")


def is_pointer(path: Path) -> bool:
    """Return True if the file is a pointer of Git LFS, not the file itself."""
    with path.open("rb") as file:
        return file.read(len(POINTER)) == POINTER


Report = Callable[[int, int | None], None]
"""Called with the bytes that have arrived and the file's size, None where the server does not send it."""
RETRIES = 3
TIMEOUT = (15.0, 30.0)
"""Seconds for the connection, and between two packets."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
TRANSIENT = (408, 416, 425, 429)
LARGEST = 1 << 30
"""Maximum size in bytes of a file whose size is not known; the largest source has a tenth of it."""
_CHUNK = 1 << 16


class HostUnreachable(FetchFailed):
    """Raised when a server does not answer at all, so that its other files need not be tried."""


def check_url(url: str) -> None:
    """Accept https, and http on this machine.

    Raises:
        BadSettings: any other URL.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise BadSettings(f"'{url}' is not fetched: only https is, and http on this machine.")


def download(remote: Remote, folder: Path, report: Report, retries: int = RETRIES) -> Path:
    """Download to `folder / remote.name`; pooch retries, verifies a SHA-256 and moves the verified file into place.

    Raises:
        FetchFailed: the file does not exist, the server refuses it or breaks off too often, or it cannot be written.
        HostUnreachable: no connection.
        BadData: the content is not the expected one.
        BadSettings: the URL is not https.
    """
    check_url(remote.url)
    logging.getLogger(pooch.get_logger().name).setLevel(logging.WARNING)
    downloader = ResumingDownloader(remote, folder / f"{remote.name}.part", report)
    known = remote.digest if remote.digest.startswith("sha256:") else None
    urls, registry = {remote.name: remote.url}, {remote.name: known}
    source = pooch.create(path=folder, base_url="", registry=registry, urls=urls, retry_if_failed=retries)
    try:
        return Path(source.fetch(remote.name, downloader=downloader))
    except requests.TooManyRedirects as error:
        raise FetchFailed(f"{remote.url} leads nowhere: {error}.") from error
    except requests.RequestException as error:
        raise downloader.interrupted(error) from error
    except OSError as error:
        raise unwritable(downloader.part, error) from error
    except ValueError as error:
        raise BadData(
            f"{remote.url} is not the expected file: {error} Fetch it again; if that fails, the origin has changed."
        ) from error


class ResumingDownloader:
    """Downloader of one file for pooch that keeps an interrupted transfer as `part` and continues behind its bytes.

    Only files that cannot change between two attempts are continued, those of a fixed commit or with a known checksum.
    """

    def __init__(self, remote: Remote, part: Path, report: Report) -> None:
        self.remote, self._report = remote, report
        self._fixed = remote.digest or remote.commit
        self.part = part.with_name(f"{part.stem}.{self._fixed[-12:]}.part") if self._fixed else part

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Write the verified content to `output_file`.

        Raises:
            requests.RequestException, ValueError: worth another attempt.
            FetchFailed, BadData, BadSettings: not worth one.
        """
        offset = self.part.stat().st_size if self._fixed and self.part.is_file() else 0
        headers = {"Accept-Encoding": "identity", "User-Agent": f"emend/{installed_version()}"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        hooks = {"response": _check_redirect}
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT, hooks=hooks) as response:
            if response.status_code == 416:
                self.part.unlink()
            _check_status(response)
            self._receive(response, offset if response.status_code == 206 else 0)
        self._verify()
        self.part.replace(output_file)

    def interrupted(self, error: requests.RequestException) -> FetchFailed:
        """Return the error to raise when the last attempt has failed; it says how much is kept."""
        reason = error.args[0] if error.args else type(error).__name__
        remedy = "Try again later."
        if self._fixed and self.part.exists():
            remedy += f" {self.part.stat().st_size:,} bytes are kept; the same command continues behind them."
        if isinstance(reason, MaxRetryError):
            return HostUnreachable(f"no connection to {urlsplit(self.remote.url).hostname}: {reason.reason}. {remedy}")
        return FetchFailed(f"{self.remote.url} broke off: {reason}. {remedy}")

    def _receive(self, response: requests.Response, size: int) -> None:
        length = response.headers.get("Content-Length", "")
        total = size + int(length) if length.isdecimal() and len(length) < 20 else None
        most = self.remote.size or LARGEST
        with self.part.open("ab" if size else "wb") as file:
            for chunk in response.iter_content(_CHUNK):  # unpacked where the server compresses
                file.write(chunk)
                file.flush()
                size += len(chunk)
                if size > most:
                    break
                self._report(size, total)
        if size > most:
            self.part.unlink()
            raise BadData(f"{self.remote.url} is larger than the expected file: more than {most:,} bytes.")

    def _verify(self) -> None:
        """Check what pooch cannot: a pointer of Git LFS, and git's own id of a content."""
        if is_pointer(self.part):
            self.part.unlink()
            raise BadData(
                f"{self.remote.url} is only Git LFS's pointer to the file: clone https://{self.remote.repository} with "
                f"git lfs installed, and put the file into the data folder as {self.remote.name}."
            )
        if self.remote.size is not None and (size := self.part.stat().st_size) != self.remote.size:
            raise ValueError(f"{size:,} bytes came, and {self.remote.size:,} are expected.")
        expected = self.remote.digest
        if expected.startswith("git-blob:") and (actual := digest_like(self.part, expected)) != expected:
            self.part.unlink()
            raise ValueError(f"expected {expected} but got {actual}.")


def _check_redirect(response: requests.Response, *args: object, **kwargs: object) -> None:
    target = urljoin(response.url, response.headers["Location"]) if response.is_redirect else response.url
    if urlsplit(target)[:2] != urlsplit(response.url)[:2]:
        raise FetchFailed(f"{response.url} leads to another server, which is not followed: {target[:200]}.")


def _check_status(response: requests.Response) -> None:
    code = response.status_code
    if code < 400:
        return
    message = f"{response.url} answers {code} {response.reason}".rstrip()
    if code in TRANSIENT or code >= 500:
        raise requests.HTTPError(message, response=response)
    if code in (404, 410):
        raise FetchFailed(
            f"{message}: the file does not exist any more. Look for it at its origin (emend data list), and put it "
            "into the data folder under its name."
        )
    raise FetchFailed(f"{message}: the server does not allow this download.")


def unwritable(path: Path, error: OSError) -> FetchFailed:
    """Return the error about a file or folder that cannot be written."""
    if error.errno == errno.ENOSPC:
        return FetchFailed(f"no space left for '{path}': free some, or give another --to.")
    return FetchFailed(f"cannot write to '{path}': {error.strerror or error}. Make it writable, or give another --to.")
