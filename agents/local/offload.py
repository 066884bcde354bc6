"""Models that do not fit on one device: layers on several devices, or offloaded to main memory or
disk.

accelerate's hooks load an offloaded weight to the computing device for each pass and drop it
afterwards.
"""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from emend.memory.errors import BadSettings, MissingExtra

DeviceMap = str | Mapping[str, str | int]
# The device maps that transformers computes.
STRATEGIES = ("auto", "balanced", "balanced_low_0", "sequential")
STORES = ("cpu", "disk")


def check_map(device_map: DeviceMap, device: str) -> None:
    """Reject a map that transformers would not follow.

    Raises:
        BadSettings: it is an unknown strategy or an incomplete table, or `device` is also set.
        MissingExtra: accelerate is not installed.
    """
    if find_spec("accelerate") is None:
        raise MissingExtra(
            "model.device_map needs accelerate, which is not installed: pip install accelerate."
        )
    if device != "auto":
        raise BadSettings(
            f"model.device={device} conflicts with model.device_map: give one of the two."
        )
    if isinstance(device_map, str):
        if device_map not in STRATEGIES:
            raise BadSettings(
                f"model.device_map is {device_map!r}: give {', '.join(STRATEGIES)}, or a table "
                'of modules and their devices, such as {"model.embed_tokens": 0, '
                '"model.layers": "cpu", "model.norm": 0, "lm_head": "disk"}.'
            )
    elif not device_map or ("" in device_map and len(device_map) > 1):
        raise BadSettings(
            f"model.device_map is {dict(device_map)}: give a device for every module."
        )


def computes_on_gpu(device_map: DeviceMap) -> bool:
    """Return whether a GPU computes, even for layers that are stored elsewhere."""
    if isinstance(device_map, str):
        return torch.cuda.is_available()
    return any(device not in STORES for device in device_map.values())


def computing_device(model: nn.Module) -> torch.device:
    """Return the device for the model's input, which is not that of an offloaded weight."""
    embeddings: Any = model.get_input_embeddings()  # type: ignore[operator]
    device = getattr(getattr(embeddings, "_hf_hook", None), "execution_device", None)
    return model.device if device is None else torch.device(device)  # type: ignore[return-value]


def computing_devices(model: nn.Module) -> set[torch.device]:
    """Return all devices that compute."""
    hooks = (
        getattr(getattr(module, "_hf_hook", None), "execution_device", None)
        for module in model.modules()
    )
    return {torch.device(each) for each in hooks if each is not None} | {
        weight.device for weight in model.parameters() if not weight.is_meta
    }


def is_offloaded(model: nn.Module) -> bool:
    """Return whether weights are stored elsewhere between passes."""
    return any(weight.is_meta for weight in model.parameters())


def load_weights(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return a module's own parameters on the computing device."""
    if not is_offloaded(module):
        return dict(module.named_parameters(recurse=False))
    from accelerate.utils.modeling import align_module_device

    with align_module_device(module):
        return dict(module.named_parameters(recurse=False))


def keep_loaded(model: nn.Module, paths: Iterable[str]) -> None:
    """Load the offloaded weights of some modules permanently, since a hook would undo an edit in
    every pass.
    """
    for module in map(model.get_submodule, paths):
        if is_offloaded(module):
            from accelerate.hooks import remove_hook_from_module

            weights = load_weights(module)
            remove_hook_from_module(module)
            for name, weight in weights.items():
                # Copy it, since a weight in main memory may be the stored tensor itself.
                setattr(module, name, nn.Parameter(weight.detach().clone(), requires_grad=False))
