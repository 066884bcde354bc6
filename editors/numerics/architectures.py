"""Where each architecture keeps what editors read and write: one table, no chain of cases."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from emend.memory.errors import BadSettings


@dataclass(frozen=True)
class Architecture:
    """Six module paths of a decoder-only model; `{}` stands for the layer's number."""

    block: str
    down_projection: str
    """The matrix that ends the MLP: keys enter it, values leave it."""
    query: str
    value: str
    """The attention's projections that adapters are put on; one path for both where they are one matrix."""
    norm: str
    head: str
    adds: bool = True
    """True where the down-projection's output is added to the residual stream as it is, with no norm between."""

    def of_layer(self, layer: int, part: str) -> str:
        """The path of a part of that layer; layers count from 0."""
        return str(getattr(self, part)).replace("{}", str(layer))


LLAMA_LIKE = Architecture(
    block="model.layers.{}",
    down_projection="model.layers.{}.mlp.down_proj",
    query="model.layers.{}.self_attn.q_proj",
    value="model.layers.{}.self_attn.v_proj",
    norm="model.norm",
    head="lm_head",
)
NORM_BETWEEN = replace(LLAMA_LIKE, adds=False)
ONE_MATRIX = "model.layers.{}.self_attn.qkv_proj"
ARCHITECTURES = {
    "llama": LLAMA_LIKE,
    "mistral": LLAMA_LIKE,
    "qwen2": LLAMA_LIKE,
    "qwen3": LLAMA_LIKE,
    "gemma": LLAMA_LIKE,
    "gemma2": NORM_BETWEEN,
    "gemma3_text": NORM_BETWEEN,
    "gemma3": Architecture(
        block="model.language_model.layers.{}",
        down_projection="model.language_model.layers.{}.mlp.down_proj",
        query="model.language_model.layers.{}.self_attn.q_proj",
        value="model.language_model.layers.{}.self_attn.v_proj",
        norm="model.language_model.norm",
        head="lm_head",
        adds=False,
    ),
    "phi3": replace(LLAMA_LIKE, query=ONE_MATRIX, value=ONE_MATRIX),
    "olmo2": NORM_BETWEEN,
    "phi": replace(LLAMA_LIKE, down_projection="model.layers.{}.mlp.fc2", norm="model.final_layernorm"),
    "gpt2": Architecture(
        block="transformer.h.{}",
        down_projection="transformer.h.{}.mlp.c_proj",
        query="transformer.h.{}.attn.c_attn",
        value="transformer.h.{}.attn.c_attn",
        norm="transformer.ln_f",
        head="lm_head",
    ),
    "gptj": Architecture(
        block="transformer.h.{}",
        down_projection="transformer.h.{}.mlp.fc_out",
        query="transformer.h.{}.attn.q_proj",
        value="transformer.h.{}.attn.v_proj",
        norm="transformer.ln_f",
        head="lm_head",
    ),
    "gpt_neox": Architecture(
        block="gpt_neox.layers.{}",
        down_projection="gpt_neox.layers.{}.mlp.dense_4h_to_h",
        query="gpt_neox.layers.{}.attention.query_key_value",
        value="gpt_neox.layers.{}.attention.query_key_value",
        norm="gpt_neox.final_layer_norm",
        head="lm_head",
    ),
    "opt": Architecture(
        block="model.decoder.layers.{}",
        down_projection="model.decoder.layers.{}.fc2",
        query="model.decoder.layers.{}.self_attn.q_proj",
        value="model.decoder.layers.{}.self_attn.v_proj",
        norm="model.decoder.final_layer_norm",
        head="lm_head",
    ),
}
"""Model type to its module paths."""
BEHIND = "; and adds = false where a norm or a factor stands between the MLP and the residual stream"
UNKNOWN = Architecture(block="", down_projection="", query="", value="", norm="", head="")
OF_A_LAYER = ("block", "down_projection", "query", "value")
MATRICES = ("down_projection", "query", "value", "head")
NAMES = tuple(field.name for field in fields(Architecture) if field.name != "adds")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
"""What configurations call the number of experts that stand in the place of one MLP."""


def architecture_of(
    model: nn.Module,
    given: Mapping[str, str | bool] | None = None,
    needed: Collection[str] = NAMES,
    layers: Collection[int] | None = None,
) -> Architecture:
    """The model's module paths: what is given, over the table's; only those that are `needed` are looked at.

    Args:
        model: whose paths they are.
        given: paths by name, and `adds`.
        needed: the names that are used.
        layers: those in which the paths must lead somewhere, from 0; None where it is enough that one layer has them,
            since layers of one model may be of several kinds.

    Raises:
        BadSettings: unknown architecture with fewer than all six given, an unknown name, or a path that leads nowhere.
    """
    config: Any = model.config
    known = ARCHITECTURES.get(config.model_type)
    given = dict(given or {})
    missing = [name for name in NAMES if known is None and name in needed and name not in given]
    unknown = [name for name in given if name not in (*NAMES, "adds")]
    if missing or unknown:
        raise BadSettings(
            f"model type '{config.model_type}' {'is not known' if known is None else 'is known'}, "
            f"[architecture] lacks: {', '.join(missing) or 'nothing'}; unknown names in it: "
            f"{', '.join(unknown) or 'none'}. Give module paths, {{}} for the layer's number, in a TOML table "
            f"[architecture] (--set EDITOR=@FILE): {', '.join(name for name in NAMES if name in needed)}"
            f"{BEHIND if 'block' in needed else ''}.{_of_experts(model) if 'down_projection' in missing else ''} "
            f"Linear modules of this model: {_linear(model)}."
        )
    if "adds" in given:
        given["adds"] = _truth(given["adds"])
    found = replace(known or UNKNOWN, **given)  # type: ignore[arg-type]
    for name in (name for name in NAMES if name in needed):
        _check(model, name, str(getattr(found, name)), layers)
    return found


def layer_of(model: nn.Module, layer: int) -> int:
    """The layer's number from 0; -1 is the last.

    Raises:
        BadSettings: the model has no such layer.
    """
    config: Any = model.config
    layers = config.get_text_config().num_hidden_layers
    if not -layers <= layer < layers:
        raise BadSettings(
            f"layer {layer} is not in a model of {layers} layers: choose {-layers} to {layers - 1}, with "
            "--set EDITOR.layers=[...], and for emend covariance with --layers."
        )
    return int(layer % layers)


def down_projection(model: nn.Module, layer: int, given: Mapping[str, str | bool] | None = None) -> str:
    """The module path of a layer's down-projection; layers count from 0, or from -1 at the end.

    Raises:
        BadSettings: unknown architecture, a path that leads nowhere, or a layer that the model does not have.
    """
    number = layer_of(model, layer)
    return architecture_of(model, given, ("down_projection",), [number]).of_layer(number, "down_projection")


def layers_with(model: nn.Module, name: str, path: str) -> list[int]:
    """The layers, from 0, in which a path leads to what its name wants."""
    config: Any = model.config
    numbers = range(config.get_text_config().num_hidden_layers)
    return [layer for layer in numbers if not _wrong(model, name, path.replace("{}", str(layer)))]


def _truth(told: str | bool) -> bool:
    if told not in (True, False, "true", "false"):
        raise BadSettings(f"[architecture] adds = {told!r} is neither true nor false.")
    return told in (True, "true")


def _check(model: nn.Module, name: str, path: str, layers: Collection[int] | None) -> None:
    """Refuses a path that is wrong in one of these layers, or in every layer of the model where none are named."""
    wrong, having = "", list[int]()
    if name not in OF_A_LAYER:
        wrong = "it has {} for a layer's number, and no layer has it" if "{}" in path else _wrong(model, name, path)
    elif "{}" not in path:
        wrong = "it has no {} in the place of the layer's number"
    else:
        having = layers_with(model, name, path)
        lacking = [layer for layer in layers or () if layer not in having]
        if lacking or not having:
            layer = lacking[0] if lacking else 0
            wrong = _wrong(model, name, path.replace("{}", str(layer))) + (f" in layer {layer}" if lacking else "")
    if wrong:
        others = f"Choose among the layers that have it ({_listed(having)}), or correct" if having else "Correct"
        experts = _of_experts(model) if name == "down_projection" else ""
        raise BadSettings(
            f"module '{path}' as '{name}': {wrong}. {others} it in [architecture].{experts} "
            f"Linear modules of this model: {_linear(model)}."
        )


def _wrong(model: nn.Module, name: str, path: str) -> str:
    """What is wrong with a path without open places; empty if nothing is."""
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return "this model has no such module"
    if name in MATRICES and not isinstance(module, nn.Linear | Conv1D):
        return f"it is a {type(module).__name__}, and a linear module is wanted"
    return ""


def _listed(layers: Collection[int]) -> str:
    return ", ".join(map(str, layers))


def _of_experts(model: nn.Module) -> str:
    """What to say of a model whose MLPs are experts, where a matrix that ends an MLP is asked for."""
    config: Any = model.config
    text = config.get_text_config()
    told = [getattr(text, name, None) for name in EXPERTS]
    count = max((number for number in told if isinstance(number, int)), default=0)
    if count < 2:
        return ""
    return (
        f" Its MLPs are {count} experts each, to which ft (on down-projections), rome, r_rome, memit and alphaedit "
        "cannot write: take lora, with the attention's query and value named in [architecture]."
    )


def check_width(model: Any, paths: Architecture, layers: Collection[int]) -> None:
    """Refuses a down-projection whose output is no state of the model, for editors that write values there.

    Args:
        model: whose paths they are.
        paths: its module paths.
        layers: those that are written to, from 0.

    Raises:
        BadSettings: it is of another width.
    """
    width = model.config.get_text_config().hidden_size
    for layer in layers:
        path = paths.of_layer(layer, "down_projection")
        module: Any = model.get_submodule(path)
        gives = module.nf if input_first(module) else module.out_features
        if gives != width:
            raise BadSettings(
                f"module '{path}' as 'down_projection' gives {gives} numbers, and the model is {width} wide: name the "
                "matrix that ends the MLP in [architecture]."
            )


def _linear(model: nn.Module) -> str:
    return ", ".join(linear_paths(model)) or "none"


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
