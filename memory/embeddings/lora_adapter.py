"""LoRA adapters for sentence encoders, in PEFT's format (`adapter_config.json`,
`adapter_model.safetensors`).
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.memory.errors import BadData, BadSettings
from emend.memory.escape import one_line
from emend.memory.json_files import read_json

if TYPE_CHECKING:
    from torch import Tensor

SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PLAIN = {
    "peft_type": "LORA",
    "fan_in_fan_out": False,
    "lora_bias": False,
    "layer_replication": None,
    "use_dora": False,
    "rank_pattern": {},
    "alpha_pattern": {},
    "modules_to_save": None,
    "bias": "none",
}
_BEFORE, _DOWN, _UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
_NAME_LIMIT = 200


def adapter_folder(name: str) -> Path:
    """Return the folder of an adapter after checking that its files exist.

    Raises:
        BadSettings: there is no such adapter.
    """
    folder = Path(name).expanduser()
    if not (folder / SETTINGS).is_file() or not (folder / WEIGHTS).is_file():
        raise BadSettings(
            f"no adapter in '{name}': name a folder with {SETTINGS} and {WEIGHTS}; `emend prepare "
            "encoder` writes one."
        )
    return folder


def merge_adapter(body: Any, folder: Path) -> None:
    """Add an adapter to the weights of its encoder: W + s B A (Hu et al. 2022, section 4.1).

    Args:
        body: a transformers model.
        folder: the folder of the adapter.

    Raises:
        BadSettings: the adapter is not plain LoRA, or was trained for another encoder.
    """
    config, scale, tensors = _read_adapter(folder)
    rank = config["r"]
    for name in (name for name in tensors if name.endswith(_DOWN)):
        stem = name.removesuffix(_DOWN)
        module = stem.removeprefix(_BEFORE)
        down, up = tensors[name], tensors[stem + _UP]
        try:
            weight = body.get_submodule(module).weight
            if (down.shape, up.shape) != ((rank, weight.shape[1]), (weight.shape[0], rank)):
                raise ValueError("the shapes differ")
        except (AttributeError, IndexError, ValueError) as error:
            base = config.get("base_model_name_or_path") or "unknown"
            raise BadSettings(
                f"adapter '{folder}' of rank {rank} does not fit its encoder at "
                f"'{one_line(module, _NAME_LIMIT)}': name the encoder that it was trained for "
                f"({one_line(str(base), _NAME_LIMIT)})."
            ) from error
        change = scale * (up.float() @ down.float())
        if not bool(change.isfinite().all()):
            raise BadSettings(
                f"weights of adapter '{folder}' are not finite numbers: train it again."
            )
        weight.data += change.to(weight.dtype)


def _read_adapter(folder: Path) -> tuple[Mapping[str, Any], float, Mapping[str, "Tensor"]]:
    """Return an adapter's settings, its scale s and its tensors, which are pairs of factors.

    Raises:
        BadSettings: the adapter cannot be read, or is not plain LoRA.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file  # imports torch

    try:
        config = read_json(folder / SETTINGS, links=True)
        strange = [name for name, plain in _PLAIN.items() if config.get(name) not in (plain, None)]
        scale = _scale(config)
        tensors = load_file(str(folder / WEIGHTS))
    except (
        BadData,
        OSError,
        ArithmeticError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        SafetensorError,
    ) as error:
        problem = one_line(f"{type(error).__name__}: {error}", _NAME_LIMIT)
        raise BadSettings(
            f"adapter '{folder}' cannot be read ({problem}): train it again."
        ) from error
    strange += [one_line(name, _NAME_LIMIT) for name in tensors if not _is_factor(name, tensors)]
    if strange or not tensors:
        used = ", ".join(strange[:9]) or "no weights"
        raise BadSettings(
            f"adapter '{folder}' uses {used}: only plain LoRA adapters can be merged."
        )
    return config, scale, tensors


def _scale(config: Mapping[str, Any]) -> float:
    """Return s, by which the product of an adapter's factors is multiplied.

    Raises:
        ValueError: the rank or alpha is no positive number.
    """
    rank, alpha = config["r"], config["lora_alpha"]
    if type(rank) is not int or type(alpha) not in (int, float) or rank < 1:
        raise ValueError(f"r is {rank!r} and lora_alpha {alpha!r}")
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    if not 0 < scale < math.inf:
        raise ValueError(f"r is {rank!r} and lora_alpha {alpha!r}")
    return float(scale)


def _is_factor(name: str, tensors: Mapping[str, "Tensor"]) -> bool:
    """Return whether a tensor is one of the two factors of a change, as real numbers."""
    for end, other in ((_DOWN, _UP), (_UP, _DOWN)):
        if name.endswith(end) and name.removesuffix(end) + other in tensors:
            return tensors[name].is_floating_point()
    return False
