"""Requirements of a run on a local model besides time: memory, and files to prepare."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from emend.agents.local.model_folder import is_half_precision
from emend.editors.covariance_need import layers_to_name, missing_covariances
from emend.editors.device_speed import device_speed
from emend.editors.hyperparameters import folder_config
from emend.editors.memory_need import memory_factor
from emend.editors.numerics.architectures import layer_number
from emend.evals.config.model_spec import ModelSpec
from emend.evals.config.run_config import RunConfig
from emend.evals.results.dry_run.local_model import (
    absence,
    editor_settings,
    model_folder,
    parameters_of,
)

GB = 1e9
# Number of tokens of the 256 texts from which a covariance is collected.
FACTBOOK_TOKENS = 130_000


def need_lines(config: RunConfig) -> Iterator[str]:
    """Yield a line on memory and one on missing covariances; without the model's files only one on
    these.
    """
    folder = model_folder(config.model)
    if missing := absence(config.model):
        yield f"missing: {missing}"
    if not folder.is_dir():
        return
    settings = _settings(config, folder)
    if parameters := parameters_of(config.model):
        yield _memory_line(config.model_spec, parameters, settings)
    if need := covariance_need(config):
        listed = [f"{name}: {', '.join(map(str, layers))}" for name, layers in need.layers.items()]
        yield (
            f"missing: the covariance of layers ({'; '.join(listed)}); collect it once: "
            f"emend {shlex.join(need.command)}"
        )


class CovarianceNeed(NamedTuple):
    """Covariances that a run's editors need and that are missing.

    Attributes:
        layers: missing layers by editor.
        command: words of the command that collects them, after `emend`.
        seconds: estimated collection time on this machine; None if the model's size is unknown.
    """

    layers: Mapping[str, Sequence[int]]
    command: tuple[str, ...]
    seconds: float | None


def covariance_need(config: RunConfig) -> CovarianceNeed | None:
    """Return the covariances that a run lacks; None if none is missing or the model is absent.

    Raises:
        BadSettings: an editor's settings name a layer that the model does not have.
    """
    folder = model_folder(config.model)
    if not folder.is_dir():
        return None
    missing = missing_covariances(folder, _settings(config, folder))
    if not missing:
        return None
    architecture = folder_config(folder)
    layers_needed = chain.from_iterable(missing.values())
    for layer in layers_needed if architecture is not None else ():
        layer_number(architecture, layer)
    words = ["prepare", "covariance", "--model", config.model]
    if layers := layers_to_name(architecture, missing):
        words += ["--layers", ",".join(map(str, layers))]
    return CovarianceNeed(missing, tuple(words), _collecting_seconds(config.model, missing))


def _collecting_seconds(model: str, missing: Mapping[str, Sequence[int]]) -> float | None:
    """Return the seconds of a collection, whose forward pass ends after the last layer needed."""
    parameters = parameters_of(model)
    depth = getattr(folder_config(model_folder(model)), "num_hidden_layers", None)
    if not parameters or not depth:
        return None
    last = max(layer for layers in missing.values() for layer in layers)
    return FACTBOOK_TOKENS * device_speed(parameters * (last % depth + 1) / depth).reading


def _settings(config: RunConfig, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of a run's editors for the model in a folder."""
    architecture = folder_config(folder)
    return {name: editor_settings(name, config.overrides, architecture) for name in config.editors}


def _memory_line(spec: ModelSpec, parameters: float, settings: dict[str, dict[str, Any]]) -> str:
    """Return a line on the memory of the weights, and on the total with the largest editor."""
    is_half = is_half_precision(str(spec.settings.get("dtype", "auto")))
    weights = parameters * (2 if is_half else 4) / GB
    factors = {name: memory_factor(name, values) for name, values in settings.items()}
    largest = max(factors, key=lambda name: factors[name])
    line = f"memory: {weights:.1f} GB of weights"
    if factors[largest] > 1:
        line += f", about {weights * factors[largest]:.1f} GB with {largest}"
    return line
