"""Needs of a run on a local model, before it is loaded: memory, covariances, and time by arithmetic."""

import shlex
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from emend.agents.local.model_folder import is_half_precision, weights_digest
from emend.agents.tiny import FOLDER as TINY
from emend.editors.device_speed import device_speed
from emend.editors.hyperparameters import (
    covariance_editors,
    covariance_layers,
    folder_config,
    shipped_settings,
    shipped_tables,
)
from emend.evals.config.run_config import RunConfig
from emend.evals.results.papers.tables import memory_factor, paper_models
from emend.evals.run.run import TRAINING, edit_tokens

if TYPE_CHECKING:
    from emend.evals.results.dry_run import EstimatedRow

SPREAD = 3.0
"""Factor between an estimate and either end of the range that is shown before anything is measured."""
BUSY = 0.5
"""Share of the calls allowed at once that write in the mean: others score, and replies end at different times."""


def parameters_of(spec: str) -> float | None:
    """Number of parameters of a local model: of its files, or of the paper's model of that name; None if unknown."""
    name = spec.partition(":")[2]
    try:
        if count := sum(_count(file) for file in model_folder(spec).glob("*.safetensors")):
            return float(count)
    except (OSError, SafetensorError):
        return None
    billions = next((each.parameters for each in paper_models().values() if each.hub and each.hub == name), None)
    return None if billions is None else billions * 1e9


def model_folder(spec: str) -> Path:
    """Folder of a local model's files, if they are on this machine."""
    return TINY if spec == "tiny" else Path(spec.partition(":")[2] or spec).expanduser()


def _count(file: Path) -> int:
    with safe_open(file, "pt") as tensors:
        return sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118  no mapping


def local_seconds(config: RunConfig, rows: "Sequence[EstimatedRow]", parameters: float) -> float:
    """Seconds that a run takes: its answers' tokens, and the passes of editors that search or train."""
    speed, architecture, total = device_speed(parameters), folder_config(model_folder(config.model)), 0.0
    for row in rows:
        total += (row.input_tokens + row.perplexity_tokens) * speed.reading
        total += row.output_tokens * (speed.reading + speed.writing / _replies_at_once(config, row))
        if row.edits:
            settings = editor_settings(config, row.editor, architecture)
            total += row.edits * TRAINING * edit_tokens(settings, row.edit_tokens / row.edits) * speed.reading
    return total


def _replies_at_once(config: RunConfig, row: "EstimatedRow") -> float:
    """Replies that are written in one pass in the mean; under edited weights only those of one unit are."""
    calls = row.calls / max(1, row.units) if row.edits else row.calls
    return max(1.0, BUSY * min(config.concurrency, calls))


def editor_settings(config: RunConfig, editor: str, architecture: Any) -> dict[str, Any]:
    """Settings of an editor in this run; of one that is not shipped only those that the run gives."""
    shipped = shipped_settings(editor, architecture) if shipped_tables(editor) else {}
    return shipped | config.overrides.get(editor, {})


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
