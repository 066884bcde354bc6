"""Named set-ups of editors (`presets.toml`), which a configuration takes apart into its own fields."""

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, MissingData
from emend.memory.registry import nearest

PRESET = "preset"
DATA_PLACE = "{data}/"


class EditorPreset(FrozenModel):
    """Set-up of one editor: options of the run, settings of the editor, and where both come from."""

    summary: str
    run: dict[str, str] = {}
    settings: dict[str, Any] = {}


@cache
def presets() -> dict[str, dict[str, EditorPreset]]:
    """The presets by name and editor."""
    tables = tomllib.loads(Path(__file__).with_name("presets.toml").read_text("utf-8"))
    return {
        name: {editor: EditorPreset.model_validate(row) for editor, row in rows.items()}
        for name, rows in tables.items()
    }


def find_preset(name: str) -> dict[str, EditorPreset]:
    """The set-ups of a preset by editor.

    Raises:
        BadSettings: there is no such preset.
    """
    if name not in presets():
        raise BadSettings(f"unknown --preset '{name}': {nearest(name, list(presets()))}")
    return presets()[name]


def expand_preset(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration with the values of its preset in place of the preset; given ones come first.

    Raises:
        BadSettings: no such preset, it has none of the editors, or two of them need different options of the run.
        MissingData: a file that it names is absent.
    """
    rest = {field: value for field, value in values.items() if field != PRESET}
    if (name := values.get(PRESET)) is None:
        return rest
    known = find_preset(str(name))
    rows = {editor: known[editor] for editor in values.get("editors", ()) if editor in known}
    if not rows:
        raise BadSettings(f"--preset {name} is of the editors {', '.join(known)}: name one, or leave it out.")
    explicit = values.get("overrides") or {}
    settings = {editor: _with_files(row.settings, explicit.get(editor, {}), editor) for editor, row in rows.items()}
    return rest | _run_options(rest, rows, str(name)) | {"overrides": {**explicit, **settings}}


def _run_options(explicit: Mapping[str, Any], rows: Mapping[str, EditorPreset], name: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for editor, row in rows.items():
        for option, value in row.run.items():
            if explicit.get(option) is not None:
                continue
            if options.setdefault(option, value) != value:
                flag = "--" + option.replace("_", "-")
                raise BadSettings(
                    f"--preset {name} has {flag} {options[option]} and, for {editor}, {value}: name one of them "
                    f"({flag}), or run the editors apart."
                )
    return options


def _with_files(settings: Mapping[str, Any], explicit: Mapping[str, Any], editor: str) -> dict[str, Any]:
    """The preset's settings under the given ones, with the paths of files of the data folder.

    Raises:
        MissingData: such a file is absent.
    """
    values = {**settings, **explicit}
    for setting, value in values.items():
        if isinstance(value, str) and value.startswith(DATA_PLACE):
            path = Path(os.environ.get("EMEND_DATA") or "data").expanduser() / value.removeprefix(DATA_PLACE)
            if not path.is_file():
                raise MissingData(
                    f"no file '{path}', which the preset needs: get it with emend data pull {path.parts[-3]}, or give "
                    f"--set {editor}.{setting}=FILE."
                )
            values[setting] = str(path)
    return values
