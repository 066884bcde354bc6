"""Collected statistics as editors use them: read once, factorised once, and never those of another model."""

import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import ARCHITECTURES, Architecture
from emend.editors.numerics.collect_covariance import MOMENT, collect, layer_file, read_counts
from emend.editors.numerics.factorise import ROUNDING, LinAlgError, cholesky, null_space
from emend.editors.numerics.tensor_files import digest_of, save_whole, sha256_of
from emend.memory.edit import content_id
from emend.memory.errors import BadData, MissingData
from emend.memory.paths import cache_folder

KEPT = "kept"
WORLD, WORLD_TEXTS = "tinyworld", 1500


class Moments:
    """Second moments of keys; what follows from one is kept beside it on disk, so that each is decomposed once.

    A moment itself is held no longer than it takes to make that.

    Args:
        folder: as `collect` writes it; None takes the identity in place of every moment, as if all keys were alike.
        remedy: what to do where they cannot be used.
    """

    def __init__(self, folder: Path | None, remedy: str = "Collect them with `emend covariance`.") -> None:
        self.folder = folder
        self._remedy = remedy
        self._factors: dict[int, Tensor] = {}
        self._bases: dict[tuple[int, float], Tensor] = {}
        self._warned = False

    def told(self, layers: Sequence[int]) -> dict[str, Any]:
        """What they were made from, and a digest for each layer; nothing for the identity.

        Those of the invented world are the same wherever they are made, but for last digits, and need no digests.
        """
        if self.folder is None:
            return {}
        counts = read_counts(self.folder)
        made = {} if counts is None else {"corpus": counts.corpus, "texts": counts.texts, "tokens": counts.tokens}
        if made.get("corpus") == WORLD:
            return made
        return made | {"sha256": {str(layer): _digest(layer_file(self.folder, layer))[:16] for layer in layers}}

    def moment(self, layer: int, size: int) -> Tensor:
        """Shape (size, size), float64.

        Raises:
            MissingData: there is none for this layer.
            BadData: it has another size, holds numbers that are none, or cannot be read.
        """
        return torch.eye(size, dtype=torch.float64) if self.folder is None else self._load(layer, size)

    def solve(self, layer: int, keys: Tensor) -> Tensor:
        """C^-1 K for keys of shape (D, n), float64."""
        keys = keys.cpu().double()
        if self.folder is None:
            return keys
        solved: Tensor = torch.cholesky_solve(keys, self.factor(layer, len(keys)))
        return solved

    def factor(self, layer: int, size: int) -> Tensor:
        """The Cholesky factor of the moment, shape (size, size), float64."""
        if layer not in self._factors:
            self._factors[layer] = self._kept(layer, size, "factor", self._factorised)
            self._warn(size)
        return self._factors[layer]

    def null_space(self, layer: int, size: int, below: float) -> Tensor:
        """Eigenvectors of the moment with eigenvalues under `below`, shape (size, rank), float64."""
        if self.folder is None:  # whose eigenvalues are all 1
            return torch.eye(size, dtype=torch.float64)[:, : size if below > 1 else 0]
        if (layer, below) not in self._bases:
            make = partial(null_space, below=below)
            self._bases[layer, below] = self._kept(layer, size, f"null-space-{below:g}", make, below=repr(below))
            self._warn(size)
        return self._bases[layer, below]

    def _factorised(self, moment: Tensor) -> Tensor:
        factor, ridge = cholesky(moment)
        if ridge > ROUNDING:
            self._warn(len(moment), ridge)
        return factor

    def _warn(self, size: int, ridge: float = 0.0) -> None:
        """Says once that statistics are of too little text for keys of that size, where they are."""
        said = "" if self._warned or self.folder is None else too_little(Path(self.folder), size, ridge)
        if said:
            self._warned = True
            logging.getLogger(__name__).warning("%s", said)

    def _load(self, layer: int, size: int) -> Tensor:
        file = layer_file(Path(str(self.folder)), layer)
        if not file.exists():
            raise MissingData(f"no statistics of layer {layer} in '{self.folder}'. {self._remedy}")
        try:
            moment = load_file(file)[MOMENT].double()
        except (SafetensorError, KeyError, OSError) as error:
            raise BadData(f"statistics '{file}' cannot be read ({error}). {self._remedy}") from error
        if moment.shape != (size, size):
            raise BadData(
                f"statistics '{file}' have shape {tuple(moment.shape)}, the model's keys have {size} numbers: "
                f"they are another model's. {self._remedy}"
            )
        if not moment.isfinite().all():
            raise BadData(
                f"statistics '{file}' hold numbers that are not finite, as keys leave that overflow in float16: load "
                f"the model with --set model.dtype=float32 or bfloat16. {self._remedy}"
            )
        return moment

    def _kept(self, layer: int, size: int, name: str, make: Callable[[Tensor], Tensor], **told: str) -> Tensor:
        """What follows from a moment: from disk if it was kept there for this very moment, else made and kept.

        A file that cannot be read, or was made from another moment or with other settings, is logged and made anew. A
        folder that is read-only, or a moment that is not on disk, goes without.
        """
        source = None if self.folder is None else layer_file(Path(self.folder), layer)
        if source is None or not source.is_file():
            return self._made(layer, size, make)
        facts = {"statistics": _digest(source)} | told
        file = source.with_name(f"{name}-{layer}.safetensors")
        kept = _read_kept(file, facts) if file.exists() else None
        if kept is not None and len(kept) == size:
            return kept
        made = self._made(layer, size, make)
        with suppress(OSError, SafetensorError):
            save_whole({KEPT: made}, file, facts)
        return made

    def _made(self, layer: int, size: int, make: Callable[[Tensor], Tensor]) -> Tensor:
        try:
            return make(self.moment(layer, size))
        except LinAlgError as error:
            raise BadData(
                f"statistics of layer {layer} in '{self.folder}' cannot be decomposed ({error}): they are of too "
                f"little text. {self._remedy}"
            ) from error


def _digest(file: Path) -> str:
    """The sha256 of a file, worked out once for as long as the file is the same one."""
    seen = file.stat()
    return _digest_of_state(file, (seen.st_ino, seen.st_size, seen.st_mtime_ns))


@lru_cache(maxsize=256)
def _digest_of_state(file: Path, _: tuple[int, ...]) -> str:
    return sha256_of(file)


def _read_kept(file: Path, facts: Mapping[str, str]) -> Tensor | None:
    """The tensor in a file that was made from these facts; None, and a line in the log, for any other."""
    log = logging.getLogger(__name__)
    try:
        with safe_open(file, "pt") as opened:
            if opened.metadata() == facts:
                kept: Tensor = opened.get_tensor(KEPT)
                return kept
    except (SafetensorError, OSError) as error:
        log.warning("'%s' cannot be read (%s): computed anew", file, error)
        return None
    log.warning("'%s' was made from other statistics or settings: computed anew", file)
    return None


def too_little(folder: Path, size: int, ridge: float = 0.0) -> str:
    """What is to be said of statistics of too little text for keys of that size; nothing where there was enough.

    Args:
        folder: as `collect` writes it.
        size: numbers of a key.
        ridge: what their diagonal needed, in shares of its mean.
    """
    counts = read_counts(folder)
    if counts is None or (counts.tokens >= size and not ridge):
        return ""
    added = f", and have no inverse without {ridge:g} of its mean on their diagonal" if ridge else ""
    return (
        f"statistics '{folder}' are of {counts.tokens:,} tokens, for keys of {size:,} numbers{added}: what they say of "
        "usual text is not to be relied on. Collect them over more text with `emend covariance`."
    )


def moments_of(lm: CausalLM, paths: Architecture, layers: Sequence[int], named: str) -> Moments:
    """The statistics that a setting names: `identity`, `tinyworld`, `collected`, or a folder.

    `tinyworld` collects them from texts of the invented world, which takes seconds on the embedded model, once.

    Raises:
        MissingData: none were collected for this model, or from several corpora, so that one must be named.
        BadData: the named ones are another model's.
    """
    if named == "identity":
        return Moments(None)
    if named == WORLD:
        folder = statistics_folder(lm, WORLD)
        collect(lm, paths, layers, _World(), folder, corpus=WORLD)
        return Moments(folder, "Name others with the setting 'statistics'.")
    if named != "collected":
        folder = _checked(lm, layers, Path(named).expanduser(), named)
        return Moments(folder, _remedy(lm, layers, folder, f" --out {shlex.quote(named)}"))
    found = [file.parent for file in sorted(statistics_folder(lm, "").glob("*/counts.json"))]
    found = [
        folder
        for folder in found
        if folder.name != WORLD and all(layer_file(folder, layer).exists() for layer in layers)
    ]
    if len(found) != 1:
        raise MissingData(
            f"{len(found) or 'no'} statistics of this model's layers {list(layers)} are at hand"
            f"{': ' + ', '.join(map(str, found)) if found else ''}. Name one with the setting 'statistics', or collect "
            f"them: {_command(lm, layers)}"
        )
    return Moments(found[0], _remedy(lm, layers, found[0]))


def _remedy(lm: CausalLM, layers: Sequence[int], folder: Path, out: str = "") -> str:
    """How statistics that cannot be used are made anew in their place, which takes the same text."""
    counts = read_counts(folder)
    corpus = f" with the text of corpus '{counts.corpus}' (cap {counts.cap})" if counts else ""
    return f"Collect them anew{corpus}: {_command(lm, layers)}{out}"


def _command(lm: CausalLM, layers: Sequence[int]) -> str:
    """What collects the statistics of a model's layers."""
    unknown = lm.model.config.model_type not in ARCHITECTURES
    told = " --set rome=@FILE (of its [architecture])" if unknown else ""
    model = shlex.quote(f"hf:{lm.folder}")
    return f"emend covariance --model {model} --layers {','.join(map(str, layers))}{told} --corpus FILES"


def statistics_folder(lm: CausalLM, corpus: str) -> Path:
    """Where statistics of a model lie, under the cache folder; `corpus` names their text.

    Whatever its folder is called and in whatever number format it is loaded: the weights decide.
    """
    return cache_folder("statistics") / content_id("statistics", digest_of(lm.fingerprint)) / corpus


def _checked(lm: CausalLM, layers: Sequence[int], folder: Path, named: str) -> Path:
    counts = read_counts(folder)
    if counts is None:
        raise MissingData(
            f"no finished statistics in '{named}': give a folder that `emend covariance` has written, or one of "
            "identity, collected, tinyworld."
        )
    if digest_of(counts.model) != digest_of(lm.fingerprint):
        raise BadData(
            f"statistics '{named}' are of model {counts.model}, and this one is {lm.fingerprint}: "
            "collect its own with `emend covariance`."
        )
    lacking = [layer for layer in layers if not layer_file(folder, layer).exists()]
    if lacking:
        raise MissingData(
            f"statistics '{named}' have no layer {', '.join(map(str, lacking))}: {_command(lm, layers)} --out {named}"
        )
    return folder


class _World:
    """Texts of the invented world; none is made before the first is asked for."""

    def __iter__(self) -> Iterator[str]:
        from emend.agents.tiny.reasoning import TrainingCorpus
        from emend.agents.tiny.world import World

        corpus = TrainingCorpus(World(), seed=1)
        return ("".join(span.text for span in corpus.document()) for _ in range(WORLD_TEXTS))
