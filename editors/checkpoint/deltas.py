"""Weight deltas as files, with a manifest that states their model and provenance.

A folder holds `delta.safetensors` (two low-rank factors, or one full tensor, for each changed
parameter) and `manifest.json`. It fits only the model whose digest the manifest states.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import torch
from filelock import Timeout
from pydantic import ValidationError
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.base import EditCost, Editor
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.low_rank import LowRankDelta
from emend.editors.numerics.tensor_files import parse_digest, read_tensors, save_whole, sha256_of
from emend.memory.edit import Edit, FrozenModel
from emend.memory.errors import BadData, BadSettings, MissingData, problem_of
from emend.memory.escape import one_line
from emend.memory.files import (
    FILE_MODE,
    FOLDER_MODE,
    file_lock,
    private_folder,
    read_file,
    replace_file,
)

FRACTIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TENSORS, MANIFEST = "delta.safetensors", "manifest.json"
# Names in a folder while `new_folder` fills it.
DRAFT, LOCK = ".emend-draft", ".emend-draft.lock"
# Suffixes of tensor names in the file: low-rank factors follow a module's path, full tensors a
# parameter's name.
LEFT, RIGHT, WHOLE = ":left", ":right", ":whole"
# Maximum length of a tensor's name in a message.
NAME_LIMIT = 120


class DeltaManifest(FrozenModel):
    """Provenance of a delta, and the model that it fits."""

    format: Literal[1] = 1
    method: str
    fingerprint: dict[str, Any]
    """The editor's fingerprint: its settings, seed and matrices."""
    model: str
    """The edited model's fingerprint: name, digest and dtype."""
    edits: tuple[Edit, ...]
    cost: EditCost
    versions: dict[str, str]
    sha256: str
    """Digest of `delta.safetensors`."""


def check_weight_editor(factory: Any, name: str) -> None:
    """Refuse an editor that does not compute weight deltas.

    Raises:
        BadSettings: the editor does not change weights.
    """
    if not getattr(factory, "needs_weights", False) or not hasattr(factory, "solve"):
        raise BadSettings(
            f"editor '{name}' changes no weights, so there is no delta to save: take "
            "ft, rome or memit."
        )


def parse_dtype(manifest: DeltaManifest) -> str:
    """Return the dtype of the model in which the edits were made."""
    return manifest.model.rpartition("/")[2].partition("-")[0]


def _check_fit(lm: CausalLM, deltas: Deltas) -> None:
    """Refuse deltas of another model, and deltas that no editor writes.

    Raises:
        BadData: the model has no such parameter, or one of another shape; numbers are not finite,
            or have no floating-point dtype.
    """
    parameters = dict(lm.model.named_parameters())
    for name, delta in deltas.items():
        if name not in parameters:
            raise BadData(
                f"the delta changes '{one_line(name, NAME_LIMIT)}', which this model does not "
                "have: it belongs to another model."
            )
        if isinstance(delta, LowRankDelta):
            shape = delta.shape_in(lm.model.get_submodule(name.removesuffix(".weight")))
        else:
            shape = tuple(delta.shape)
        for tensor in delta if isinstance(delta, LowRankDelta) else (delta,):
            if tensor.dtype not in FRACTIONS or not bool(tensor.isfinite().all()):
                raise BadData(
                    f"the delta of '{name}' contains {tensor.dtype}, or numbers that are not "
                    "finite."
                )
        if shape != tuple(parameters[name].shape):
            raise BadData(
                f"the delta of '{name}' has shape {shape}, the model's is "
                f"{tuple(parameters[name].shape)}: it belongs to another model."
            )


def write_delta(
    folder: Path,
    deltas: Deltas,
    editor: Editor,
    lm: CausalLM,
    edits: Sequence[Edit],
    cost: EditCost,
    versions: Mapping[str, str],
) -> DeltaManifest:
    """Write deltas and their manifest to a folder, which must be new or empty.

    Raises:
        BadSettings: the folder is not empty, or cannot be written.
    """
    with new_folder(folder) as draft:
        save_whole(_to_tensors(deltas), draft / TENSORS)
        manifest = DeltaManifest(
            method=editor.name,
            fingerprint=editor.fingerprint,
            model=lm.fingerprint,
            edits=tuple(edits),
            cost=cost,
            versions=dict(versions),
            sha256=sha256_of(draft / TENSORS),
        )
        text = json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False)
        replace_file(draft / MANIFEST, text.encode())
    return manifest


def read_manifest(folder: Path) -> DeltaManifest:
    """Return the manifest of the delta in a folder.

    Raises:
        MissingData: the folder has no manifest.
        BadData: the manifest cannot be parsed.
    """
    file = folder / MANIFEST
    try:
        return DeltaManifest.model_validate_json(read_file(file, is_small=True))
    except OSError as error:
        raise MissingData(
            f"no delta in '{folder}': name a folder that `emend edit --out` wrote."
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise BadData(
            f"'{file}' is not a manifest of a delta: {field}: {problem_of(first)}; value "
            f"{repr(first['input'])[:80]}. Name a folder that `emend edit --out` wrote, or write "
            "it again."
        ) from error


def read_delta(folder: Path, lm: CausalLM) -> Deltas:
    """Return the deltas of a folder, checked against their manifest and the model.

    Raises:
        MissingData: the folder has no deltas.
        BadData: the deltas are corrupt, or were made for another model.
    """
    manifest = read_manifest(folder)
    if parse_digest(manifest.model) != parse_digest(lm.fingerprint):
        raise BadData(
            f"the delta in '{folder}' was made for model {manifest.model}, but this one is "
            f"{lm.fingerprint}: name its own model with --model, or solve the edits again for "
            "this one."
        )
    file = folder / TENSORS
    actual = sha256_of(file) if file.exists() else "nothing"
    if actual != manifest.sha256:
        raise BadData(
            f"'{file}' is damaged: its manifest names sha256 {manifest.sha256[:16]}, its bytes "
            f"have {actual[:16]}. Copy it again, or solve the edits again with `emend edit`."
        )
    deltas = _from_tensors(read_tensors(file))
    _check_fit(lm, deltas)
    return deltas


def _to_tensors(deltas: Deltas) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, delta in deltas.items():
        if isinstance(delta, LowRankDelta):
            path = name.removesuffix(".weight")
            tensors |= {path + LEFT: delta.left, path + RIGHT: delta.right}
        else:
            tensors[name + WHOLE] = delta
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _from_tensors(tensors: Mapping[str, Tensor]) -> Deltas:
    """Return the deltas that `_to_tensors` converted.

    Raises:
        BadData: a tensor does not belong to a delta.
    """
    deltas: dict[str, Tensor | LowRankDelta] = {}
    for name, tensor in tensors.items():
        path = name.removesuffix(LEFT)
        right = tensors.get(path + RIGHT)
        if name.endswith(WHOLE) and name.removesuffix(".weight" + WHOLE) + LEFT not in tensors:
            deltas[name.removesuffix(WHOLE)] = tensor
        elif path != name and right is not None and _are_factors(tensor, right):
            deltas[f"{path}.weight"] = LowRankDelta(tensor, right)
        elif not (name.endswith(RIGHT) and name.removesuffix(RIGHT) + LEFT in tensors):
            raise BadData(
                f"'{one_line(name, NAME_LIMIT)}' of shape {tuple(tensor.shape)} is not part of a "
                "delta: solve the edits again."
            )
    if not deltas:
        raise BadData("the delta changes nothing: solve the edits again.")
    return deltas


def _are_factors(left: Tensor, right: Tensor) -> bool:
    return left.dim() == right.dim() == 2 and left.shape[1] == len(right) > 0


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Create and lock a folder, and yield a draft in it, to be filled inside the `with`; at its end
    the folder receives the draft's files, which only their user can read.

    After an error the draft is deleted, and the folder if it is new and holds nothing else. What a
    killed process left in a draft is deleted by the next one.

    Raises:
        BadSettings: the folder is not empty, is in use, or cannot be created.
    """
    existed, draft, lock_file = folder.exists(), folder / DRAFT, folder / LOCK
    try:
        private_folder(folder, links=True)
        lock = file_lock(lock_file)
        lock.acquire()
    except Timeout as error:
        raise BadSettings(f"another process is writing to '{folder}': name a new one.") from error
    except (OSError, BadData) as error:
        raise BadSettings(f"cannot write to '{folder}': {error}") from error
    try:
        if not {path.name for path in folder.iterdir()} <= {DRAFT, LOCK}:
            raise BadSettings(
                f"'{folder}' is not empty: name a new folder, so that nothing is overwritten."
            )
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=FOLDER_MODE)
        yield draft
        for path in draft.rglob("*"):
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
        # folders first, so that edited weights never lie there without their originals
        for path in sorted(draft.iterdir(), key=lambda path: (path.is_file(), path.name)):
            path.rename(folder / path.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError):
            lock_file.unlink()
        lock.release()
        if not existed:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
