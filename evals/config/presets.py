"""Presets of editors (`presets.toml`), whose values are copied into the fields of a
configuration.
"""

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
    """Preset of one editor: options of the run and settings of the editor; the summary names their
    source.
    """

    summary: str
    run: dict[str, str] = {}
    settings: dict[str, Any] = {}


@cache
def presets() -> dict[str, dict[str, EditorPreset]]:
    """Return all presets by name and editor."""
    tables = tomllib.loads(Path(__file__).with_name("presets.toml").read_text("utf-8"))
    by_name: dict[str, dict[str, EditorPreset]] = {}
    for name, rows in tables.items():
        by_name[name] = {editor: EditorPreset.model_validate(row) for editor, row in rows.items()}
    return by_name


def find_preset(name: str) -> dict[str, EditorPreset]:
    """Return the presets of the given name, by editor.

    Raises:
        BadSettings: the preset is unknown.
    """
    if name not in presets():
        raise BadSettings(f"unknown --preset '{name}': {nearest(name, list(presets()))}")
    return presets()[name]


def expand_preset(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration with its preset replaced by the preset's values;
    explicit values take precedence.

    Raises:
        BadSettings: the preset is unknown, has none of the editors, or two of its editors need
            different options of the run.
        MissingData: a file named by the preset is absent.
    """
    rest = {field: value for field, value in values.items() if field != PRESET}
    if (name := values.get(PRESET)) is None:
        return rest
    known = find_preset(str(name))
    rows = {editor: known[editor] for editor in values.get("editors", ()) if editor in known}
    if not rows:
        raise BadSettings(
            f"--preset {name} applies to the editors {', '.join(known)}: name one, or leave it out."
        )
    explicit = values.get("overrides") or {}
    settings = {
        editor: _with_files(row.settings, explicit.get(editor, {}), editor)
        for editor, row in rows.items()
    }
    return rest | _run_options(rest, rows, str(name)) | {"overrides": {**explicit, **settings}}


def _run_options(
    explicit: Mapping[str, Any], rows: Mapping[str, EditorPreset], name: str
) -> dict[str, str]:
    options: dict[str, str] = {}
    for editor, row in rows.items():
        for option, value in row.run.items():
            if explicit.get(option) is not None:
                continue
            if options.setdefault(option, value) != value:
                flag = "--" + option.replace("_", "-")
                raise BadSettings(
                    f"--preset {name} has {flag} {options[option]} and, for {editor}, {value}: "
                    f"choose one with {flag}, or run the editors separately."
                )
    return options


def _with_files(
    settings: Mapping[str, Any], explicit: Mapping[str, Any], editor: str
) -> dict[str, Any]:
    """Return the preset's settings, overridden by explicit ones, with full paths of files in the
    data folder.

    Raises:
        MissingData: such a file is absent.
    """
    values = {**settings, **explicit}
    for setting, value in values.items():
        if isinstance(value, str) and value.startswith(DATA_PLACE):
            path = Path(os.environ.get("EMEND_DATA") or "data").expanduser() / value.removeprefix(
                DATA_PLACE
            )
            if not path.is_file():
                raise MissingData(
                    f"no file '{path}', which the preset needs: get it with emend data pull "
                    f"{path.parts[-3]}, or give --set {editor}.{setting}=FILE."
                )
            values[setting] = str(path)
    return values
