"""Sums of k k^T over keys k, the inputs of down-projections while the model reads text."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from scipy.linalg.blas import ssyrk
from torch import Tensor

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture, input_first
from emend.editors.numerics.low_rank import activations
from emend.editors.numerics.oom_retry import retry_on_oom
from emend.editors.numerics.passes import light_passes
from emend.memory.errors import ModelError


def key_size(lm: CausalLM, paths: Architecture, layer: int) -> int:
    """Return the size D of the keys of a layer's down-projection."""
    module: Any = lm.model.get_submodule(paths.of_layer(layer, "down_projection"))
    return int(module.weight.shape[0 if input_first(module) else 1])


def pass_parameters(lm: CausalLM, paths: Architecture, layers: Sequence[int]) -> int:
    """Return the number of parameters used in a pass over text up to the last of these layers."""
    start = paths.down_projection.partition("{}")[0]
    blocks = (lm.model.get_submodule(f"{start}{layer}") for layer in range(max(layers) + 1))
    return sum(parameter.numel() for block in blocks for parameter in block.parameters())


def add_keys(
    lm: CausalLM, paths: Architecture, texts: Sequence[str], cap: int, sums: dict[int, Tensor]
) -> int:
    """Add k k^T of the texts' keys to the sums of each layer and return the number of tokens.

    Batches have the size of the model's token budget.

    Raises:
        ModelError: keys are not finite, or there is not enough memory for the smallest batches.
    """
    rows = _rows(lm, texts, cap)
    start, tokens = 0, 0
    while start < len(rows):
        by_layer, lengths = retry_on_oom(lm, partial(_keys, lm, paths, rows[start:], list(sums)))
        for layer, keys in by_layer.items():
            sums[layer] = _add_products(sums[layer], keys)
        start, tokens = start + len(lengths), tokens + sum(lengths)
    _check_finite(lm, sums)
    return tokens


def mirrored(total: Tensor) -> Tensor:
    """Return the full symmetric matrix from its upper half."""
    return total.triu() + total.triu(1).T


def _check_finite(lm: CausalLM, sums: Mapping[int, Tensor]) -> None:
    """Refuse sums that overflowed; checking the diagonal suffices, since it holds the squares."""
    for layer, total in sums.items():
        if not total.numel() or bool(total.diagonal().isfinite().all()):
            continue
        dtype = str(lm.model.dtype).removeprefix("torch.")
        other = "other weights: these are damaged"
        if dtype == "float16":
            other = "--set model.dtype=float32, or bfloat16"
        raise ModelError(
            f"the keys that enter the down-projection of layer {layer} are not finite in {dtype}, "
            f"so they have no covariance: load the model with {other}."
        )


def _rows(lm: CausalLM, texts: Sequence[str], cap: int) -> list[tuple[int, ...]]:
    """Return the token ids of the texts in pieces of at most `cap` tokens, longest first."""
    size = min(cap, lm.window or cap)
    whole = [lm.encode(text) for text in texts if text.strip()]
    return sorted(
        (ids[at : at + size] for ids in whole for at in range(0, len(ids), size)),
        key=len,
        reverse=True,
    )


def _add_products(total: Tensor, keys: Tensor) -> Tensor:
    """Add the sum of k k^T over keys of shape (tokens, D) to `total`.

    On a CPU only the upper half is computed, which is half the work.
    """
    size = keys.shape[1]
    total = (
        total.to(keys.device) if total.numel() else keys.new_zeros(size, size, dtype=torch.float32)
    )
    if total.device.type == "cpu":  # torch has no symmetric product
        ssyrk(1.0, keys.numpy().T, beta=1.0, c=total.numpy().T, lower=True, overwrite_c=True)
        return total
    if keys.dtype == torch.float32:
        return total.addmm_(keys.T, keys)
    return torch.addmm(total, keys.T, keys, out_dtype=torch.float32)


def _keys(
    lm: CausalLM, paths: Architecture, pending: list[tuple[int, ...]], layers: list[int]
) -> tuple[dict[int, Tensor], list[int]]:
    """Return the keys of each layer, shape (positions, D), and the number of tokens of each row.

    They are those of the first pending rows that fit the token budget. At padding the keys are
    zeros.
    """
    rows = pending[: max(1, lm.batch_tokens // len(pending[0]))]
    with lm.lock.read_access(), torch.no_grad(), light_passes(lm.model):
        captured, _, mask = activations(lm, paths, rows, layers)
        padding = (mask.flatten() == 0).nonzero()[:, 0]
        # Zero keys add nothing to the sums; removing the padding would copy all other keys.
        flat = {
            layer: _as_summed(keys).flatten(0, -2).index_fill_(0, padding.to(keys.device), 0)
            for layer, keys in captured.items()
        }
    return flat, [len(row) for row in rows]


def _as_summed(keys: Tensor) -> Tensor:
    """Return the keys in float32, or in half precision if the device sums in float32.

    Products of half-precision numbers are exact in float32.
    """
    sums_halves = (
        keys.is_cuda
        and torch.version.cuda is not None
        and keys.dtype in (torch.bfloat16, torch.float16)
    )
    return keys if sums_halves else keys.float()
