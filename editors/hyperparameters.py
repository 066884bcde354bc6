"""Settings of editors: frozen dataclasses, filled from TOML tables and overrides; unknown keys are refused by name."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from emend.memory.errors import BadSettings, MissingData
from emend.memory.files import read_input
from emend.memory.registry import nearest

S = TypeVar("S")
SHIPPED = Path(__file__).parent / "settings"
VERIFIED = "verified"
"""Key of a shipped table that says on which model its values were tried; it is no setting."""


@dataclass(frozen=True)
class NoSettings:
    """Settings of an editor without any."""


def build_settings(schema: type[S], values: Mapping[str, Any], editor: str) -> S:
    """An editor's settings; a value given as text is parsed as the field's type.

    Raises:
        BadSettings: an unknown or missing key, or a value of the wrong type or out of range.
    """
    known = [field.name for field in fields(schema)]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise BadSettings(f"unknown setting '{key}' of editor '{editor}': {nearest(key, known)}")
    try:
        built = TypeAdapter(schema).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        value = "" if first["type"] == "missing" else f", seen: {first['input']!r}"
        raise BadSettings(
            f"setting '{field}' of editor '{editor}': {first['msg']}{value}. Known settings: {', '.join(known)}."
        ) from error
    for key in known:
        value = getattr(built, key)
        if isinstance(value, float) and not math.isfinite(value):
            raise BadSettings(f"setting '{key}' of editor '{editor}' is not finite, seen: {value}.")
    return built


def shipped_settings(editor: str, names: Sequence[str]) -> dict[str, Any]:
    """The `default` table of an editor's shipped TOML file, overlaid with the first table whose name is in `names`.

    `names` goes from the most to the least specific name of a model; a model without a table gets the default.
    """
    tables = shipped_tables(editor)
    values = tables["default"] | next((tables[name] for name in names if name in tables), {})
    return {name: value for name, value in values.items() if name != VERIFIED}


def settings_tables(config: Any) -> list[str]:
    """Names of the TOML tables that may hold a model's settings: architecture and width (`gpt2-1600`), architecture."""
    return [f"{config.model_type}-{config.get_text_config().hidden_size}", config.model_type]


def folder_settings_tables(folder: Path) -> list[str]:
    """Names of those tables for the model in a folder; none where its configuration cannot be read."""
    from transformers import AutoConfig

    try:
        return settings_tables(AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
    except (OSError, ValueError):
        return []


@cache
def shipped_tables(editor: str) -> dict[str, dict[str, Any]]:
    """The tables of an editor's shipped TOML file by name; none for an editor without such a file."""
    file = SHIPPED / f"{editor}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a user's TOML file, as overrides for an editor.

    Raises:
        MissingData: there is no such file.
        BadSettings: it is not TOML.
    """
    try:
        return tomllib.loads(read_input(path).decode())
    except FileNotFoundError as error:
        raise MissingData(f"no settings file '{path}': name a TOML file with one 'key = value' a line.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"settings file '{path}' is not TOML: {error}.") from error
    except OSError as error:
        raise BadSettings(f"settings file '{path}' cannot be read: {error.strerror or error}.") from error
