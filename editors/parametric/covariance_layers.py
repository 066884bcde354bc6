"""The layers that the editors with a key covariance write to in a model."""

from collections.abc import Mapping
from typing import Any

from emend.agents.local.causal_lm import CausalLM
from emend.editors.hyperparameters import covariance_editors
from emend.editors.parametric.locate_then_edit import LocateThenEdit, LocateThenEditSettings
from emend.editors.registry import EDITORS
from emend.memory.errors import BadSettings


def covariance_settings(lm: CausalLM, overrides: Mapping[str, Mapping[str, Any]]) -> dict[str, LocateThenEditSettings]:
    """The settings for this model by editor: of all that need a covariance, and of those that overrides name.

    Raises:
        BadSettings: an editor that needs no covariance, or a setting that it does not know or accept.
    """
    settings: dict[str, LocateThenEditSettings] = {}
    for name in dict.fromkeys((*covariance_editors(), *overrides)):
        editor = EDITORS.load(name)
        if not (isinstance(editor, type) and issubclass(editor, LocateThenEdit)):
            raise BadSettings(f"--set names '{name}', which needs no covariance: name rome, memit or alphaedit.")
        settings[name] = editor.settings_for(lm, overrides.get(name, {}))
    return settings
