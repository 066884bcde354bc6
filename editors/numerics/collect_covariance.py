"""What usually enters a down-projection: the uncentred second moment of its keys, over any local text.

One pass of the corpus serves all layers and stops after the last of them. Sums are kept on disk now and then, so an
interrupted pass goes on where it was; what is finished lies in a folder named by model and corpus.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
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
"""Between two savings at least; also 50 times as long as the last one took."""
COUNTS = "counts.json"
MOMENT = "moment"
UNKNOWN = ".unknown"
"""What is added to the name of a layer's file of which no `counts.json` tells where it comes from."""


class Counts(FrozenModel):
    """What a folder of statistics was made from."""

    model: str
    """The model's fingerprint."""
    corpus: str
    texts: int
    tokens: int
    cap: int


def collect(
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
) -> Counts:
    """Writes the mean of k k^T of each layer to `folder`, going on from what an interrupted call has kept there.

    Layers that are there already, and whole, are left as they are; what is damaged is said in the log and collected
    anew. Memory is bounded by the model's token budget, which is halved where it is too much, and one matrix per layer.

    Args:
        lm: the unedited model.
        paths: its module paths.
        layers: from 0.
        texts: in a stable order; those that an earlier call has counted are passed over.
        folder: gets `layer-N.safetensors` (moment, float32, shape (D, D)) and `counts.json`; of one corpus alone.
        cap: tokens of a text at most; longer ones are cut into pieces of that size.
        corpus: what the text is called in `counts.json`.
        progress: is told texts and tokens so far, after every part.
        every: seconds between two savings at least.

    Returns:
        What the statistics in the folder are made from.

    Raises:
        BadData: there is no text, or the folder holds statistics of another model, corpus or cap.
        BadSettings: the folder cannot be made.
        ModelError: keys are no finite numbers, or there is not enough memory for the smallest batches.
    """
    there = _known(folder, lm, corpus, cap)
    lacking = list(dict.fromkeys(layers))
    if there:
        lacking = [layer for layer in lacking if not _is_whole(folder, layer, key_size(lm, paths, layer))]
        if not lacking:
            return there
    _make_room(folder, whose=there)
    kept = folder / f"partial-{content_id(lm.fingerprint, corpus, sorted(lacking), cap)}.safetensors"
    counted, tokens, sums = _resume(kept, lacking, lm)
    source = islice(texts, counted, None)
    saved, pause = time.monotonic(), every
    while part := list(islice(source, PART)):
        tokens += add_keys(lm, paths, part, cap, sums)
        counted += len(part)
        began = time.monotonic()
        if began - saved >= pause:
            _keep(kept, counted, tokens, sums)
            saved = time.monotonic()
            pause = max(every, 50 * (saved - began)) if every else every
        progress(counted, tokens)
    counts = Counts(model=lm.fingerprint, corpus=corpus, texts=counted, tokens=tokens, cap=cap)
    _finish(folder, counts, sums)
    kept.unlink(missing_ok=True)
    return counts


def _known(folder: Path, lm: CausalLM, corpus: str, cap: int) -> Counts | None:
    """What the folder's statistics were made from, which must be the same; None where nothing there tells it."""
    try:
        there = read_counts(folder)
    except BadData as error:
        logging.getLogger(__name__).warning("%s That is done now.", error)
        return None
    same = there and digest_of(there.model) == digest_of(lm.fingerprint)
    if there and not (same and (there.corpus, there.cap) == (corpus, cap)):
        raise BadData(
            f"'{folder}' holds statistics of model {there.model}, corpus '{there.corpus}', {there.cap} tokens a piece; "
            f"asked for are model {lm.fingerprint}, corpus '{corpus}', {cap} tokens: name another folder."
        )
    return there


def _make_room(folder: Path, whose: Counts | None) -> None:
    """Makes the folder; files of layers of which nobody knows what they are of are set aside, not to be taken for new.

    Raises:
        BadSettings: it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in [] if whose else list(folder.glob("layer-*.safetensors")):
            aside = file.replace(file.with_name(file.name + UNKNOWN))
            logging.getLogger(__name__).warning("nothing tells what '%s' was made from: kept as '%s'", file, aside)
    except OSError as error:
        raise BadSettings(f"cannot write statistics to '{folder}': {error.strerror}: name another folder.") from error


def _is_whole(folder: Path, layer: int, size: int) -> bool:
    """Whether a layer's moment is there, and can be used; the log says where it is and cannot."""
    file = layer_file(folder, layer)
    if not file.exists():
        return False
    wrong = _fault(file, size)
    if wrong:
        logging.getLogger(__name__).warning("'%s' cannot be used (%s): collected anew", file, wrong)
    return not wrong


def _fault(file: Path, size: int) -> str:
    """What keeps a moment from being used, seen without working through it; empty if nothing does."""
    try:
        with safe_open(file, "pt") as opened:
            moment = opened.get_tensor(MOMENT)
    except (SafetensorError, OSError) as error:
        return str(error)
    if moment.shape != (size, size):
        return f"it has shape {tuple(moment.shape)}, and keys have {size} numbers"
    return "" if moment.diagonal().isfinite().all() else "it holds numbers that are not finite"


def layer_file(folder: Path, layer: int) -> Path:
    """Where the moment of a layer lies; it is there exactly when it is finished."""
    return folder / f"layer-{layer}.safetensors"


def read_counts(folder: Path) -> Counts | None:
    """What the statistics in a folder were made from; None if there are none.

    Raises:
        BadData: the file is not what `collect` writes.
    """
    file = folder / COUNTS
    if not file.exists():
        return None
    try:
        return Counts.model_validate_json(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadData(
            f"'{file}' does not say what it was made from: collect statistics with `emend covariance`."
        ) from error


def _resume(kept: Path, layers: list[int], lm: CausalLM) -> tuple[int, int, dict[int, Tensor]]:
    """Texts and tokens so far, and the sums; nothing, and a line in the log, where they cannot be read."""
    told = _read(kept) if kept.exists() else None
    if told is None:
        return 0, 0, {layer: torch.zeros(0) for layer in layers}
    texts, tokens = told["counted"].tolist()
    return texts, tokens, {layer: told[f"layer-{layer}"].to(lm.device) for layer in layers}


def _read(kept: Path) -> dict[str, Tensor] | None:
    try:
        return load_file(kept)
    except (SafetensorError, OSError) as error:
        logging.getLogger(__name__).warning("'%s' cannot be read (%s): the pass starts anew", kept, error)
        return None


def _keep(kept: Path, texts: int, tokens: int, sums: dict[int, Tensor]) -> None:
    """Sums and counts in one file, so that they always fit each other."""
    if tokens:
        told = {f"layer-{layer}": total.cpu() for layer, total in sums.items()}
        save_whole(told | {"counted": torch.tensor([texts, tokens])}, kept)


def _finish(folder: Path, counts: Counts, sums: dict[int, Tensor]) -> None:
    if not counts.tokens:
        raise BadData(
            f"no text to collect statistics from, seen {counts.texts} texts without tokens: name other files."
        )
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{COUNTS}.{os.getpid()}.part"
    draft.write_text(counts.model_dump_json(), encoding="utf-8")
    draft.replace(folder / COUNTS)
    for layer, total in sums.items():
        save_whole({MOMENT: (mirrored(total) / counts.tokens).cpu()}, layer_file(folder, layer))
