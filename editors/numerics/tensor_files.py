"""Safetensors files: written atomically, identified by digests, and used as a cache."""

import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save_file as write_safetensors
from torch import Tensor

from emend.memory.errors import BadData
from emend.memory.files import (
    FILE_MODE,
    open_file,
    private_folder,
    replacement,
    tensor_write,
)

# Name of the tensor in files that `cached_tensor` writes.
CACHED = "kept"


def save_whole(
    tensors: Mapping[str, Tensor], file: Path, metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file atomically (complete or absent), readable only by its user."""
    private_folder(file.parent, links=True)
    with replacement(file) as draft:
        open_file(draft, "xb").close()
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft, metadata)
        draft.chmod(FILE_MODE)


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, which must be a regular file.

    Raises:
        BadData: the file cannot be read.
    """
    try:
        open_file(file).close()
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise BadData(f"'{file}' cannot be read ({error}).") from error


def save_file(
    tensors: dict[str, Tensor], file: Path, metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file in place.

    Raises:
        OSError: the file cannot be written, such as on a full disk.
    """
    with tensor_write(file):
        write_safetensors(tensors, file, metadata)


def sha256_of(file: Path) -> str:
    """Return the sha256 of a regular file's content, in hex digits.

    Raises:
        BadData: the file is a link, a FIFO or a device.
    """
    with open_file(file) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()  # type: ignore[arg-type]


def sha256_once(file: Path) -> str:
    """Return the sha256 of a file, recomputed only if inode, size or modification time changed."""
    state = file.stat()
    return _sha256_of_state(file, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256_of_state(file: Path, *_: int) -> str:
    return sha256_of(file)


def parse_digest(fingerprint: str) -> str:
    """Return the digest in a model's fingerprint, without name and dtype."""
    return fingerprint.rpartition("@")[2].partition("/")[0]


def cached_tensor(
    file: Path, provenance: dict[str, str], length: int, compute: Callable[[], Tensor]
) -> Tensor:
    """Return the cached tensor in a file, or compute it and write the file.

    The cached tensor is valid if its metadata equal `provenance` (everything that determines the
    result) and its first dimension has `length`. Other or unreadable files are logged and replaced.
    If the folder is not writable, the tensor is not cached.
    """
    tensor: Tensor
    if file.exists():
        problem = "was made from another covariance or other settings"
        try:
            open_file(file).close()
            with safe_open(file, "pt") as opened:
                if (
                    opened.metadata() == provenance
                    and len(tensor := opened.get_tensor(CACHED)) == length
                ):
                    return tensor
        except (SafetensorError, OSError, BadData) as error:
            problem = f"cannot be read ({error})"
        logging.getLogger(__name__).warning("'%s' %s: computed again", file, problem)
    tensor = compute()
    with suppress(OSError, SafetensorError, BadData):
        save_whole({CACHED: tensor}, file, provenance)
    return tensor
