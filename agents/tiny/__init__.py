"""The embedded model: small, offline, trained for Emend."""

import gzip
import hashlib
import json
from pathlib import Path

from emend.memory.errors import ModelError

FOLDER = Path(__file__).parent / "model"
SUMS = "SHA256SUMS"
# 1,500 documents like those of the model's training, see `scripts/tiny/texts.py`.
TEXTS = Path(__file__).parent / "texts.json.gz"


def model_folder(folder: Path = FOLDER) -> Path:
    """Return the folder of the embedded model after checking its files' SHA-256 sums.

    Raises:
        ModelError: a file is missing or differs from the shipped one.
    """
    remedy = (
        "install Emend again, or train it: python -m scripts.tiny.train --out DIR, in a checkout."
    )
    if not (folder / SUMS).is_file():
        raise ModelError(
            f"the embedded model is not installed: {folder / SUMS} is missing; {remedy}"
        )
    lines = (folder / SUMS).read_text("utf-8").splitlines()
    if not any(line.endswith(".safetensors") for line in lines):
        raise ModelError(
            f"the embedded model cannot be checked: {folder / SUMS} lists no weights; {remedy}"
        )
    for line in lines:
        digest, _, name = line.partition("  ")
        if not (folder / name).is_file():
            raise ModelError(
                f"the embedded model is incomplete: {folder / name} is missing; {remedy}"
            )
        actual = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if actual != digest:
            raise ModelError(
                f"the embedded model is not the published one: {folder / name} has sha256 "
                f"{actual}, not {digest}; {remedy}"
            )
    return folder


def texts_of_the_world() -> list[str]:
    """Return texts about the invented world, for the key statistics of weight editors."""
    texts: list[str] = json.loads(gzip.decompress(TEXTS.read_bytes()))
    return texts


def seal(folder: Path) -> None:
    """Write the sha256 sums of a model folder's files in the format of `sha256sum`."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors"))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")
