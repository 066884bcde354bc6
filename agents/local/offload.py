"""Models that one device cannot hold: their layers on several, or kept in main memory or on disk until they are needed.

accelerate's hooks bring an offloaded weight to the computing device for each pass, and drop it again.
"""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from emend.memory.errors import BadSettings, MissingExtra

DeviceMap = str | Mapping[str, str | int]
STRATEGIES = ("auto", "balanced", "balanced_low_0", "sequential")
"""The maps that transformers makes by itself."""
STORES = ("cpu", "disk")


def check_map(device_map: DeviceMap, device: str) -> None:
    """Refuse a map that transformers would not follow.

    Raises:
        BadSettings: it names no module for a device, or an unknown strategy, or a device is set beside it.
        MissingExtra: accelerate is not installed.
    """
    if find_spec("accelerate") is None:
        raise MissingExtra("model.device_map needs accelerate, which is not installed: pip install accelerate.")
    if device != "auto":
        raise BadSettings(f"model.device={device} beside model.device_map: give one of the two.")
    if isinstance(device_map, str):
        if device_map not in STRATEGIES:
            raise BadSettings(
                f"model.device_map is {device_map!r}: give {', '.join(STRATEGIES)}, or a table of modules and their "
                'devices, as {"model.embed_tokens": 0, "model.layers": "cpu", "model.norm": 0, "lm_head": "disk"}.'
            )
    elif not device_map or ("" in device_map and len(device_map) > 1):
        raise BadSettings(f"model.device_map is {dict(device_map)}: name every module, each with its device.")


def computes_on_gpu(device_map: DeviceMap) -> bool:
    """True where a GPU computes, even for layers that are kept elsewhere."""
    if isinstance(device_map, str):
        return torch.cuda.is_available()
    return any(device not in STORES for device in device_map.values())


def computing_device(model: nn.Module) -> torch.device:
    """The device that the model's input goes to, which is not that of a weight that is offloaded."""
    embeddings: Any = model.get_input_embeddings()  # type: ignore[operator]
    device = getattr(getattr(embeddings, "_hf_hook", None), "execution_device", None)
    return model.device if device is None else torch.device(device)  # type: ignore[return-value]


def computing_devices(model: nn.Module) -> set[torch.device]:
    """All devices that compute."""
    hooks = (getattr(getattr(module, "_hf_hook", None), "execution_device", None) for module in model.modules())
    return {torch.device(each) for each in hooks if each is not None} | {
        weight.device for weight in model.parameters() if not weight.is_meta
    }


def is_offloaded(model: nn.Module) -> bool:
    """True where weights are kept elsewhere between passes."""
    return any(weight.is_meta for weight in model.parameters())


def load_weights(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a module itself, on the device that computes."""
    if not is_offloaded(module):
        return dict(module.named_parameters(recurse=False))
    from accelerate.utils.modeling import align_module_device

    with align_module_device(module):
        return dict(module.named_parameters(recurse=False))


def keep_loaded(model: nn.Module, paths: Iterable[str]) -> None:
    """Load the offloaded weights of some modules for good, since a hook would undo an edit of one at every pass."""
    for module in map(model.get_submodule, paths):
        if is_offloaded(module):
            from accelerate.hooks import remove_hook_from_module

            weights = load_weights(module)
            remove_hook_from_module(module)
            for name, weight in weights.items():
                # A copy, since one of main memory may be the stored tensor itself.
                setattr(module, name, nn.Parameter(weight.detach().clone(), requires_grad=False))
