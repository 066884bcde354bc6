"""Key covariances as editors use them: read once, factorised once, and never those of another model."""

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
from emend.editors.numerics.collect_covariance import collect_covariance, layer_file, read_counts, read_layer
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

    Factorisations are cached beside the covariance on disk; the covariance itself is held no longer than they take.

    Args:
        folder: as `collect_covariance` writes it; None takes the identity in every layer.
        remedy: what to do where it cannot be used.
        device: factorises and solves, if it has float64; results are on the CPU.
    """

    def __init__(
        self,
        folder: Path | None,
        remedy: str = "Collect it with `emend covariance`.",
        device: torch.device = CPU,
    ) -> None:
        self.folder, self.device = folder, device
        self._remedy = remedy
        self._factorisations: dict[tuple[Any, ...], Tensor] = {}
        self._warned = False

    def provenance(self, layers: Sequence[int]) -> dict[str, Any]:
        """Corpus, number of texts and tokens, and a digest for each layer; empty for the identity.

        That of the invented world is equal wherever it is made, but for last digits, and has no digests.
        """
        if self.folder is None:
            return {}
        counts = read_counts(self.folder)
        corpus = {} if counts is None else {"corpus": counts.corpus, "texts": counts.texts, "tokens": counts.tokens}
        if corpus.get("corpus") == WORLD:
            return corpus
        return corpus | {"sha256": {str(layer): sha256_once(layer_file(self.folder, layer))[:16] for layer in layers}}

    def matrix(self, layer: int, size: int) -> Tensor:
        """C of a layer, shape (size, size), float64.

        Raises:
            MissingData: there is none for this layer.
            BadData: it has another size, holds numbers that are not finite, or cannot be read.
        """
        if self.folder is None:
            return torch.eye(size, dtype=torch.float64)
        try:
            return read_layer(self.folder, layer, size).double()
        except (BadData, MissingData) as error:
            raise type(error)(f"{error} {self._remedy}") from error

    def solve(self, layer: int, keys: Tensor) -> Tensor:
        """C^-1 K for keys K of shape (D, n), float64."""
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
        """The Cholesky factor of C, shape (size, size), float64."""
        return self._factorised(layer, size, "factor", self._cholesky)

    def null_space(self, layer: int, size: int, threshold: float) -> Tensor:
        """Eigenvectors of C with eigenvalues under the threshold, shape (size, rank), float64."""
        if self.folder is None:  # all eigenvalues of the identity are 1
            return torch.eye(size, dtype=torch.float64)[:, : size if threshold > 1 else 0]
        decompose = partial(null_space, below=threshold)
        return self._factorised(layer, size, f"null-space-{threshold:g}", decompose, below=repr(threshold))

    def _factorised(
        self, layer: int, size: int, name: str, decompose: Callable[[Tensor], Tensor], **settings: str
    ) -> Tensor:
        """A factorisation of a layer's covariance, from memory, from disk, or computed."""
        key = layer, name, *settings.values()
        if key not in self._factorisations:

            def compute() -> Tensor:
                try:
                    return on_device(self.device, decompose, self.matrix(layer, size))
                except LinAlgError as error:
                    raise BadData(
                        f"the covariance of layer {layer} in '{self.folder}' cannot be decomposed ({error}): it is of "
                        f"too little text. {self._remedy}"
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
        """Log once where the covariance is of too little text for keys of that size."""
        if self._warned or self.folder is None:
            return
        if warning := scarcity_warning(self.folder, size, ridge):
            self._warned = True
            logging.getLogger(__name__).warning("%s", warning)


def scarcity_warning(folder: Path, size: int, ridge: float = 0.0) -> str:
    """A warning about a covariance of too little text for keys of that many numbers; empty where there was enough.

    `ridge` is what its diagonal needed to be inverted, in shares of its mean.
    """
    counts = read_counts(folder)
    if counts is None or (counts.tokens >= size and not ridge):
        return ""
    singular = f", and has no inverse without {ridge:g} of its mean on its diagonal" if ridge else ""
    return (
        f"covariance '{folder}' is of {counts.tokens:,} tokens, for keys of {size:,} numbers{singular}: do not rely on "
        "it for usual text. Collect it over more text with `emend covariance`."
    )


def load_covariance(lm: CausalLM, paths: Architecture, layers: Sequence[int], name: str) -> KeyCovariance:
    """The covariance that a setting names: `identity`, `tinyworld`, `collected`, or a folder.

    `tinyworld` collects it from texts of the invented world, which takes seconds on the embedded model, once.

    Raises:
        MissingData: none was collected for this model, or from several corpora, so that one must be named.
        BadData: the named one is another model's.
    """
    if name == "identity":
        return KeyCovariance(None)
    if name == WORLD:
        folder = covariance_folder(lm, WORLD)
        collect_covariance(lm, paths, layers, texts_of_the_world(), folder, corpus=WORLD)
        return KeyCovariance(folder, "Name another with the setting 'covariance'.", lm.device)
    if name != "collected":
        folder = _checked(lm, layers, Path(name).expanduser(), name)
        return KeyCovariance(folder, _remedy(lm, layers, folder, f" --out {shlex.quote(name)}"), lm.device)
    folders = collected_folders(parse_digest(lm.fingerprint), layers)
    if len(folders) != 1:
        raise MissingData(
            f"there are {len(folders) or 'no'} covariances of this model's layers {list(layers)}"
            f"{': ' + ', '.join(map(str, folders)) if folders else ''}. Name one with the setting 'covariance', or "
            f"collect one: {_command(lm, layers)}"
        )
    return KeyCovariance(folders[0], _remedy(lm, layers, folders[0]), lm.device)


def _remedy(lm: CausalLM, layers: Sequence[int], folder: Path, out: str = "") -> str:
    """How an unusable covariance is collected again in its place, from the same text."""
    counts = read_counts(folder)
    corpus = f" with the text of corpus '{counts.corpus}' (cap {counts.cap})" if counts else ""
    files = " --corpus FILES" if counts and not counts.corpus.startswith(f"{DEFAULT_CORPUS}-") else ""
    return f"Collect it anew{corpus}: {_command(lm, layers, files)}{out}"


def _command(lm: CausalLM, layers: Sequence[int], corpus: str = "") -> str:
    """The command that collects the covariance of these layers, and of all that other editors need for the model."""
    config = lm.model.config
    unknown = config.model_type not in ARCHITECTURES
    paths = " --set rome=@FILE (of its [architecture])" if unknown else ""
    needed = covariance_layers(config)
    every = "" if set(layers) <= set(needed) else f" --layers {','.join(map(str, sorted({*layers, *needed})))}"
    return f"emend covariance --model {shlex.quote(f'hf:{lm.folder}')}{every}{paths}{corpus}"


def covariance_folder(lm: CausalLM, corpus: str) -> Path:
    """The folder of a model's covariance in the cache; `corpus` names its text.

    It depends on the model's weights alone, not on its folder's name or its number format.
    """
    return _statistics(parse_digest(lm.fingerprint)) / corpus


def collected_folders(digest: str, layers: Sequence[int]) -> list[Path]:
    """The covariances in the cache that have these layers, of the model with this digest of its weights."""
    return [
        file.parent
        for file in sorted(_statistics(digest).glob("*/counts.json"))
        if file.parent.name != WORLD and all(layer_file(file.parent, layer).exists() for layer in layers)
    ]


def _statistics(digest: str) -> Path:
    return cache_folder("statistics") / content_id("statistics", digest)


def _checked(lm: CausalLM, layers: Sequence[int], folder: Path, name: str) -> Path:
    counts = read_counts(folder)
    if counts is None:
        raise MissingData(
            f"no finished covariance in '{name}': give a folder that `emend covariance` has written, or one of "
            "identity, collected, tinyworld."
        )
    if parse_digest(counts.model) != parse_digest(lm.fingerprint):
        raise BadData(
            f"covariance '{name}' is of model {counts.model}, and this one is {lm.fingerprint}: collect its own with "
            "`emend covariance`."
        )
    missing = [layer for layer in layers if not layer_file(folder, layer).exists()]
    if missing:
        raise MissingData(
            f"covariance '{name}' has no layer {', '.join(map(str, missing))}. "
            + _remedy(lm, layers, folder, f" --out {shlex.quote(name)}")
        )
    return folder
