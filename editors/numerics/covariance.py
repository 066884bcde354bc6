"""Key covariances for editors: checked against the model, and factorised once."""

import logging
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.agents.tiny import texts_of_the_world
from emend.editors.hyperparameters import DEFAULT_CORPUS, covariance_layers
from emend.editors.numerics.architectures import ARCHITECTURES, Architecture
from emend.editors.numerics.collect_covariance import (
    collect_covariance,
    layer_file,
    read_counts,
    read_layer,
)
from emend.editors.numerics.factorise import ROUNDING, LinAlgError, cholesky, null_space, on_device
from emend.editors.numerics.key_sums import key_size
from emend.editors.numerics.tensor_files import cached_tensor, parse_digest, sha256_once
from emend.memory.edit import content_id
from emend.memory.errors import BadData, MissingData
from emend.memory.paths import cache_folder

WORLD = "tinyworld"
CPU = torch.device("cpu")


class KeyCovariance:
    """The uncentred covariance C = E[k k^T] of the keys of some layers, and its factorisations.

    Factorisations are cached on disk beside the covariance; the covariance itself stays in memory
    only while it is factorised.

    Args:
        folder: folder written by `collect_covariance`; None for the identity in every layer.
        remedy: advice that error messages give if the covariance is unusable.
        device: device that factorises and solves, if it has float64; results are on the CPU.
    """

    def __init__(
        self,
        folder: Path | None,
        remedy: str = "Collect it with `emend prepare covariance`.",
        device: torch.device = CPU,
    ) -> None:
        self.folder, self.device = folder, device
        self._remedy = remedy
        self._factorisations: dict[tuple[Any, ...], Tensor] = {}
        self._warned = False

    def provenance(self, layers: Sequence[int]) -> dict[str, Any]:
        """Return corpus, text and token counts, and digests by layer; empty for the identity.

        The covariance of `tinyworld` has no digests, since it differs between machines by rounding.
        """
        if self.folder is None:
            return {}
        counts = read_counts(self.folder)
        corpus: dict[str, Any] = {}
        if counts is not None:
            corpus = {"corpus": counts.corpus, "texts": counts.texts, "tokens": counts.tokens}
        if corpus.get("corpus") == WORLD:
            return corpus
        return corpus | {
            "sha256": {
                str(layer): sha256_once(layer_file(self.folder, layer))[:16] for layer in layers
            }
        }

    def matrix(self, layer: int, size: int) -> Tensor:
        """Return C of a layer, shape (size, size), float64.

        Raises:
            MissingData: this layer has no covariance.
            BadData: it has another size, holds numbers that are not finite, or cannot be read.
        """
        if self.folder is None:
            return torch.eye(size, dtype=torch.float64)
        try:
            return read_layer(self.folder, layer, size).double()
        except (BadData, MissingData) as error:
            raise type(error)(f"{error} {self._remedy}") from error

    def solve(self, layer: int, keys: Tensor) -> Tensor:
        """Return C^-1 K for keys K of shape (D, n), float64."""
        keys = keys.cpu().double()
        if self.folder is None:
            return keys
        return on_device(self.device, torch.cholesky_solve, keys, self.factor(layer, len(keys)))

    def factorise(self, lm: CausalLM, paths: Architecture, layers: Sequence[int]) -> None:
        """Compute the Cholesky factors of some layers of a model; the identity needs none."""
        if self.folder is not None:
            for layer in layers:
                self.factor(layer, key_size(lm, paths, layer))

    def factor(self, layer: int, size: int) -> Tensor:
        """Return the Cholesky factor of C, shape (size, size), float64."""
        return self._factorised(layer, size, "factor", self._cholesky)

    def null_space(self, layer: int, size: int, threshold: float) -> Tensor:
        """Return C's eigenvectors with eigenvalues below the threshold, (size, rank), float64."""
        if self.folder is None:  # all eigenvalues of the identity are 1
            return torch.eye(size, dtype=torch.float64)[:, : size if threshold > 1 else 0]
        decompose = partial(null_space, below=threshold)
        return self._factorised(
            layer, size, f"null-space-{threshold:g}", decompose, below=repr(threshold)
        )

    def _factorised(
        self,
        layer: int,
        size: int,
        name: str,
        decompose: Callable[[Tensor], Tensor],
        **settings: str,
    ) -> Tensor:
        """Return a factorisation of a layer's covariance from memory or disk, or compute it."""
        key = layer, name, *settings.values()
        if key not in self._factorisations:

            def compute() -> Tensor:
                try:
                    return on_device(self.device, decompose, self.matrix(layer, size))
                except LinAlgError as error:
                    raise BadData(
                        f"the covariance of layer {layer} in '{self.folder}' cannot be decomposed "
                        f"({error}): it was collected over too little text. {self._remedy}"
                    ) from error

            source = None if self.folder is None else layer_file(self.folder, layer)
            if source is None or not source.is_file():
                self._factorisations[key] = compute()
            else:
                file = source.with_name(f"{name}-{layer}.safetensors")
                provenance = {"statistics": sha256_once(source)} | settings
                self._factorisations[key] = cached_tensor(file, provenance, size, compute)
            self._warn(size)
        return self._factorisations[key]

    def _cholesky(self, matrix: Tensor) -> Tensor:
        factor, ridge = cholesky(matrix)
        if ridge > ROUNDING:
            self._warn(len(matrix), ridge)
        return factor

    def _warn(self, size: int, ridge: float = 0.0) -> None:
        """Log a warning once if the covariance comes from too little text for keys of that size."""
        if self._warned or self.folder is None:
            return
        if warning := scarcity_warning(self.folder, size, ridge):
            self._warned = True
            logging.getLogger(__name__).warning("%s", warning)


def scarcity_warning(folder: Path, size: int, ridge: float = 0.0) -> str:
    """Return a warning if a covariance comes from too few tokens for keys of that size, else "".

    `ridge` is the value added to its diagonal for the inversion, relative to the diagonal's mean.
    """
    counts = read_counts(folder)
    if counts is None or (counts.tokens >= size and not ridge):
        return ""
    singular = ""
    if ridge:
        singular = f", and is singular without {ridge:g} of its mean added to its diagonal"
    return (
        f"covariance '{folder}' was collected over {counts.tokens:,} tokens, for keys of {size:,} "
        f"numbers{singular}: it is unreliable for ordinary text. Collect it over more text with "
        "`emend prepare covariance`."
    )


def load_covariance(
    lm: CausalLM, paths: Architecture, layers: Sequence[int], name: str
) -> KeyCovariance:
    """Return the covariance of a setting: `identity`, `tinyworld`, `collected`, or a folder.

    `tinyworld` collects the covariance once from texts of the invented world, which takes seconds
    on the embedded model.

    Raises:
        MissingData: no covariance of this model was collected, or several were and one must be
            named.
        BadData: the named covariance belongs to another model.
    """
    if name == "identity":
        return KeyCovariance(None)
    if name == WORLD:
        folder = covariance_folder(lm, WORLD)
        collect_covariance(lm, paths, layers, texts_of_the_world(), folder, corpus=WORLD)
        return KeyCovariance(folder, "Name another with the setting 'covariance'.", lm.device)
    if name != "collected":
        folder = _checked(lm, layers, Path(name).expanduser(), name)
        return KeyCovariance(
            folder, _remedy(lm, layers, folder, f" --out {shlex.quote(name)}"), lm.device
        )
    folders = collected_folders(parse_digest(lm.fingerprint), layers)
    if len(folders) != 1:
        raise MissingData(
            f"there are {len(folders) or 'no'} covariances of this model's layers {list(layers)}"
            f"{': ' + ', '.join(map(str, folders)) if folders else ''}. Name one with the setting "
            f"'covariance', or collect one: {_command(lm, layers)}"
        )
    return KeyCovariance(folders[0], _remedy(lm, layers, folders[0]), lm.device)


def _remedy(lm: CausalLM, layers: Sequence[int], folder: Path, out: str = "") -> str:
    """Return advice on how to collect an unusable covariance again from the same text."""
    counts = read_counts(folder)
    corpus = files = ""
    if counts:
        corpus = f" with the text of corpus '{counts.corpus}' (cap {counts.cap})"
        if not counts.corpus.startswith(f"{DEFAULT_CORPUS}-"):
            files = " --corpus FILES"
    return f"Collect it again{corpus}: {_command(lm, layers, files)}{out}"


def _command(lm: CausalLM, layers: Sequence[int], corpus: str = "") -> str:
    """Return the command that collects the covariance of these and other needed layers."""
    config = lm.model.config
    unknown = config.model_type not in ARCHITECTURES
    paths = " --set rome=@FILE (of its [architecture])" if unknown else ""
    needed = covariance_layers(config)
    every = ""
    if not set(layers) <= set(needed):
        every = f" --layers {','.join(map(str, sorted({*layers, *needed})))}"
    return (
        f"emend prepare covariance --model {shlex.quote(f'hf:{lm.folder}')}{every}{paths}{corpus}"
    )


def covariance_folder(lm: CausalLM, corpus: str) -> Path:
    """Return the cache folder of a model's covariance; `corpus` names its text.

    The folder depends on the model's weights, not on the model's folder name or dtype.
    """
    return _statistics(parse_digest(lm.fingerprint)) / corpus


def collected_folders(digest: str, layers: Sequence[int]) -> list[Path]:
    """Return the cache folders with covariances of these layers, for the model with this digest."""
    folders = []
    for file in sorted(_statistics(digest).glob("*/counts.json")):
        folder = file.parent
        has_layers = all(layer_file(folder, layer).exists() for layer in layers)
        if folder.name != WORLD and has_layers:
            folders.append(folder)
    return folders


def _statistics(digest: str) -> Path:
    return cache_folder("statistics") / content_id("statistics", digest)


def _checked(lm: CausalLM, layers: Sequence[int], folder: Path, name: str) -> Path:
    counts = read_counts(folder)
    if counts is None:
        raise MissingData(
            f"no finished covariance in '{name}': give a folder that `emend prepare covariance` "
            "wrote, or one of identity, collected, tinyworld."
        )
    if parse_digest(counts.model) != parse_digest(lm.fingerprint):
        raise BadData(
            f"covariance '{name}' is of model {counts.model}, but this one is {lm.fingerprint}: "
            "collect its own with `emend prepare covariance`."
        )
    missing = [layer for layer in layers if not layer_file(folder, layer).exists()]
    if missing:
        raise MissingData(
            f"covariance '{name}' has no layer {', '.join(map(str, missing))}. "
            + _remedy(lm, layers, folder, f" --out {shlex.quote(name)}")
        )
    return folder
