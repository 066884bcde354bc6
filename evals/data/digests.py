"""Checksums of files, and what is kept of each file that was fetched."""

import hashlib
import json
from pathlib import Path

from pydantic import ValidationError

from emend.evals.benchmarks.files import sha256
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData

LEDGER = "SOURCES.json"
POINTER = b"version https://git-lfs.github.com/spec/"


class Entry(FrozenModel):
    """What SOURCES.json says of one file: whence, in which version, under which licence, when, and its checksum."""

    origin: str
    url: str = ""
    commit: str = ""
    licence: str
    sha256: str
    bytes: int
    pinned: bool
    """Whether a checksum was known beforehand and agreed."""
    fetched: str
    made_of: tuple[str, ...] = ()


class Ledger(FrozenModel):
    """The content of SOURCES.json; it lies beside the files."""

    data: str
    files: dict[str, Entry] = {}

    @classmethod
    def read(cls, folder: Path, data: str = "") -> "Ledger":
        """The ledger of a folder; an empty one if there is none.

        Raises:
            BadData: it is not as it was written.
        """
        path = folder / LEDGER
        if not path.is_file():
            return cls(data=data)
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise BadData(
                f"{path}: {first['msg']}. Take it away: then the files beside it are no longer known to be unchanged, "
                "and nothing else is lost."
            ) from error

    def put(self, folder: Path, name: str, entry: Entry) -> "Ledger":
        """The ledger with this entry, written."""
        ledger = self.model_copy(update={"files": {**self.files, name: entry}})
        beside = folder / f"{LEDGER}.part"
        beside.write_text(json.dumps(ledger.model_dump(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        beside.replace(folder / LEDGER)
        return ledger


def digest_like(path: Path, digest: str) -> str:
    """The file's checksum, of the same kind as `digest`: `sha256:HEX` or `git-blob:HEX`."""
    kind = digest.partition(":")[0]
    if kind == "sha256":
        return f"sha256:{sha256(path)}"
    if kind == "git-blob":
        with path.open("rb") as file:
            # Git's id of a content; SHA-1, which git chose, is not this project's choice of a safe hash.
            sum_ = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
            while chunk := file.read(1 << 20):
                sum_.update(chunk)
        return f"git-blob:{sum_.hexdigest()}"
    raise ValueError(f"unknown kind of checksum: {digest}")


def is_pointer(path: Path) -> bool:
    """Whether the file is Git LFS's stand-in for a file that is kept elsewhere."""
    with path.open("rb") as file:
        return file.read(len(POINTER)) == POINTER
