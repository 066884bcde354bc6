"""An edited model as an ordinary Hugging Face folder, and the way back.

The folder holds the weights with the edits in them, in the number format in which they were edited, and beside them,
under `emend-edit/`, what the changed tensors were before. Nothing but `revert` reads that; without it the model works
as any other.
"""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.checkpoint.deltas import Delta, DeltaManifest, new_folder
from emend.editors.numerics.apply_delta import applied
from emend.editors.numerics.tensor_files import save_whole, sha256_of
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.silence import silence
from emend.memory.errors import BadData, MissingData

KEPT, RECORD, ORIGINALS, DRAFT = "emend-edit", "record.json", "originals.safetensors", ".emend-revert"
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
"""What is taken over from the base model's folder as it is."""


class Saved(FrozenModel):
    """What `revert` needs to know of an edited folder."""

    manifest: DeltaManifest
    dtype: str
    changed: dict[str, str]
    """Parameter name to the sha256 of its numbers with the edits in them."""
    sha256: str
    """Of `originals.safetensors`."""


def save_edited(lm: CausalLM, delta: Delta, manifest: DeltaManifest, folder: Path) -> None:
    """Writes the model with the delta in it to a new folder; the model in memory is as before.

    Raises:
        BadData: the delta does not fit the model.
        BadSettings: the folder is not empty, or another edit stands on the model.
    """
    deltas = delta.deltas(lm)
    parameters = dict(lm.model.named_parameters())
    with new_folder(folder):
        # This comes first: whatever ends the writing early, edited weights are never without their originals.
        save_whole({name: parameters[name].detach().cpu().clone() for name in deltas}, folder / KEPT / ORIGINALS)
        with applied(lm.model, deltas, lm.lock), silence():
            changed = {name: digest(parameters[name]) for name in deltas}
            _record(lm, manifest, changed, folder / KEPT)
            lm.model.save_pretrained(folder)
        for pattern in BESIDE:
            for file in lm.folder.glob(pattern):
                shutil.copyfile(file, folder / file.name)
        if not (lm.folder / "generation_config.json").is_file():  # an empty one would hide the end token of config.json
            (folder / "generation_config.json").unlink(missing_ok=True)


def _record(lm: CausalLM, manifest: DeltaManifest, changed: dict[str, str], kept: Path) -> None:
    dtype = str(lm.model.dtype).removeprefix("torch.")
    record = Saved(manifest=manifest, dtype=dtype, changed=changed, sha256=sha256_of(kept / ORIGINALS))
    (kept / RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")


def revert(folder: Path) -> DeltaManifest:
    """Puts the tensors from before the edits back into a folder that `save_edited` wrote, bit for bit.

    An interrupted call can be made again.

    Raises:
        MissingData: nothing is kept there to go back to.
        BadData: what is kept is damaged, or the changed tensors are not as the edits left them.
    """
    record, originals = _kept(folder)
    lm = CausalLM(folder, dtype=record.dtype, device="cpu")
    parameters: dict[str, Any] = dict(lm.model.named_parameters())
    for name, original in originals.items():
        now = digest(parameters[name]) if name in parameters else "nothing"
        if now not in (record.changed[name], digest(original)):
            raise BadData(
                f"'{name}' in '{folder}' is not as the edits left it: sha256 {record.changed[name][:16]} then, "
                f"{now[:16]} now. Going back would lose what was done since; start from the base model "
                f"{record.manifest.model} instead."
            )
    with torch.no_grad():
        for name, original in originals.items():
            parameters[name].copy_(original)
    _replace_weights(lm, folder)
    shutil.rmtree(folder / KEPT)
    return record.manifest


def digest(tensor: Tensor) -> str:
    """The sha256 of a tensor's numbers, in hex digits."""
    plain = tensor.detach().cpu().contiguous().view(torch.uint8)
    return hashlib.sha256(plain.numpy().tobytes()).hexdigest()


def _kept(folder: Path) -> tuple[Saved, Mapping[str, Tensor]]:
    record, file = folder / KEPT / RECORD, folder / KEPT / ORIGINALS
    if not record.is_file():
        raise MissingData(
            f"'{folder}' has no '{KEPT}/{RECORD}', so there is nothing to revert: name a folder that "
            "`emend edit --apply ... --save-model` has written."
        )
    try:
        told = Saved.model_validate_json(record.read_text(encoding="utf-8"))
        if sha256_of(file) != told.sha256:
            raise BadData(f"'{file}' is damaged: take the base model {told.manifest.model} instead.")
        return told, load_file(file)
    except (ValidationError, UnicodeDecodeError, OSError, SafetensorError) as error:
        line = str(error).partition("\n")[0]
        raise BadData(f"what '{folder / KEPT}' keeps cannot be read ({line}): take the base model instead.") from error


def _replace_weights(lm: CausalLM, folder: Path) -> None:
    """Writes the weights beside the old ones first, and then moves file after file into its place."""
    draft = folder / DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    with silence():
        lm.model.save_pretrained(draft)
    for file in sorted(draft.glob("*.safetensors*")):
        file.replace(folder / file.name)
    shutil.rmtree(draft)
