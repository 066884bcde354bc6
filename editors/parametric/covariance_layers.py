"""Which layers the editors that need statistics would write to on a model."""

from collections.abc import Mapping, Sequence
from typing import Any

from emend.agents.local.causal_lm import CausalLM
from emend.editors.parametric.locate_then_edit import SubjectLast, WritingSettings
from emend.editors.registry import EDITORS
from emend.memory.errors import BadSettings

USUAL = ("rome", "memit")
"""Whose layers are taken where no editor is named."""


def writing_settings(lm: CausalLM, overrides: Mapping[str, Mapping[str, Any]]) -> list[WritingSettings]:
    """The settings for this model of the editors that are named, or else of the usual ones.

    Raises:
        BadSettings: an editor that needs no statistics, or a setting that it does not know or take.
    """
    found: list[WritingSettings] = []
    for name in overrides or USUAL:
        editor = EDITORS.load(name)
        if not (isinstance(editor, type) and issubclass(editor, SubjectLast)):
            raise BadSettings(f"--set names '{name}', which needs no statistics: name rome, memit or alphaedit.")
        found.append(editor.settings_for(lm, overrides.get(name, {})))
    return found


def written_layers(settings: Sequence[WritingSettings]) -> list[int]:
    """All layers that these write to, as the settings count them."""
    return [layer for each in settings for layer in each.layers]
