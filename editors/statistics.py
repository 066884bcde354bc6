"""What usually enters a down-projection: the uncentred second moment of its keys, over any local text.

One pass of the corpus serves all layers and stops after the last of them. Sums are kept on disk now and then, so an
interrupted pass goes on where it was; what is finished lies in a folder named by model and corpus.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from scipy.linalg.blas import ssyrk
from torch import Tensor, nn

from emend.agents.causal_lm import CausalLM
from emend.editors.architectures import Architecture
from emend.editors.files import digest_of, save_whole
from emend.editors.halving import halving
from emend.editors.padding import padded
from emend.memory.edit import Word, content_id
from emend.memory.errors import BadData, BadSettings

PART = 128
"""Texts that are batched together, by length."""
EVERY_SECONDS = 5.0
"""Between two savings at least; also 50 times as long as the last one took."""
COUNTS = "counts.json"


class Counts(Word):
    """What a folder of statistics was made from."""

    model: str
    """The model's fingerprint."""
    corpus: str
    texts: int
    tokens: int
    cap: int


class _Found(NamedTuple):
    keys: dict[int, Tensor]
    """By layer, shape (positions, D), float32; zeros where a row is padded."""
    rows: int
    tokens: int


class _Enough(Exception):
    """Ends a forward pass after the last layer that is looked at."""


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
) -> None:
    """Writes the mean of k k^T of each layer to `folder`, going on from what an interrupted call has kept there.

    Layers that are there already are left as they are. Memory is bounded by the model's token budget, which is halved
    where it is too much, and one matrix per layer.

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

    Raises:
        BadData: there is no text, or the folder holds statistics of another model, corpus or cap.
        BadSettings: the folder cannot be made.
        ModelError: there is not enough memory for the smallest batches.
    """
    _check(folder, lm, corpus, cap)
    lacking = [layer for layer in dict.fromkeys(layers) if not layer_file(folder, layer).exists()]
    if not lacking:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadSettings(f"cannot write statistics to '{folder}': {error.strerror}: name another folder.") from error
    kept = folder / f"partial-{content_id(lm.fingerprint, corpus, sorted(lacking), cap)}.safetensors"
    counted, tokens, sums = _resume(kept, lacking, lm)
    source = islice(texts, counted, None)
    saved, pause = time.monotonic(), every
    while part := list(islice(source, PART)):
        tokens += _add(lm, paths, _rows(lm, part, cap), sums)
        counted += len(part)
        began = time.monotonic()
        if began - saved >= pause:
            _keep(kept, counted, tokens, sums)
            saved = time.monotonic()
            pause = max(every, 50 * (saved - began)) if every else every
        progress(counted, tokens)
    _finish(folder, Counts(model=lm.fingerprint, corpus=corpus, texts=counted, tokens=tokens, cap=cap), sums)
    kept.unlink(missing_ok=True)


def _check(folder: Path, lm: CausalLM, corpus: str, cap: int) -> None:
    there = read_counts(folder)
    same = there and digest_of(there.model) == digest_of(lm.fingerprint)
    if there and not (same and (there.corpus, there.cap) == (corpus, cap)):
        raise BadData(
            f"'{folder}' holds statistics of model {there.model}, corpus '{there.corpus}', {there.cap} tokens a piece; "
            f"asked for are model {lm.fingerprint}, corpus '{corpus}', {cap} tokens: name another folder."
        )


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
        raise BadData(f"'{file}' does not say what it was made from: collect statistics with `emend stats`.") from error


def _rows(lm: CausalLM, texts: Sequence[str], cap: int) -> list[tuple[int, ...]]:
    """Pieces of the texts, longest first."""
    size = min(cap, lm.window or cap)
    whole = [lm.encode(text) for text in texts if text.strip()]
    return sorted((ids[at : at + size] for ids in whole for at in range(0, len(ids), size)), key=len, reverse=True)


def _add(lm: CausalLM, paths: Architecture, rows: list[tuple[int, ...]], sums: dict[int, Tensor]) -> int:
    """Adds the keys of these rows, in batches of the token budget; the number of their tokens."""
    start, tokens = 0, 0
    while start < len(rows):
        found = halving(lm, partial(_keys, lm, paths, rows[start:], list(sums)))
        for layer, keys in found.keys.items():
            sums[layer] = _with_products(sums[layer], keys)
        start, tokens = start + found.rows, tokens + found.tokens
    return tokens


def _with_products(total: Tensor, keys: Tensor) -> Tensor:
    """Adds k k^T of each key, shape (tokens, D), in place: on a CPU to the upper half alone, which is half the work."""
    size = keys.shape[1]
    total = total if total.numel() else keys.new_zeros(size, size)
    if total.device.type == "cpu":  # torch has no symmetric product
        ssyrk(1.0, keys.numpy().T, beta=1.0, c=total.numpy().T, lower=True, overwrite_c=True)
        return total
    return total.addmm_(keys.T, keys)


def _mirrored(total: Tensor) -> Tensor:
    """The whole symmetric matrix of its upper half."""
    return total.triu() + total.triu(1).T


def _keys(lm: CausalLM, paths: Architecture, waiting: list[tuple[int, ...]], layers: list[int]) -> _Found:
    """The keys of each layer at the tokens of the first rows, as many as fit the token budget."""
    rows = waiting[: max(1, lm.batch_tokens // len(waiting[0]))]
    ids, mask = (told.to(lm.device) for told in padded(rows, lm.tokenizer.pad_token_id))
    padding = (mask.flatten() == 0).nonzero()[:, 0]
    with lm.lock.asking(), torch.no_grad(), _watched(lm.model, paths, layers) as seen:
        try:
            lm.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
        except _Enough:
            pass
        # A key of zeros adds nothing; to leave padding out would copy all the others.
        flat = {layer: keys.flatten(0, -2).float().index_fill_(0, padding, 0) for layer, keys in seen.items()}
    return _Found(keys=flat, rows=len(rows), tokens=int(mask.sum()))


@contextmanager
def _watched(model: nn.Module, paths: Architecture, layers: list[int]) -> Iterator[dict[int, Tensor]]:
    seen: dict[int, Tensor] = {}
    last = max(layers)

    def keep(layer: int) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            seen[layer] = inputs[0]
            if layer == last:
                raise _Enough

        return hook

    modules = [(layer, model.get_submodule(paths.of_layer(layer, "down_projection"))) for layer in layers]
    handles = [module.register_forward_pre_hook(keep(layer)) for layer, module in modules]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


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
        save_whole({"moment": (_mirrored(total) / counts.tokens).cpu()}, layer_file(folder, layer))
