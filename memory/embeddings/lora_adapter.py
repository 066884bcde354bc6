"""LoRA adapters for sentence encoders, in PEFT's format (`adapter_config.json`,
`adapter_model.safetensors`).
"""

import math
from pathlib import Path
from typing import Any

from emend.memory.errors import BadData, BadSettings
from emend.memory.json_files import read_json

SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PLAIN = {
    "use_dora": False,
    "rank_pattern": {},
    "alpha_pattern": {},
    "modules_to_save": None,
    "bias": "none",
}
_BEFORE, _DOWN, _UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"


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
    from safetensors import SafetensorError
    from safetensors.torch import load_file  # imports torch

    try:
        config = read_json(folder / SETTINGS, links=True)
        tensors = load_file(str(folder / WEIGHTS))
        strange = [name for name, plain in _PLAIN.items() if config.get(name) not in (plain, None)]
        scale = config["lora_alpha"] / (
            math.sqrt(config["r"]) if config.get("use_rslora") else config["r"]
        )
    except (
        BadData,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        SafetensorError,
    ) as error:
        raise BadSettings(
            f"adapter '{folder}' cannot be read ({type(error).__name__}: {error}): train it again."
        ) from error
    if strange:
        raise BadSettings(
            f"adapter '{folder}' uses {', '.join(strange)}: only plain LoRA adapters can be merged."
        )
    for name, down in tensors.items():
        if not name.endswith(_DOWN):
            continue
        place = name.removeprefix(_BEFORE).removesuffix(_DOWN)
        try:
            weight = body.get_submodule(place).weight
            weight.data += scale * (
                tensors[name.removesuffix(_DOWN) + _UP].float() @ down.float()
            ).to(weight.dtype)
        except (AttributeError, KeyError, RuntimeError) as error:
            raise BadSettings(
                f"adapter '{folder}' does not fit its encoder at '{place}': name the encoder that "
                f"it was trained for ({config.get('base_model_name_or_path') or 'unknown'})."
            ) from error
