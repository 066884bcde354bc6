"""Where each architecture keeps the matrices that editors write to: one table, no chain of cases."""

from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from emend.memory.errors import BadSettings

LLAMA_LIKE = "model.layers.{}.mlp.down_proj"
DOWN_PROJECTIONS = {
    "llama": LLAMA_LIKE,
    "mistral": LLAMA_LIKE,
    "qwen2": LLAMA_LIKE,
    "qwen3": LLAMA_LIKE,
    "gemma": LLAMA_LIKE,
    "gemma2": LLAMA_LIKE,
    "gemma3_text": LLAMA_LIKE,
    "gemma3": "model.language_model.layers.{}.mlp.down_proj",
    "phi3": LLAMA_LIKE,
    "olmo2": LLAMA_LIKE,
    "phi": "model.layers.{}.mlp.fc2",
    "gpt2": "transformer.h.{}.mlp.c_proj",
    "gptj": "transformer.h.{}.mlp.fc_out",
    "gpt_neox": "gpt_neox.layers.{}.mlp.dense_4h_to_h",
    "opt": "model.decoder.layers.{}.fc2",
}
"""Model type to the module path of the MLP's down-projection; `{}` stands for the layer's number."""


def down_projection(model: nn.Module, layer: int, path: str = "") -> str:
    """The module path of a layer's down-projection; layers count from 0, or from -1 at the end.

    Args:
        model: a Hugging Face causal LM.
        layer: its number.
        path: the path with `{}` for the number, for an architecture that the table lacks.

    Raises:
        BadSettings: unknown architecture, a path that leads nowhere, or a layer that the model does not have.
    """
    config: Any = model.config
    known = path or DOWN_PROJECTIONS.get(config.model_type, "")
    if "{}" not in known:
        raise BadSettings(
            f"no down-projection is known for model type '{config.model_type}', seen path: '{known}': give the "
            f"setting 'down_projection', a module path with {{}} for the layer's number, e.g. down_projection = "
            f'"{LLAMA_LIKE}". Linear modules of this model: {", ".join(linear_paths(model)) or "none"}.'
        )
    layers = config.get_text_config().num_hidden_layers
    if not -layers <= layer < layers:
        raise BadSettings(f"layer {layer} is not in a model of {layers} layers: choose {-layers} to {layers - 1}.")
    found = known.replace("{}", str(layer % layers))
    try:
        model.get_submodule(found)
    except AttributeError as error:
        raise BadSettings(
            f"model type '{config.model_type}' has no module '{found}': correct the setting 'down_projection'. "
            f"Linear modules of this model: {', '.join(linear_paths(model)) or 'none'}."
        ) from error
    return found


def linear_paths(model: nn.Module) -> list[str]:
    """The paths of all linear modules of a model, with `{}` for the number of a layer."""
    paths = (name for name, module in model.named_modules() if isinstance(module, nn.Linear | Conv1D))
    open_paths = (".".join("{}" if part.isdigit() else part for part in path.split(".")) for path in paths)
    return list(dict.fromkeys(open_paths))


def input_first(module: nn.Module) -> bool:
    """True when the weight has shape (inputs, outputs), as Conv1D keeps it; a Linear keeps (outputs, inputs).

    Decided by class: the shape tells nothing where both are equal.
    """
    return isinstance(module, Conv1D)
