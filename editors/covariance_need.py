"""Key covariances that editors need for a local model and that have not been collected yet."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emend.agents.local.model_folder import weights_digest
from emend.editors.hyperparameters import covariance_editors, covariance_layers

COLLECTED = "collected"


def missing_covariances(
    folder: Path, settings: Mapping[str, Mapping[str, Any]]
) -> dict[str, Sequence[int]]:
    """Return, by editor, the layers of each editor whose covariances have not all been collected.

    Args:
        folder: the model's folder.
        settings: the settings of each editor, by editor name.
    """
    from emend.editors.numerics.covariance import collected_folders

    missing: dict[str, Sequence[int]] = {}
    for editor, values in settings.items():
        needs = editor in covariance_editors() and values["covariance"] == COLLECTED
        if needs and not collected_folders(weights_digest(folder), values["layers"]):
            missing[editor] = values["layers"]
    return missing


def layers_to_name(architecture: Any, missing: Mapping[str, Sequence[int]]) -> list[int]:
    """Return the layers to name when collecting covariances for these editors.

    They include the layers that other editors need. The list is empty if the layers that are
    collected by default suffice.
    """
    needed = {*covariance_layers(architecture)}
    layers = {layer for each in missing.values() for layer in each}
    if layers <= needed:
        return []
    return sorted(layers | needed)
