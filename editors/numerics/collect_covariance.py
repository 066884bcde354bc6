"""Collection of the uncentred covariance of down-projection keys, over any local text.

One pass over the corpus serves all layers. Sums are saved regularly, so an interrupted pass can be
resumed.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture
from emend.editors.numerics.key_sums import add_keys, key_size, mirrored
from emend.editors.numerics.tensor_files import parse_digest, read_tensors, save_whole
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.files import private_folder, read_file, replace_file

log = logging.getLogger(__name__)
# Number of texts that are sorted by length and batched together.
PART = 128
# Minimum time between two saves, which is also at least 50 times as long as the last save took.
EVERY_SECONDS = 5.0
COUNTS = "counts.json"
MOMENT = "moment"
# Suffix for a layer's file of unknown origin, in a folder without `counts.json`.
UNKNOWN = ".unknown"


class CorpusCounts(FrozenModel):
    """The model and text that the covariances in a folder were computed from."""

    model: str
    """The model's fingerprint."""
    corpus: str
    texts: int
    tokens: int
    cap: int


def collect_covariance(
    lm: CausalLM,
    paths: Architecture,
    layers: Sequence[int],
    texts: Iterable[str],
    folder: Path,
    *,
    cap: int = 512,
    corpus: str = "",
    progress: Callable[[int, int], None] = lambda texts, tokens: None,
    every: float = EVERY_SECONDS,
) -> CorpusCounts:
    """Write the mean of k k^T of each layer to `folder`, resuming an interrupted call.

    Complete layers are skipped; damaged ones are logged and collected again.

    Args:
        lm: the unedited model.
        paths: its module paths.
        layers: the layers, from 0.
        texts: the texts in a stable order; those counted by an earlier call are skipped.
        folder: folder for one corpus; gets `counts.json` and `layer-N.safetensors` (moment,
            float32, shape (D, D)).
        cap: maximum number of tokens of a piece; longer texts are cut into pieces of that size.
        corpus: name of the text in `counts.json`.
        progress: called after every batch of texts with the numbers of texts and tokens so far.
        every: minimum seconds between two saves.

    Raises:
        BadData: there is no text, or the folder holds the covariance of another model, corpus or
            cap.
        BadSettings: the folder cannot be created.
        ModelError: keys are not finite, or there is not enough memory for the smallest batches.
    """
    counts = _existing_counts(folder, lm, corpus, cap)
    missing = _missing_layers(counts, folder, lm, paths, list(dict.fromkeys(layers)))
    if counts and not missing:
        return counts
    _make_folder(folder, known=counts is not None)
    key = content_id(lm.fingerprint, corpus, sorted(missing), cap)
    partial = _PartialSums(folder / f"partial-{key}.safetensors", missing, lm, every)
    unread = islice(texts, partial.texts, None)
    while part := list(islice(unread, PART)):
        partial.add(len(part), add_keys(lm, paths, part, cap, partial.sums))
        progress(partial.texts, partial.tokens)
    counts = CorpusCounts(
        model=lm.fingerprint, corpus=corpus, texts=partial.texts, tokens=partial.tokens, cap=cap
    )
    partial.finish(folder, counts)
    return counts


def _missing_layers(
    counts: CorpusCounts | None, folder: Path, lm: CausalLM, paths: Architecture, layers: list[int]
) -> list[int]:
    """Return the layers whose files are missing or damaged (logged); all layers without counts."""
    if counts is None:
        return layers
    return [n for n in layers if not _is_complete(folder, n, key_size(lm, paths, n))]


class _PartialSums:
    """Sums of an unfinished pass, saved in one file with their numbers of texts and tokens."""

    def __init__(self, file: Path, layers: list[int], lm: CausalLM, every: float) -> None:
        self.file, self.every, self.pause = file, every, every
        self.texts = self.tokens = 0
        self.sums = {layer: torch.zeros(0) for layer in layers}
        try:
            tensors = read_tensors(file) if file.exists() else None
        except BadData as error:
            log.warning("%s The pass starts from the beginning.", error)
            tensors = None
        if tensors is not None:
            self.texts, self.tokens = tensors["counted"].tolist()
            self.sums = {layer: tensors[f"layer-{layer}"].to(lm.device) for layer in layers}
        self.saved = time.monotonic()

    def add(self, texts: int, tokens: int) -> None:
        """Count texts and tokens whose keys were added, and save if a save is due."""
        self.texts, self.tokens = self.texts + texts, self.tokens + tokens
        began = time.monotonic()
        if began - self.saved < self.pause:
            return
        if self.tokens:
            tensors = {f"layer-{layer}": total.cpu() for layer, total in self.sums.items()}
            save_whole(tensors | {"counted": torch.tensor([self.texts, self.tokens])}, self.file)
        self.saved = time.monotonic()
        self.pause = max(self.every, 50 * (self.saved - began)) if self.every else self.every

    def finish(self, folder: Path, counts: CorpusCounts) -> None:
        """Write the counts and each layer's covariance, and remove the partial sums."""
        if not counts.tokens:
            raise BadData(
                f"no text to collect a covariance from: {counts.texts} texts, all without tokens."
            )
        replace_file(folder / COUNTS, counts.model_dump_json().encode())
        for layer, total in self.sums.items():
            save_whole({MOMENT: (mirrored(total) / counts.tokens).cpu()}, layer_file(folder, layer))
        self.file.unlink(missing_ok=True)


def _existing_counts(folder: Path, lm: CausalLM, corpus: str, cap: int) -> CorpusCounts | None:
    """Return the folder's counts, or None; they must be of the same model, corpus and cap."""
    try:
        counts = read_counts(folder)
    except BadData as error:
        log.warning("%s It is computed now.", error)
        return None
    same_model = counts and parse_digest(counts.model) == parse_digest(lm.fingerprint)
    if counts and not (same_model and (counts.corpus, counts.cap) == (corpus, cap)):
        raise BadData(
            f"'{folder}' holds the covariance of model {counts.model}, corpus '{counts.corpus}', "
            f"{counts.cap} tokens a piece, not of model {lm.fingerprint}, corpus '{corpus}', {cap} "
            "tokens: name another folder."
        )
    return counts


def _make_folder(folder: Path, known: bool) -> None:
    """Create the folder; rename layers of unknown origin, so that they are not taken for new.

    Raises:
        BadSettings: the folder cannot be written to.
    """
    try:
        private_folder(folder, links=True)
        for file in [] if known else list(folder.glob("layer-*.safetensors")):
            renamed = file.replace(file.with_name(file.name + UNKNOWN))
            log.warning("'%s' is of unknown origin: renamed to '%s'", file, renamed)
    except (OSError, BadData) as error:
        raise BadSettings(
            f"cannot write a covariance to '{folder}' ({error}): name another folder."
        ) from error


def _is_complete(folder: Path, layer: int, size: int) -> bool:
    """Return True if a layer's covariance exists and is usable; unusable ones are logged."""
    try:
        read_layer(folder, layer, size)
    except MissingData:
        return False
    except BadData as error:
        log.warning("%s It is collected again.", error)
        return False
    return True


def read_layer(folder: Path, layer: int, size: int) -> Tensor:
    """Return a layer's covariance, shape (size, size), float32.

    Raises:
        MissingData: the layer has no file.
        BadData: the file cannot be read, has another size, or holds numbers that are not finite.
    """
    file = layer_file(folder, layer)
    if not file.exists():
        raise MissingData(f"no covariance of layer {layer} in '{folder}'.")
    moment = read_tensors(file).get(MOMENT, torch.zeros(0))
    if moment.shape != (size, size):
        raise BadData(
            f"covariance '{file}' has shape {tuple(moment.shape)}, the model's keys have {size} "
            "numbers: it belongs to another model."
        )
    if not moment.isfinite().all():
        raise BadData(
            f"covariance '{file}' contains numbers that are not finite, as when keys overflow in "
            "float16: load the model with --set model.dtype=float32 or bfloat16."
        )
    return moment


def layer_file(folder: Path, layer: int) -> Path:
    """Return the path of a layer's covariance file, which exists only if it is complete."""
    return folder / f"layer-{layer}.safetensors"


def read_counts(folder: Path) -> CorpusCounts | None:
    """Return the model and text of a folder's covariances; None if there are none.

    Raises:
        BadData: the file was not written by `collect_covariance`.
    """
    file = folder / COUNTS
    try:
        return CorpusCounts.model_validate_json(read_file(file, is_small=True))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise BadData(
            f"'{file}' does not say what it was made from: collect with `emend prepare covariance`."
        ) from error
