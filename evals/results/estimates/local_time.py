"""Time that a run of a local model takes, estimated before the model is loaded: arithmetic at this machine's speed."""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from emend.agents.tiny import FOLDER as TINY
from emend.editors.device_speed import device_speed
from emend.editors.hyperparameters import folder_config, shipped_settings, shipped_tables
from emend.evals.config.run_config import RunConfig
from emend.evals.results.papers.table_rules import paper_models
from emend.evals.run.start import TRAINING, edit_tokens

if TYPE_CHECKING:
    from emend.evals.results.estimates.dry_run import EstimatedRow

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
