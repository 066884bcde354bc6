"""What enters the down-projections of some layers when text passes through the model, as sums of k k^T."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from scipy.linalg.blas import ssyrk
from torch import Tensor, nn

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture, input_first
from emend.editors.numerics.oom_retry import halving
from emend.editors.numerics.padding import padded
from emend.memory.errors import ModelError


class _Found(NamedTuple):
    keys: dict[int, Tensor]
    """By layer, shape (positions, D), float32; zeros where a row is padded."""
    rows: int
    tokens: int


class _Enough(Exception):
    """Ends a forward pass after the last layer that is looked at."""


def key_size(lm: CausalLM, paths: Architecture, layer: int) -> int:
    """How many numbers enter the down-projection of a layer: D."""
    module: Any = lm.model.get_submodule(paths.of_layer(layer, "down_projection"))
    return int(module.weight.shape[0 if input_first(module) else 1])


def add_keys(lm: CausalLM, paths: Architecture, texts: Sequence[str], cap: int, sums: dict[int, Tensor]) -> int:
    """Adds the keys of these texts to the sums by layer, in batches of the token budget; the number of their tokens.

    Raises:
        ModelError: keys are no finite numbers, or there is not enough memory for the smallest batches.
    """
    rows = _rows(lm, texts, cap)
    start, tokens = 0, 0
    while start < len(rows):
        found = halving(lm, partial(_keys, lm, paths, rows[start:], list(sums)))
        for layer, keys in found.keys.items():
            sums[layer] = _with_products(sums[layer], keys)
        start, tokens = start + found.rows, tokens + found.tokens
    _refuse_overflow(lm, sums)
    return tokens


def mirrored(total: Tensor) -> Tensor:
    """The whole symmetric matrix of its upper half."""
    return total.triu() + total.triu(1).T


def _refuse_overflow(lm: CausalLM, sums: Mapping[int, Tensor]) -> None:
    """Looks at the diagonals alone: whatever number of a key is none is squared there, and they bound the others."""
    for layer, total in sums.items():
        if not total.numel() or bool(total.diagonal().isfinite().all()):
            continue
        dtype = str(lm.model.dtype).removeprefix("torch.")
        other = "--set model.dtype=float32, or bfloat16" if dtype == "float16" else "other weights: these are damaged"
        raise ModelError(
            f"what enters the down-projection of layer {layer} is no finite number in {dtype}, so there are no "
            f"statistics of it: load the model with {other}."
        )


def _rows(lm: CausalLM, texts: Sequence[str], cap: int) -> list[tuple[int, ...]]:
    """Pieces of the texts, longest first."""
    size = min(cap, lm.window or cap)
    whole = [lm.encode(text) for text in texts if text.strip()]
    return sorted((ids[at : at + size] for ids in whole for at in range(0, len(ids), size)), key=len, reverse=True)


def _with_products(total: Tensor, keys: Tensor) -> Tensor:
    """Adds k k^T of each key, shape (tokens, D), in place: on a CPU to the upper half alone, which is half the work."""
    size = keys.shape[1]
    total = total if total.numel() else keys.new_zeros(size, size)
    if total.device.type == "cpu":  # torch has no symmetric product
        ssyrk(1.0, keys.numpy().T, beta=1.0, c=total.numpy().T, lower=True, overwrite_c=True)
        return total
    return total.addmm_(keys.T, keys)


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
