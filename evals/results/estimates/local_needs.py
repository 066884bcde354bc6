"""Needs of a run on a local model, before it is loaded: memory, and the covariances that its editors lack."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emend.agents.local.model_folder import is_half_precision, weights_digest
from emend.editors.hyperparameters import covariance_editors, covariance_layers, folder_config
from emend.evals.config.run_config import RunConfig
from emend.evals.results.estimates.local_time import editor_settings, model_folder, parameters_of
from emend.evals.results.papers.table_rules import memory_factor

COLLECTED = "collected"
GB = 1e9


def need_lines(config: RunConfig) -> Iterator[str]:
    """Yield a line about memory, and one about missing covariances; nothing for a model whose files are not here."""
    folder = model_folder(config.model)
    if not folder.is_dir():
        return
    architecture = folder_config(folder)
    settings = {name: editor_settings(config, name, architecture) for name in config.editors}
    if parameters := parameters_of(config.model):
        yield _memory_line(config, parameters, settings)
    missing = {name: values["layers"] for name, values in settings.items() if _lacks_covariance(folder, name, values)}
    if missing:
        editors = "; ".join(f"{name}: {', '.join(map(str, layers))}" for name, layers in missing.items())
        command = _command(folder, architecture, missing)
        yield f"missing: the covariance of layers ({editors}); collect it once: {command}"


def _memory_line(config: RunConfig, parameters: float, settings: dict[str, dict[str, Any]]) -> str:
    """Memory of the weights, and with the editor that takes most beside them."""
    is_half = is_half_precision(str(config.overrides.get("model", {}).get("dtype", "auto")))
    weights = parameters * (2 if is_half else 4) / GB
    factors = {name: memory_factor(name, values) for name, values in settings.items()}
    largest = max(factors, key=lambda name: factors[name])
    line = f"memory: {weights:.1f} GB of weights"
    return line if factors[largest] <= 1 else f"{line}, about {weights * factors[largest]:.1f} GB with {largest}"


def _lacks_covariance(folder: Path, editor: str, settings: dict[str, Any]) -> bool:
    """True if the editor needs a collected covariance of this model and none has all its layers."""
    if editor not in covariance_editors() or settings["covariance"] != COLLECTED:
        return False
    from emend.editors.numerics.covariance import collected_folders

    return not collected_folders(weights_digest(folder), settings["layers"])


def _command(folder: Path, architecture: Any, missing: dict[str, list[int]]) -> str:
    """Command that collects the covariance of all these layers, and of those that other editors need."""
    needed = {*covariance_layers(architecture)}
    layers = {layer for each in missing.values() for layer in each}
    every = "" if layers <= needed else f" --layers {','.join(map(str, sorted(layers | needed)))}"
    return f"emend covariance --model {shlex.quote(f'hf:{folder}')}{every}"
