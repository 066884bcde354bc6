"""Import of published key covariances: `.npz` files of ROME, MEMIT, AlphaEdit or EasyEdit.

Such a file holds the sum of k k^T of one layer's keys as `mom2.mom2`, and their number as
`mom2.count`. It does not name the model, so shape and values are checked here. The layer is parsed
from the file name, as in `model.layers.5.mlp.down_proj_float32_mom2_100000.npz`.
"""

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture, resolve_layer
from emend.editors.numerics.collect_covariance import COUNTS, MOMENT, CorpusCounts, layer_file
from emend.editors.numerics.key_sums import key_size
from emend.editors.numerics.tensor_files import save_whole, sha256_of
from emend.memory.edit import content_id
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.files import open_file, replace_file

SUMS, COUNT = "mom2.mom2", "mom2.count"
LAYER, TEXTS = re.compile(r"\.(?:layers|h)\.(\d+)\."), re.compile(r"_mom2_(\d+)")
FLOATS = ("float16", "float32", "float64")
# Maximum asymmetry, relative to the largest number.
SYMMETRIC = 1e-3


class ImportedLayer(NamedTuple):
    """The mean of k k^T of a layer's keys, and the number of keys."""

    moment: Tensor
    tokens: int


def layers_of_names(files: Sequence[Path]) -> list[int]:
    """Return the layers in the files' names.

    Raises:
        BadSettings: a file name has no layer.
    """
    matches = [LAYER.search(file.name) for file in files]
    if unknown := [file.name for file, match in zip(files, matches, strict=True) if match is None]:
        raise BadSettings(
            f"the name '{unknown[0]}' has no layer number, as in '.layers.5.': give the layers "
            "with --layers."
        )
    return [int(match[1]) for match in matches if match is not None]


def digest_of_files(files: Sequence[Path]) -> str:
    """Return sixteen hex digits that identify the content of the files.

    Raises:
        MissingData: a file does not exist.
        BadData: a file is a link, a FIFO or a device.
    """
    try:
        return content_id("imported", [sha256_of(file) for file in files])[:16]
    except FileNotFoundError as error:
        raise MissingData(
            f"no covariance file '{error.filename}': name the .npz file of each layer."
        ) from error


def import_covariance(
    lm: CausalLM, paths: Architecture, layers: Sequence[int], files: Sequence[Path], folder: Path
) -> CorpusCounts:
    """Write the covariances in the files, one per layer, to a folder for `load_covariance`.

    Raises:
        BadSettings: the numbers of layers and files differ, or the folder is not new.
        BadData: a file has another format or another width than this model's keys, or its numbers
            are not a covariance.
    """
    numbers = [resolve_layer(lm.model, layer) for layer in layers]
    if len(set(numbers)) != len(files):
        raise BadSettings(
            f"{len(files)} covariance files for {len(set(numbers))} layers: give one "
            "for each layer."
        )
    if (folder / COUNTS).exists():
        raise BadSettings(
            f"'{folder}' already has a covariance: name another folder with --out, or remove it."
        )
    tokens = []
    for layer, file in zip(numbers, files, strict=True):
        imported = read_npz(file, key_size(lm, paths, layer))
        tokens.append(imported.tokens)
        save_whole({MOMENT: imported.moment}, layer_file(folder, layer))
    texts = [int(match[1]) for file in files if (match := TEXTS.search(file.name))]
    corpus = f"imported from {files[0].name}"
    counts = CorpusCounts(
        model=lm.fingerprint,
        corpus=corpus,
        texts=min(texts, default=0),
        tokens=min(tokens),
        cap=lm.window or 0,
    )
    # last, since it marks the folder as complete
    replace_file(folder / COUNTS, counts.model_dump_json().encode())
    return counts


def read_npz(file: Path, size: int) -> ImportedLayer:
    """Return the covariance in a file of ROME's code, for keys of that size; nothing is unpickled.

    Raises:
        BadData: the file has another format, or its numbers are not a covariance of such keys.
    """
    try:
        with open_file(file) as opened, zipfile.ZipFile(opened) as archive:
            _check_header(archive, file, size)
        with open_file(file) as opened, np.load(opened, allow_pickle=False) as arrays:
            sums, count = np.asarray(arrays[SUMS], dtype=np.float64), int(arrays[COUNT].item())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise BadData(
            f"'{file}' is not a covariance as ROME's code writes it, with {SUMS} and {COUNT}: "
            f"{error}. A projection of AlphaEdit (null_space_project.pt) is not one either: it "
            "does not contain the scale of keys."
        ) from error
    return ImportedLayer(_checked(file, sums, count), count)


def _check_header(archive: zipfile.ZipFile, file: Path, size: int) -> None:
    """Refuse a matrix of another shape before it is read."""
    with archive.open(f"{SUMS}.npy") as member:
        version = np.lib.format.read_magic(member)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(member)
    if shape != (size, size) or dtype.name not in FLOATS:
        raise BadData(
            f"'{file}' contains {dtype.name} numbers of shape {shape}, but the keys of this "
            f"model's layer have {size} numbers: it belongs to another model."
        )
    if archive.getinfo(f"{COUNT}.npy").file_size > 1024:
        raise BadData(f"'{file}' has no single number as {COUNT}.")


def _checked(
    file: Path, sums: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", count: int
) -> Tensor:
    """Return the mean, float32, of sums that pass the checks of a covariance."""
    largest = float(np.abs(sums).max())
    problem = ""
    if count < 1 or not np.isfinite(largest) or not largest:
        problem = f"{count} keys, largest number {largest:g}"
    elif float(np.abs(sums - sums.T).max()) > SYMMETRIC * largest:
        problem = "it is not symmetric"
    elif float(sums.diagonal().min()) < 0:
        problem = "squares on its diagonal are negative"
    if problem:
        raise BadData(f"'{file}' is not a covariance: {problem}. Download it again.")
    return torch.from_numpy((sums + sums.T) / (2 * count)).float()
