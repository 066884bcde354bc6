"""Files of tensors: written whole, and known by their content."""

import hashlib
import os
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor


def save_whole(tensors: dict[str, Tensor], file: Path, metadata: dict[str, str] | None = None) -> None:
    """Writes a safetensors file that is there whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}.part")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft, metadata)
    draft.replace(file)


def sha256_of(file: Path) -> str:
    """Of a file's content, in hex digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def digest_of(fingerprint: str) -> str:
    """What a model's fingerprint says of its weights and tokenizer, apart from folder name and number format."""
    return fingerprint.rpartition("@")[2].partition("/")[0]
