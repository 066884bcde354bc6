"""Checksums of files, and SOURCES.json, which records the origin of each fetched file."""

import hashlib
from pathlib import Path

from pydantic import ValidationError

from emend.evals.data.benchmarks.files import sha256
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.files import replace_file
from emend.memory.json_files import read_json

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
