"""Settings of editors and of the model in a configuration (`overrides`), and a check of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from emend.memory.errors import BadSettings
from emend.memory.redaction import refuse_secrets
from emend.memory.registry import nearest

# Key of `overrides` with the settings for loading the model.
MODEL = "model"
OVERRIDES = (
    "Setting of an editor or of the model: EDITOR.KEY=VALUE, model.KEY=VALUE, or EDITOR=@FILE with "
    "a TOML file; repeatable; see: emend list settings."
)


def check_overrides(overrides: Mapping[str, Mapping[str, Any]], editors: Sequence[str]) -> None:
    """Check that settings belong to the model or to one of the editors, and contain no API key.

    Raises:
        BadSettings: settings belong to neither, or contain an API key.
    """
    refuse_secrets(overrides.get(MODEL, {}), MODEL)
    for name in overrides:
        if name not in (*editors, MODEL):
            raise BadSettings(
                f"--set names the editor '{name}', which is not in the run: "
                f"{nearest(name, [*editors, MODEL])}"
            )
