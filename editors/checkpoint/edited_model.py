"""Edited models as ordinary Hugging Face folders, and the reversal of their edits.

The folder holds the edited weights, in the dtype in which they were edited, and under `emend-edit/`
the original values of the changed tensors. Only `revert` reads the latter; the model works without
them.
"""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from filelock import Timeout
from pydantic import ValidationError
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.checkpoint.deltas import DeltaManifest, new_folder
from emend.editors.numerics.apply_delta import Deltas, applied
from emend.editors.numerics.tensor_files import read_tensors, save_whole, sha256_of
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.model_load import model_load
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.files import (
    FILE_MODE,
    file_lock,
    private_folder,
    read_file,
    replace_file,
    tensor_write,
)

SUBFOLDER, RECORD, ORIGINALS, LOCK = (
    "emend-edit",
    "record.json",
    "originals.safetensors",
    "revert.lock",
)
DRAFT = ".emend-revert"
# Files that are copied from the base model's folder.
BESIDE = (
    "tokenizer*",
    "vocab*",
    "merges*",
    "special_tokens*",
    "added_tokens*",
    "chat_template*",
    "generation_config.json",
    "*processor_config.json",
    "*.model",
    "*.jinja",
    "tekken*",
)


class CheckpointRecord(FrozenModel):
    """Record of an edited folder, which `revert` reads."""

    manifest: DeltaManifest
    dtype: str
    changed: dict[str, str]
    """The sha256 of edited values by parameter name."""
    sha256: str
    """Digest of `originals.safetensors`."""


def save_edited(lm: CausalLM, deltas: Deltas, manifest: DeltaManifest, folder: Path) -> None:
    """Write the model with the deltas applied to a new folder; the model in memory is not changed.

    Raises:
        BadSettings: the folder is not empty, or another edit is applied to the model.
    """
    parameters = dict(lm.model.named_parameters())
    with new_folder(folder) as draft:
        # Originals come first, so that an interruption never leaves edited weights without them.
        originals = {name: parameters[name].detach().cpu().clone() for name in deltas}
        save_whole(originals, draft / SUBFOLDER / ORIGINALS)
        with applied(lm.model, deltas, lm.lock), model_load():
            changed = {name: digest(parameters[name]) for name in deltas}
            _write_record(lm, manifest, changed, draft / SUBFOLDER)
            with tensor_write(draft):
                lm.model.save_pretrained(draft)
        for pattern in BESIDE:
            for file in lm.folder.glob(pattern):
                shutil.copyfile(file, draft / file.name)
        # the generated file would hide the end token of config.json
        if not (lm.folder / "generation_config.json").is_file():
            (draft / "generation_config.json").unlink(missing_ok=True)


def _write_record(
    lm: CausalLM, manifest: DeltaManifest, changed: dict[str, str], folder: Path
) -> None:
    dtype = str(lm.model.dtype).removeprefix("torch.")
    record = CheckpointRecord(
        manifest=manifest, dtype=dtype, changed=changed, sha256=sha256_of(folder / ORIGINALS)
    )
    replace_file(folder / RECORD, record.model_dump_json(indent=1).encode())


def revert(folder: Path) -> DeltaManifest:
    """Restore the original tensors in a folder that `save_edited` wrote, bit for bit.

    An interrupted call can be repeated.

    Raises:
        MissingData: the folder holds no originals.
        BadSettings: another process reverts the folder.
        BadData: the originals are damaged, or the changed tensors were modified after the edits.
    """
    _require_record(folder)
    subfolder = private_folder(folder / SUBFOLDER)
    try:
        with file_lock(subfolder / LOCK):
            manifest = _revert(folder)
    except Timeout as error:
        raise BadSettings(f"another process is reverting '{folder}': wait for it.") from error
    shutil.rmtree(subfolder)  # after the lock in it is released, as Windows requires
    return manifest


def _require_record(folder: Path) -> None:
    if not (folder / SUBFOLDER / RECORD).exists():
        raise MissingData(
            f"'{folder}' has no '{SUBFOLDER}/{RECORD}', so there is nothing to revert: name a "
            "folder that `emend edit --apply ... --save-model` wrote."
        )


def _revert(folder: Path) -> DeltaManifest:
    record, originals = _read_originals(folder)
    lm = CausalLM(folder, dtype=record.dtype, device="cpu")
    parameters: dict[str, Any] = dict(lm.model.named_parameters())
    for name, original in originals.items():
        now = parameters.get(name, torch.zeros(0))
        fits = (now.shape, now.dtype) == (original.shape, original.dtype)
        current = digest(now) if fits else "another shape"
        if not fits or current not in (record.changed[name], digest(original)):
            raise BadData(
                f"'{name}' in '{folder}' was changed after the edits: sha256 "
                f"{record.changed[name][:16]} then, {current[:16]} now. Reverting would lose "
                f"these changes; start from the base model {record.manifest.model} instead."
            )
    with torch.no_grad():
        for name, original in originals.items():
            parameters[name].copy_(original)
    _replace_weights(lm, folder)
    (folder / SUBFOLDER / RECORD).unlink()
    return record.manifest


def digest(tensor: Tensor) -> str:
    """Return the sha256 of a tensor's values, in hex digits."""
    plain = tensor.detach().cpu().contiguous().view(torch.uint8)
    return hashlib.sha256(plain.numpy().tobytes()).hexdigest()


def _read_originals(folder: Path) -> tuple[CheckpointRecord, Mapping[str, Tensor]]:
    record, file = folder / SUBFOLDER / RECORD, folder / SUBFOLDER / ORIGINALS
    _require_record(folder)  # another process may have reverted the folder in the meantime
    try:
        parsed = CheckpointRecord.model_validate_json(read_file(record, is_small=True))
        intact = sha256_of(file) == parsed.sha256
        originals = read_tensors(file) if intact else {}
        if not intact or originals.keys() != parsed.changed.keys():
            raise BadData(
                f"'{file}' is damaged: take the base model {parsed.manifest.model} instead."
            )
        return parsed, originals
    except (ValidationError, OSError) as error:
        line = str(error).partition("\n")[0]
        raise BadData(
            f"the originals in '{folder / SUBFOLDER}' cannot be read ({line}): take the base model "
            "instead."
        ) from error


def _replace_weights(lm: CausalLM, folder: Path) -> None:
    """Write the weights to a draft folder first, then move each file into place."""
    draft = private_folder(folder / DRAFT)
    shutil.rmtree(draft)
    private_folder(draft)
    with model_load(), tensor_write(draft):
        lm.model.save_pretrained(draft)
    for file in sorted(draft.glob("*.safetensors*")):
        file.chmod(FILE_MODE)
        file.replace(folder / file.name)
    shutil.rmtree(draft)
