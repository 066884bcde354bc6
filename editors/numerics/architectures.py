"""Module paths of the matrices that editors read and write, by architecture."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from emend.memory.errors import BadSettings


@dataclass(frozen=True)
class Architecture:
    """Six module paths of a decoder-only model, in which `{}` stands for the layer number."""

    block: str
    down_projection: str
    """The last matrix of the MLP: its inputs are keys, its outputs values."""
    query: str
    value: str
    """The attention's value projection, which can get adapters, like the query projection.

    Both have the same path if the model has one fused matrix.
    """
    norm: str
    head: str
    adds: bool = True
    """True if the down-projection's output is added to the residual stream unchanged."""

    def of_layer(self, layer: int, part: str) -> str:
        """Return the path of a module in that layer; layers count from 0."""
        return str(getattr(self, part)).replace("{}", str(layer))


def _in_block(
    block: str, down: str, query: str, value: str, norm: str, adds: bool = True
) -> Architecture:
    """Return the paths, with down-projection, query and value relative to the block."""
    return Architecture(
        block, f"{block}.{down}", f"{block}.{query}", f"{block}.{value}", norm, "lm_head", adds
    )


SEPARATE = "mlp.down_proj", "self_attn.q_proj", "self_attn.v_proj"
LLAMA_LIKE = _in_block("model.layers.{}", *SEPARATE, "model.norm")
NORM_BETWEEN = replace(LLAMA_LIKE, adds=False)
PHI3, NEOX = "model.layers.{}.self_attn.qkv_proj", "attention.query_key_value"
# Module paths by model type.
ARCHITECTURES = {
    "llama": LLAMA_LIKE,
    "mistral": LLAMA_LIKE,
    "qwen2": LLAMA_LIKE,
    "qwen3": LLAMA_LIKE,
    "gemma": LLAMA_LIKE,
    "gemma2": NORM_BETWEEN,
    "gemma3_text": NORM_BETWEEN,
    "gemma3": _in_block(
        "model.language_model.layers.{}", *SEPARATE, "model.language_model.norm", adds=False
    ),
    "phi3": replace(LLAMA_LIKE, query=PHI3, value=PHI3),
    "olmo2": NORM_BETWEEN,
    "phi": replace(
        LLAMA_LIKE, down_projection="model.layers.{}.mlp.fc2", norm="model.final_layernorm"
    ),
    "gpt2": _in_block(
        "transformer.h.{}", "mlp.c_proj", "attn.c_attn", "attn.c_attn", "transformer.ln_f"
    ),
    "gptj": _in_block(
        "transformer.h.{}", "mlp.fc_out", "attn.q_proj", "attn.v_proj", "transformer.ln_f"
    ),
    "gpt_neox": _in_block(
        "gpt_neox.layers.{}", "mlp.dense_4h_to_h", NEOX, NEOX, "gpt_neox.final_layer_norm"
    ),
    "opt": _in_block(
        "model.decoder.layers.{}", "fc2", *SEPARATE[1:], "model.decoder.final_layer_norm"
    ),
}
OF_A_LAYER = ("block", "down_projection", "query", "value")
MATRICES = ("down_projection", "query", "value", "head")
NAMES = tuple(field.name for field in fields(Architecture) if field.name != "adds")
# Configuration keys for the number of experts that replace one MLP.
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def find_architecture(
    model: nn.Module,
    overrides: Mapping[str, str | bool] | None = None,
    needed: Collection[str] = NAMES,
    layers: Collection[int] | None = None,
) -> Architecture:
    """Return the model's module paths, with overrides by name; only `needed` paths are checked.

    They must exist in all of `layers` (from 0) or, by default, in at least one layer, since a model
    may have layers of several kinds.

    Raises:
        BadSettings: an unknown architecture without all needed paths, an unknown name, or a path
            that does not exist.
    """
    config: Any = model.config
    known = ARCHITECTURES.get(config.model_type)
    paths = dict(overrides or {})
    missing = [name for name in NAMES if known is None and name in needed and name not in paths]
    unknown = [name for name in paths if name not in (*NAMES, "adds")]
    if missing or unknown:
        paths_wanted = ", ".join(name for name in NAMES if name in needed)
        if "block" in needed:
            paths_wanted += "; and adds = false where a norm or a factor follows the MLP"
        raise BadSettings(
            f"model type '{config.model_type}' {'is not known' if known is None else 'is known'}, "
            f"[architecture] lacks: {', '.join(missing) or 'nothing'}; unknown names in it: "
            f"{', '.join(unknown) or 'none'}. Give module paths, {{}} for the layer's number, in a "
            "TOML table [architecture] (--set EDITOR=@FILE): "
            f"{paths_wanted}."
            f"{_experts_hint(model) if 'down_projection' in missing else ''}{_linear_hint(model)}"
        )
    if "adds" in paths:
        if paths["adds"] not in (True, False, "true", "false"):
            raise BadSettings(f"[architecture] adds = {paths['adds']!r}: give true or false.")
        paths["adds"] = paths["adds"] in (True, "true")
    base = known or Architecture(**dict.fromkeys(NAMES, ""))  # type: ignore[arg-type]
    architecture = replace(base, **paths)  # type: ignore[arg-type]
    for name in (name for name in NAMES if name in needed):
        _check(model, name, str(getattr(architecture, name)), layers)
    return architecture


def resolve_layer(model: nn.Module, layer: int) -> int:
    """Return the layer's number from 0; -1 is the last layer.

    Raises:
        BadSettings: the model has no such layer.
    """
    return layer_number(model.config, layer)


def layer_number(config: Any, layer: int) -> int:
    """Return the layer's number from 0 in a model with this transformers configuration.

    Raises:
        BadSettings: the model has no such layer.
    """
    layers = config.get_text_config().num_hidden_layers
    if not -layers <= layer < layers:
        raise BadSettings(
            f"layer {layer} does not exist in a model of {layers} layers: choose {-layers} to "
            f"{layers - 1}, with --set EDITOR.layers=[...], or --layers of emend prepare "
            "covariance."
        )
    return int(layer % layers)


def down_projection(
    model: nn.Module, layer: int, overrides: Mapping[str, str | bool] | None = None
) -> str:
    """Return the module path of a layer's down-projection.

    Layers count from 0, or from -1 at the end.

    Raises:
        BadSettings: an unknown architecture, a path that does not exist, or a layer that the model
            does not have.
    """
    number = resolve_layer(model, layer)
    return find_architecture(model, overrides, ("down_projection",), [number]).of_layer(
        number, "down_projection"
    )


def layers_with(model: nn.Module, name: str, path: str) -> list[int]:
    """Return the layers, from 0, in which a path names a module of the right type."""
    config: Any = model.config
    numbers = range(config.get_text_config().num_hidden_layers)
    return [layer for layer in numbers if not _problem(model, name, path.replace("{}", str(layer)))]


def _check(model: nn.Module, name: str, path: str, layers: Collection[int] | None) -> None:
    """Refuse a path that is wrong in one of these layers or, by default, in all layers."""
    problem, valid = "", list[int]()
    if name not in OF_A_LAYER:
        problem = "it has {} for a layer's number, but no layer has this module"
        if "{}" not in path:
            problem = _problem(model, name, path)
    elif "{}" not in path:
        problem = "it has no {} for the layer's number"
    else:
        valid = layers_with(model, name, path)
        invalid = [layer for layer in layers or () if layer not in valid]
        if invalid:
            problem = _problem(model, name, path.replace("{}", str(invalid[0])))
            problem += f" in layer {invalid[0]}"
        elif not valid:
            problem = _problem(model, name, path.replace("{}", "0"))
    if problem:
        others = "Correct"
        if valid:
            layers_text = ", ".join(map(str, valid))
            others = f"Choose among the layers that have it ({layers_text}), or correct"
        experts = _experts_hint(model) if name == "down_projection" else ""
        raise BadSettings(
            f"module '{path}' as '{name}': {problem}. {others} it in "
            f"[architecture].{experts}{_linear_hint(model)}"
        )


def _problem(model: nn.Module, name: str, path: str) -> str:
    """Return the problem with a path without placeholder; empty if there is none."""
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return "this model has no such module"
    if name in MATRICES and not isinstance(module, nn.Linear | Conv1D):
        return f"it is a {type(module).__name__}, but a linear module is needed"
    return ""


def _experts_hint(model: nn.Module) -> str:
    """Return a hint for mixture-of-experts models, whose MLPs have no single last matrix."""
    config: Any = model.config
    text = config.get_text_config()
    numbers = [getattr(text, name, None) for name in EXPERTS]
    count = max((number for number in numbers if isinstance(number, int)), default=0)
    if count < 2:
        return ""
    return (
        f" Its MLPs are {count} experts each, to which ft (on down-projections), rome, r_rome, "
        "memit and alphaedit cannot write: use lora, with the attention's query and value named "
        "in [architecture]."
    )


def check_width(model: Any, paths: Architecture, layers: Collection[int]) -> None:
    """Refuse layers whose down-projection does not have the residual stream's width as output size.

    Raises:
        BadSettings: the output has another width.
    """
    width = model.config.get_text_config().hidden_size
    for layer in layers:
        path = paths.of_layer(layer, "down_projection")
        module: Any = model.get_submodule(path)
        outputs = module.nf if input_first(module) else module.out_features
        if outputs != width:
            raise BadSettings(
                f"module '{path}' as 'down_projection' gives {outputs} numbers, but the model is "
                f"{width} wide: name the last matrix of the MLP in [architecture]."
            )


def _linear_hint(model: nn.Module) -> str:
    return f" Linear modules of this model: {', '.join(linear_paths(model)) or 'none'}."


def linear_paths(model: nn.Module) -> list[str]:
    """Return the paths of all linear modules of a model, with `{}` for the layer number."""
    open_paths: dict[str, None] = {}
    for path, module in model.named_modules():
        if isinstance(module, nn.Linear | Conv1D):
            names = ["{}" if name.isdigit() else name for name in path.split(".")]
            open_paths[".".join(names)] = None
    return list(open_paths)


def input_first(module: nn.Module) -> bool:
    """Return True if the weight has shape (inputs, outputs), as in Conv1D but not in Linear.

    Decided by class, since the shape of a square matrix is ambiguous.
    """
    return isinstance(module, Conv1D)
