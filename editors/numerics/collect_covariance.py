"""Collection of the uncentred covariance of the keys that enter the down-projections, over any local text.

One pass of the corpus serves all layers and stops after the last of them. Sums are saved on disk now and then, so an
interrupted pass resumes; finished layers are in a folder named by model and corpus.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture
from emend.editors.numerics.key_sums import add_keys, key_size, mirrored
from emend.editors.numerics.tensor_files import digest_of, save_whole
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, BadSettings

PART = 128
"""Texts that are batched together, by length."""
EVERY_SECONDS = 5.0
"""Minimum time between two saves; also at least 50 times as long as the last save took."""
COUNTS = "counts.json"
MOMENT = "moment"
UNKNOWN = ".unknown"
"""Suffix for a layer's file whose origin no `counts.json` states."""


class CorpusCounts(FrozenModel):
    """The model and text that a folder of covariances was computed from."""

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

    Complete layers are left as they are; damaged ones are logged and collected again. Memory is bounded by the model's
    token budget and one matrix per layer.

    Args:
        lm: the unedited model.
        paths: its module paths.
        layers: from 0.
        texts: in a stable order; those that an earlier call has counted are skipped.
        folder: gets `layer-N.safetensors` (moment, float32, shape (D, D)) and `counts.json`; of one corpus alone.
        cap: maximum tokens of a piece; longer texts are cut into pieces of that size.
        corpus: name of the text in `counts.json`.
        progress: called with the texts and tokens so far after every part.
        every: minimum seconds between two saves.

    Raises:
        BadData: there is no text, or the folder holds the covariance of another model, corpus or cap.
        BadSettings: the folder cannot be made.
        ModelError: keys are not finite, or there is not enough memory for the smallest batches.
    """
    counts = _existing_counts(folder, lm, corpus, cap)
    missing = [
        layer
        for layer in dict.fromkeys(layers)
        if not (counts and _is_complete(folder, layer, key_size(lm, paths, layer)))
    ]
    if counts and not missing:
        return counts
    _make_folder(folder, known=counts is not None)
    key = content_id(lm.fingerprint, corpus, sorted(missing), cap)
    partial = _PartialSums(folder / f"partial-{key}.safetensors", missing, lm, every)
    for part in _chunks(islice(texts, partial.texts, None)):
        partial.add(len(part), add_keys(lm, paths, part, cap, partial.sums))
        progress(partial.texts, partial.tokens)
    counts = CorpusCounts(model=lm.fingerprint, corpus=corpus, texts=partial.texts, tokens=partial.tokens, cap=cap)
    partial.finish(folder, counts)
    return counts


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    while part := list(islice(texts, PART)):
        yield part


class _PartialSums:
    """The sums of an unfinished pass, with the texts and tokens in them, kept in one file so that they always fit."""

    def __init__(self, file: Path, layers: list[int], lm: CausalLM, every: float) -> None:
        self.file, self.every, self.pause = file, every, every
        self.texts = self.tokens = 0
        self.sums = {layer: torch.zeros(0) for layer in layers}
        tensors = _read_partial(file) if file.exists() else None
        if tensors is not None:
            self.texts, self.tokens = tensors["counted"].tolist()
            self.sums = {layer: tensors[f"layer-{layer}"].to(lm.device) for layer in layers}
        self.saved = time.monotonic()

    def add(self, texts: int, tokens: int) -> None:
        """Count texts and tokens whose keys were added, and save if the last save was long enough ago."""
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
                f"no text to collect statistics from, seen {counts.texts} texts without tokens: name other files."
            )
        draft = folder / f"{COUNTS}.{os.getpid()}.part"
        draft.write_text(counts.model_dump_json(), encoding="utf-8")
        draft.replace(folder / COUNTS)
        for layer, total in self.sums.items():
            save_whole({MOMENT: (mirrored(total) / counts.tokens).cpu()}, layer_file(folder, layer))
        self.file.unlink(missing_ok=True)


def _read_partial(file: Path) -> dict[str, Tensor] | None:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        logging.getLogger(__name__).warning("'%s' cannot be read (%s): the pass starts anew", file, error)
        return None


def _existing_counts(folder: Path, lm: CausalLM, corpus: str, cap: int) -> CorpusCounts | None:
    """The counts of the folder, which must be of the same model, corpus and cap; None where there are none."""
    try:
        counts = read_counts(folder)
    except BadData as error:
        logging.getLogger(__name__).warning("%s That is done now.", error)
        return None
    same_model = counts and digest_of(counts.model) == digest_of(lm.fingerprint)
    if counts and not (same_model and (counts.corpus, counts.cap) == (corpus, cap)):
        raise BadData(
            f"'{folder}' holds statistics of model {counts.model}, corpus '{counts.corpus}', {counts.cap} tokens a "
            f"piece, not of model {lm.fingerprint}, corpus '{corpus}', {cap} tokens: name another folder."
        )
    return counts


def _make_folder(folder: Path, known: bool) -> None:
    """Make the folder; layers of unknown origin are renamed, so that they are not taken for new ones.

    Raises:
        BadSettings: it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in [] if known else list(folder.glob("layer-*.safetensors")):
            renamed = file.replace(file.with_name(file.name + UNKNOWN))
            logging.getLogger(__name__).warning("'%s' is of unknown origin: renamed to '%s'", file, renamed)
    except OSError as error:
        raise BadSettings(f"cannot write statistics to '{folder}': {error.strerror}: name another folder.") from error


def _is_complete(folder: Path, layer: int, size: int) -> bool:
    """True where a layer's covariance exists and can be used; one that cannot is logged."""
    file = layer_file(folder, layer)
    if not file.exists():
        return False
    problem = _problem(file, size)
    if problem:
        logging.getLogger(__name__).warning("'%s' cannot be used (%s): collected anew", file, problem)
    return not problem


def _problem(file: Path, size: int) -> str:
    """Why a covariance cannot be used, from a quick look; empty if it can."""
    try:
        with safe_open(file, "pt") as opened:
            moment = opened.get_tensor(MOMENT)
    except (SafetensorError, OSError) as error:
        return str(error)
    if moment.shape != (size, size):
        return f"it has shape {tuple(moment.shape)}, and keys have {size} numbers"
    return "" if moment.diagonal().isfinite().all() else "it holds numbers that are not finite"


def layer_file(folder: Path, layer: int) -> Path:
    """The file of a layer's covariance; it exists exactly when it is finished."""
    return folder / f"layer-{layer}.safetensors"


def read_counts(folder: Path) -> CorpusCounts | None:
    """The model and text that a folder's covariances were computed from; None if there are none.

    Raises:
        BadData: the file is not what `collect_covariance` writes.
    """
    file = folder / COUNTS
    if not file.exists():
        return None
    try:
        return CorpusCounts.model_validate_json(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadData(
            f"'{file}' does not say what it was made from: collect statistics with `emend covariance`."
        ) from error
