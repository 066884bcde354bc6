"""The layers that the editors with a key covariance write to."""

from collections.abc import Mapping
from typing import Any

from emend.agents.local.causal_lm import CausalLM
from emend.editors.parametric.locate_then_edit import LocateThenEdit, LocateThenEditSettings
from emend.editors.registry import EDITORS
from emend.memory.errors import BadSettings

USUAL = ("rome", "memit")
"""Editors whose layers are taken where none is named."""


def covariance_settings(lm: CausalLM, overrides: Mapping[str, Mapping[str, Any]]) -> list[LocateThenEditSettings]:
    """The settings for this model of the named editors, or else of the usual ones.

    Raises:
        BadSettings: an editor that needs no covariance, or a setting that it does not know or accept.
    """
    settings: list[LocateThenEditSettings] = []
    for name in overrides or USUAL:
        editor = EDITORS.load(name)
        if not (isinstance(editor, type) and issubclass(editor, LocateThenEdit)):
            raise BadSettings(f"--set names '{name}', which needs no covariance: name rome, memit or alphaedit.")
        settings.append(editor.settings_for(lm, overrides.get(name, {})))
    return settings
