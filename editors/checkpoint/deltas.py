"""Edits as files: what a method adds to a model's weights, with a manifest that says whose, and how it came about.

A folder holds `delta.safetensors` (two thin matrices for each changed one where the method gives such, else one of its
shape) and `manifest.json`. It fits the one model whose digest the manifest names.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.base import EditCost, Editor
from emend.editors.numerics.apply_delta import Deltas
from emend.editors.numerics.low_rank import Factors
from emend.editors.numerics.tensor_files import digest_of, save_whole, sha256_of
from emend.memory.edit import Edit, FrozenModel
from emend.memory.errors import BadData, BadSettings, MissingData

TENSORS, MANIFEST = "delta.safetensors", "manifest.json"


class DeltaManifest(FrozenModel):
    """Where a delta comes from and what it fits."""

    format: Literal[1] = 1
    method: str
    fingerprint: dict[str, Any]
    """The editor's: its settings, seed and matrices."""
    model: str
    """The fingerprint of the model that was edited: name, digest and number format."""
    edits: tuple[Edit, ...]
    cost: EditCost
    versions: dict[str, str]
    sha256: str
    """Of `delta.safetensors`."""


@runtime_checkable
class Factored(Protocol):
    """An editor whose deltas are products of thin matrices."""

    def factored(self, edits: Sequence[Edit]) -> Mapping[str, Factors]:
        """What `solve` gives as thin matrices, by module path."""
        ...


class Delta:
    """What is added to a model's weights: thin matrices by module path, and whole ones by parameter name."""

    def __init__(self, factors: Mapping[str, Factors], whole: Deltas) -> None:
        self.factors, self.whole = factors, whole

    def deltas(self, lm: CausalLM) -> Deltas:
        """By parameter name, as the editor itself would apply them.

        Raises:
            BadData: the model has no such matrix, or one of another shape.
        """
        modules = dict(lm.model.named_modules())
        lost = [path for path in self.factors if path not in modules]
        if lost:
            raise BadData(f"the delta changes '{lost[0]}', which this model has not: it is of another model.")
        found = {f"{path}.weight": told.dense(modules[path]) for path, told in self.factors.items()} | dict(self.whole)
        shapes = {name: parameter.shape for name, parameter in lm.model.named_parameters()}
        for name, delta in found.items():
            if shapes.get(name) != delta.shape:
                raise BadData(
                    f"the delta of '{name}' has shape {tuple(delta.shape)}, the model's is "
                    f"{tuple(shapes[name]) if name in shapes else 'not there'}: it is of another model."
                )
        return found

    def tensors(self) -> dict[str, Tensor]:
        """As they are kept."""
        thin = {f"{path}:left": told.left for path, told in self.factors.items()}
        thin |= {f"{path}:right": told.right for path, told in self.factors.items()}
        kept = thin | {f"{name}:whole": delta for name, delta in self.whole.items()}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in kept.items()}


def check_solving(factory: Any, name: str) -> None:
    """Refuses an editor whose edits are no weights.

    Raises:
        BadSettings: it changes none.
    """
    if not getattr(factory, "needs_weights", False) or not hasattr(factory, "solve"):
        raise BadSettings(f"editor '{name}' changes no weights, so there is no delta to keep: take ft, rome or memit.")


def dtype_of(manifest: DeltaManifest) -> str:
    """The number format in which the edits were made, as models are loaded with."""
    return manifest.model.rpartition("/")[2]


def solve_delta(editor: Any, edits: Sequence[Edit]) -> Delta:
    """What an editor that solves for deltas would add for these edits, all together; the model stays as it is."""
    if isinstance(editor, Factored):
        return Delta(editor.factored(edits), {})
    return Delta({}, editor.solve(edits))


def write_delta(
    folder: Path,
    delta: Delta,
    editor: Editor,
    lm: CausalLM,
    edits: Sequence[Edit],
    cost: EditCost,
    versions: Mapping[str, str],
) -> DeltaManifest:
    """Keeps a delta and its manifest in a folder, which must be new or empty.

    Raises:
        BadSettings: the folder has something in it, or cannot be written.
    """
    with new_folder(folder):
        save_whole(delta.tensors(), folder / TENSORS)
        manifest = DeltaManifest(
            method=editor.name,
            fingerprint=editor.fingerprint,
            model=lm.fingerprint,
            edits=tuple(edits),
            cost=cost,
            versions=dict(versions),
            sha256=sha256_of(folder / TENSORS),
        )
        told = json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False)
        (folder / MANIFEST).write_text(told, "utf-8")
    return manifest


def read_manifest(folder: Path) -> DeltaManifest:
    """What a folder says of the delta in it.

    Raises:
        MissingData: there is none.
        BadData: it cannot be understood.
    """
    file = folder / MANIFEST
    if not file.is_file():
        raise MissingData(f"no delta in '{folder}': name a folder that `emend edit --out` has written.")
    try:
        return DeltaManifest.model_validate_json(file.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise BadData(f"'{file}' is no manifest of a delta: {_what_else(file, error)}") from error


def _what_else(file: Path, error: ValidationError | UnicodeDecodeError) -> str:
    """What a file is that cannot be read as a delta's manifest, and what to do."""
    again = "Write it again with `emend edit`."
    try:
        told = json.loads(file.read_bytes())
    except ValueError:  # bytes that are no text raise one too
        return f"it is cut off, or no JSON. {again}"
    if isinstance(told, dict) and "config" in told:
        return "it is a run's. Name a folder that `emend edit --out` has written."
    if isinstance(error, UnicodeDecodeError) or not isinstance(told, dict):
        return f"it holds no object in UTF-8. {again}"
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"it has no field '{field}'. Name a folder that `emend edit --out` has written."
    return f"field '{field}': {first['msg']}; value {repr(first['input'])[:80]}. {again}"


def read_delta(folder: Path, lm: CausalLM) -> Delta:
    """The delta of a folder, after it was compared with its manifest and with the model.

    Raises:
        MissingData: there is none.
        BadData: it is corrupt, or was made for another model.
    """
    manifest = read_manifest(folder)
    if digest_of(manifest.model) != digest_of(lm.fingerprint):
        raise BadData(
            f"the delta in '{folder}' was made for model {manifest.model}, and this one is {lm.fingerprint}: "
            "name its own with --model, or solve the edits anew for this one."
        )
    file = folder / TENSORS
    found = sha256_of(file) if file.is_file() else "nothing"
    if found != manifest.sha256:
        raise BadData(
            f"'{file}' is damaged: its manifest names sha256 {manifest.sha256[:16]}, seen {found[:16]}. "
            "Copy it again, or solve the edits anew with `emend edit`."
        )
    try:
        return _delta_of(load_file(file))
    except (SafetensorError, KeyError) as error:
        raise BadData(f"'{file}' cannot be read ({error}): solve the edits anew with `emend edit`.") from error


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """A folder that is new or empty, to be filled inside the `with`; what an error leaves in it is removed again.

    Raises:
        BadSettings: it is there and not empty, or cannot be made.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        full = any(folder.iterdir())
    except OSError as error:
        raise BadSettings(f"cannot write to '{folder}': {error.strerror or error}.") from error
    if full:
        raise BadSettings(f"'{folder}' is not empty: name a new folder, so that nothing is overwritten.")
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if not made:
            folder.mkdir(exist_ok=True)
        raise


def _delta_of(kept: Mapping[str, Tensor]) -> Delta:
    paths = [name.removesuffix(":left") for name in kept if name.endswith(":left")]
    factors = {path: Factors(kept[f"{path}:left"], kept[f"{path}:right"]) for path in paths}
    return Delta(factors, {name.removesuffix(":whole"): kept[name] for name in kept if name.endswith(":whole")})
