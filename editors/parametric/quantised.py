"""A model's matrices in 4 bits for a while, by bitsandbytes (Dettmers et al. 2023, section 3)."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from emend.editors.numerics.architectures import input_first
from emend.memory.errors import BadSettings, MissingExtra


def check_four_bit(device: torch.device, editor: str) -> None:
    """Refuses what cannot quantise.

    Raises:
        MissingExtra: bitsandbytes is not installed.
        BadSettings: it does not run on this device.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtra(f"editor '{editor}' needs a package: pip install 'emend[qlora]'.")
    problem = _problem(str(device))
    if problem:
        raise BadSettings(
            f"editor '{editor}' needs 4-bit matrices, and bitsandbytes cannot make them on device '{device}': "
            f"{problem}. Take another device with --set model.device=cuda, or the editor lora."
        )


@contextmanager
def in_four_bit(model: nn.Module) -> Iterator[None]:
    """Inside the `with` every linear module but the output layer is NormalFloat4, its constants quantised once more.

    Gradients pass through them but do not change them. The original modules are put back on leaving, even by an
    exception.
    """
    head: Any = model.get_output_embeddings()  # type: ignore[operator]
    linear = {path: module for path, module in model.named_modules() if isinstance(module, nn.Linear | Conv1D)}
    originals = {path: module for path, module in linear.items() if module is not head}
    try:
        for path, module in originals.items():
            put_module(model, path, _four_bit(module))
        yield
    finally:
        for path, module in originals.items():
            put_module(model, path, module)


def _four_bit(module: Any) -> nn.Module:
    """The same map in 4 bits; computed in the number format that the weights have."""
    from bitsandbytes.nn.modules import Linear4bit, Params4bit

    weight = module.weight.detach()
    weight = weight.T.contiguous() if input_first(module) else weight
    outputs, inputs = weight.shape
    made = Linear4bit(
        inputs,
        outputs,
        bias=module.bias is not None,
        compute_dtype=weight.dtype,
        compress_statistics=True,
        quant_type="nf4",
        device="meta",
    )
    made.weight = Params4bit(weight.clone(), requires_grad=False, compress_statistics=True, quant_type="nf4")
    if module.bias is not None:
        made.bias = nn.Parameter(module.bias.detach(), requires_grad=False)
    quantised: nn.Module = made.to(weight.device)
    return quantised


@cache
def _problem(device: str) -> str:
    """Why a small module cannot be quantised, run and differentiated on that device; empty if it can."""
    try:
        small = _four_bit(nn.Linear(64, 64).to(device))
        with torch.enable_grad():
            fed = torch.ones(2, 64, device=device, requires_grad=True)
            small(fed).sum().backward()
        return "" if fed.grad is not None and bool(fed.grad.isfinite().all()) else "gradients are no numbers"
    except Exception as error:  # noqa: BLE001  the library raises all kinds
        return (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")


def put_module(model: nn.Module, path: str, module: nn.Module) -> None:
    """Puts a module in the place that a path names."""
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)
