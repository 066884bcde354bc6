"""Settings of editors: frozen dataclasses, filled from TOML tables and overrides.

Unknown keys are refused by name.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from emend.memory.embeddings.model_load import model_load
from emend.memory.errors import BadData, BadSettings, MissingData, problem_of
from emend.memory.files import read_input
from emend.memory.registry import nearest

S = TypeVar("S")
SHIPPED = Path(__file__).parent / "settings"
# Key of a shipped table, not a setting: the models on which its values were verified.
VERIFIED = "verified"
# Key of a shipped table, not a setting: the number of layers of the model for which `layers` were
# published.
OF_LAYERS = "of_layers"
# Key of a shipped table, not a setting: use only the last of `layers` if a norm follows the MLP.
ONE_AFTER_NORM = "one_layer_after_norm"
# Default corpus of key covariances.
DEFAULT_CORPUS = "factbook"
# Table of a shipped file, not a model's: the values of each setting that `emend prepare tune`
# tries.
SEARCH = "search"


@dataclass(frozen=True)
class NoSettings:
    """Empty settings, for editors without settings."""


def build_settings(schema: type[S], values: Mapping[str, Any], editor: str) -> S:
    """Return an editor's settings; values given as text are parsed as the field's type.

    Raises:
        BadSettings: an unknown or missing key, or a value of the wrong type or out of range.
    """
    known = [field.name for field in fields(schema)]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise BadSettings(
                f"unknown setting '{key}' of editor '{editor}': {nearest(key, known)}"
            )
    try:
        built = TypeAdapter(schema).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        value = "" if first["type"] == "missing" else f", got {first['input']!r}"
        raise BadSettings(
            f"setting '{field}' of editor '{editor}': {problem_of(first)}{value}. Known settings: "
            f"{', '.join(known)}."
        ) from error
    for key in known:
        value = getattr(built, key)
        if isinstance(value, float) and not math.isfinite(value):
            raise BadSettings(f"setting '{key}' of editor '{editor}' is not finite: {value}.")
    return built


def check_settings(editor: Any, values: Mapping[str, Any], name: str) -> None:
    """Check overrides against an editor's dataclass of settings, before the editor is created.

    Nothing is checked for an editor without such a dataclass.

    Args:
        editor: class or factory of the editor.
        values: overrides, by setting.
        name: name of the editor for messages.

    Raises:
        BadSettings: an unknown setting, or a value of the wrong type or out of range.
    """
    schema = getattr(editor, "schema", None)
    if not is_dataclass(schema) or not isinstance(schema, type):
        return
    own_name = getattr(editor, "name", name)
    defaults = shipped_settings(own_name) if shipped_tables(own_name) else {}
    build_settings(schema, defaults | dict(values), own_name)


def shipped_settings(editor: str, config: Any = None) -> dict[str, Any]:
    """Return an editor's shipped settings: its `default` table, overridden by the model's table.

    `layers` are adapted to the model's number of layers.

    Args:
        editor: name of the editor.
        config: the model's transformers configuration; None for the values as in the file.
    """
    tables = shipped_tables(editor)
    names = () if config is None else settings_tables(config)
    model_table = next((tables[name] for name in names if name in tables), {})
    values = tables["default"] | model_table
    if config is not None and values.get("layers"):
        published_for = (model_table if "layers" in model_table else tables["default"]).get(
            OF_LAYERS
        )
        number = config.get_text_config().num_hidden_layers
        values["layers"] = layers_by_depth(values["layers"], published_for or number, number)
        if values.get(ONE_AFTER_NORM) and not adds_to_residual_stream(config):
            values["layers"] = values["layers"][-1:]
    return {
        name: value
        for name, value in values.items()
        if name not in (VERIFIED, OF_LAYERS, ONE_AFTER_NORM)
    }


def covariance_editors() -> list[str]:
    """Return the editors that need a key covariance, whose tables have the key `covariance`."""
    names = sorted(file.stem for file in SHIPPED.glob("*.toml"))
    return [name for name in names if "covariance" in shipped_tables(name)["default"]]


def covariance_layers(config: Any) -> list[int]:
    """Return all layers whose covariance some editor needs for this model, by shipped settings."""
    return sorted(
        {
            layer
            for name in covariance_editors()
            for layer in shipped_settings(name, config)["layers"]
        }
    )


def layers_by_depth(layers: Sequence[int], published_for: int, number: int) -> list[int]:
    """Return adjacent layers at the same relative depth as published ones, at most as many.

    Negative layers, which count from the end, are returned unchanged.

    Args:
        layers: the published layers, from 0.
        published_for: number of layers of the model that they were published for.
        number: number of layers of this model.

    >>> layers_by_depth([4, 5, 6, 7, 8], 32, 64), layers_by_depth([4, 5, 6, 7, 8], 32, 16)
    ([12, 13, 14, 15, 16], [2, 3, 4])
    >>> layers_by_depth([27], 28, 2)
    [1]
    """
    if published_for == number or min(layers) < 0:
        return list(layers)
    ends = (int(layer * number / published_for + 0.5) for layer in (min(layers), max(layers)))
    first, last = (min(layer, number - 1) for layer in ends)
    return list(range(max(first, last + 1 - len(layers)), last + 1))


def layers_at_depth(share: float, count: int, number: int) -> list[int]:
    """Return `count` adjacent layers, the last of which is at this fraction of the depth.

    `number` is the model's number of layers.

    >>> layers_at_depth(0.25, 5, 33)
    [4, 5, 6, 7, 8]
    """
    last = int(share * (number - 1) + 0.5)
    return list(range(max(0, last + 1 - count), last + 1))


def adds_to_residual_stream(config: Any) -> bool:
    """Return False for architectures with a norm between MLP and residual stream, else True."""
    from emend.editors.numerics.architectures import ARCHITECTURES

    known = ARCHITECTURES.get(config.model_type)
    return known is None or known.adds


def settings_tables(config: Any) -> list[str]:
    """Return the names of TOML tables for a model, the most specific first.

    They are architecture and width (`gpt2-1600`), and architecture.
    """
    return [f"{config.model_type}-{config.get_text_config().hidden_size}", config.model_type]


def folder_config(folder: Path) -> Any:
    """Return the configuration of the model in a folder; None if it cannot be read."""
    from transformers import AutoConfig

    try:
        with model_load():
            return AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except (OSError, ValueError):
        return None


@cache
def shipped_tables(editor: str) -> dict[str, dict[str, Any]]:
    """Return the tables of an editor's shipped TOML file by name; empty without such a file."""
    return {name: table for name, table in _shipped_file(editor).items() if name != SEARCH}


def search_space(editor: str) -> dict[str, list[Any]]:
    """Return the values of each setting that `emend prepare tune` tries; empty if it tunes none."""
    return dict(_shipped_file(editor).get(SEARCH, {}))


def _shipped_file(editor: str) -> dict[str, dict[str, Any]]:
    file = SHIPPED / f"{editor}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def read_text(file: Path, missing: str) -> str:
    """Return the text of a UTF-8 file that the user names.

    Raises:
        MissingData: the file cannot be read; the message begins with `missing`.
        BadData: the file is not UTF-8.
    """
    try:
        return read_input(file.expanduser()).decode()
    except UnicodeDecodeError as error:
        raise BadData(f"'{file}' is not UTF-8: {error}.") from error
    except OSError as error:
        raise MissingData(f"{missing} ({error.strerror or error}).") from error


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a user's TOML file, as overrides for an editor.

    Raises:
        MissingData: there is no such file.
        BadSettings: it is not TOML, or cannot be read.
    """
    try:
        return tomllib.loads(read_input(path).decode())
    except FileNotFoundError as error:
        raise MissingData(
            f"no settings file '{path}': name a TOML file with one 'key = value' a line."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSettings(f"settings file '{path}' is not TOML: {error}.") from error
    except OSError as error:
        raise BadSettings(
            f"settings file '{path}' cannot be read: {error.strerror or error}."
        ) from error
