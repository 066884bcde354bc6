"""Safetensors files: written atomically, identified by digests, and used as a cache with provenance."""

import hashlib
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from emend.memory.errors import BadData
from emend.memory.files import FILE_MODE, open_file, private_folder

CACHED = "kept"
"""Name of the tensor in a file that `cached_tensor` writes."""


def save_whole(tensors: Mapping[str, Tensor], file: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file atomically: it is complete or absent, and private to its user."""
    private_folder(file.parent, links=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}.part")
    draft.unlink(missing_ok=True)
    open_file(draft, "xb").close()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft, metadata)
    draft.chmod(FILE_MODE)
    draft.replace(file)


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, which must be a regular one.

    Raises:
        BadData: it cannot be read.
    """
    try:
        open_file(file).close()
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise BadData(f"'{file}' cannot be read ({error}).") from error


def sha256_of(file: Path) -> str:
    """The sha256 of a regular file's content, in hex digits.

    Raises:
        BadData: it is a link, a FIFO or a device.
    """
    with open_file(file) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()  # type: ignore[arg-type]


def sha256_once(file: Path) -> str:
    """The sha256 of a file's content, computed again only when inode, size or modification time have changed."""
    state = file.stat()
    return _sha256_of_state(file, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256_of_state(file: Path, *_: int) -> str:
    return sha256_of(file)


def parse_digest(fingerprint: str) -> str:
    """The digest of weights and tokenizer in a model's fingerprint, without folder name and number format."""
    return fingerprint.rpartition("@")[2].partition("/")[0]


def cached_tensor(file: Path, provenance: dict[str, str], length: int, compute: Callable[[], Tensor]) -> Tensor:
    """The tensor in a file that was computed with this provenance; otherwise computed, and written there.

    A file that cannot be read, or of another provenance, is logged and replaced. A folder that cannot be written to is
    left as it is. `provenance` is the file's metadata, all that decides the result; `length` the first dimension.
    """
    tensor: Tensor
    if file.exists():
        problem = "was made from another covariance or other settings"
        try:
            open_file(file).close()
            with safe_open(file, "pt") as opened:
                if opened.metadata() == provenance and len(tensor := opened.get_tensor(CACHED)) == length:
                    return tensor
        except (SafetensorError, OSError, BadData) as error:
            problem = f"cannot be read ({error})"
        logging.getLogger(__name__).warning("'%s' %s: computed anew", file, problem)
    tensor = compute()
    with suppress(OSError, SafetensorError, BadData):
        save_whole({CACHED: tensor}, file, provenance)
    return tensor
