"""Temporary 4-bit quantisation of a model by bitsandbytes (Dettmers et al. 2023, section 3)."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from emend.agents.local.generation import free_bytes
from emend.agents.local.offload import computing_device, is_offloaded, load_weights
from emend.editors.numerics.architectures import input_first
from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra

HOST = torch.device("cpu")
# Size of a 4-bit matrix with its scales, relative to the 16-bit matrix.
OF_SIXTEEN = 0.3
# Bytes that training needs besides the weights.
ROOM = 4 << 30


def check_four_bit(device: torch.device, editor: str) -> None:
    """Refuse a device that does not support quantisation.

    Raises:
        MissingExtra: bitsandbytes is not installed.
        BadSettings: bitsandbytes does not run on this device.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtra(f"editor '{editor}' needs a package: {install_command('qlora')}.")
    problem = _problem(str(device))
    if problem:
        raise BadSettings(
            f"editor '{editor}' needs 4-bit matrices, but bitsandbytes cannot create them on "
            f"device '{device}': {problem}. Use another device with --set model.device=cuda, or "
            "the editor lora."
        )


@contextmanager
def in_four_bit(model: nn.Module) -> Iterator[None]:
    """Replace linear modules by NormalFloat4 ones with double quantisation inside the `with`.

    The output layer is not replaced. Gradients pass through the 4-bit modules, which are frozen.
    The original modules are restored at the end, even after an exception. If a GPU cannot hold
    both, the originals are moved to main memory meanwhile.
    """
    leave = _is_short(model)
    head: Any = model.get_output_embeddings()  # type: ignore[operator]
    device = computing_device(model)
    linear = {
        path: module
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D)
    }
    originals = {path: module for path, module in linear.items() if module is not head}
    try:
        for path, module in originals.items():
            model.set_submodule(path, _four_bit(module))
            if leave and not is_offloaded(module):
                module.to(HOST)
        yield
    finally:
        for path, module in originals.items():
            model.set_submodule(path, module)
            if leave and not is_offloaded(module):
                module.to(device)


def _is_short(model: nn.Module) -> bool:
    """Return True if the model's GPU has too little memory for a 4-bit copy beside the weights."""
    free = free_bytes(model)
    size = sum(weight.numel() * 2 for weight in model.parameters())
    return free is not None and free < OF_SIXTEEN * size + ROOM


def _four_bit(module: Any) -> nn.Module:
    """Return the linear module in 4 bits, which computes in the dtype of the weights."""
    from bitsandbytes.nn.modules import Linear4bit, Params4bit

    weights = load_weights(module)
    weight, bias = weights["weight"].detach(), weights.get("bias")
    weight = weight.T.contiguous() if input_first(module) else weight
    outputs, inputs = weight.shape
    quantised: Any = Linear4bit(
        inputs,
        outputs,
        bias=bias is not None,
        compute_dtype=weight.dtype,
        compress_statistics=True,
        quant_type="nf4",
        device="meta",
    )
    quantised.weight = Params4bit(
        weight.clone(), requires_grad=False, compress_statistics=True, quant_type="nf4"
    )
    if bias is not None:
        quantised.bias = nn.Parameter(bias.detach(), requires_grad=False)
    return quantised.to(weight.device)  # type: ignore[no-any-return]


@cache
def _problem(device: str) -> str:
    """Return why a small module cannot be quantised and differentiated on that device, or ""."""
    try:
        small = _four_bit(nn.Linear(64, 64).to(device))
        with torch.enable_grad():
            inputs = torch.ones(2, 64, device=device, requires_grad=True)
            small(inputs).sum().backward()
        if inputs.grad is not None and bool(inputs.grad.isfinite().all()):
            return ""
        return "gradients are not finite"
    except Exception as error:  # noqa: BLE001  the library raises all kinds
        return (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
