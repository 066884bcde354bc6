"""Layers that covariance-based editors write to in a model."""

from collections.abc import Mapping
from typing import Any

from emend.agents.local.causal_lm import CausalLM
from emend.editors.hyperparameters import covariance_editors
from emend.editors.parametric.locate_then_edit import LocateThenEdit, LocateThenEditSettings
from emend.editors.registry import EDITORS
from emend.memory.errors import BadSettings


def covariance_settings(
    lm: CausalLM, overrides: Mapping[str, Mapping[str, Any]]
) -> dict[str, LocateThenEditSettings]:
    """Return the settings for this model of all editors that need a covariance, by editor.

    `overrides` are settings by editor.

    Raises:
        BadSettings: an editor that needs no covariance, or an unknown or invalid setting.
    """
    settings: dict[str, LocateThenEditSettings] = {}
    for name in dict.fromkeys((*covariance_editors(), *overrides)):
        editor = EDITORS.load(name)
        if not (isinstance(editor, type) and issubclass(editor, LocateThenEdit)):
            raise BadSettings(
                f"--set names '{name}', which needs no covariance: name rome, memit or alphaedit."
            )
        settings[name] = editor.settings_for(lm, overrides.get(name, {}))
    return settings
