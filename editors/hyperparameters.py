"""Settings of editors: frozen dataclasses, filled from TOML tables and overrides, with unknown keys refused by name."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from emend.memory.errors import BadSettings, MissingData
from emend.memory.registry import nearest

S = TypeVar("S")
SHIPPED = Path(__file__).parent / "settings"


@dataclass(frozen=True)
class NoSettings:
    """The settings of an editor that has none."""


def build_settings(schema: type[S], values: Mapping[str, Any], editor: str) -> S:
    """The settings of that editor; a value given as text is read as the field's type.

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
        wrong = error.errors()[0]
        field = ".".join(str(part) for part in wrong["loc"])
        seen = "" if wrong["type"] == "missing" else f", seen: {wrong['input']!r}"
        raise BadSettings(
            f"setting '{field}' of editor '{editor}': {wrong['msg']}{seen}. Known settings: {', '.join(known)}."
        ) from error
    for key in known:
        value = getattr(built, key)
        if isinstance(value, float) and not math.isfinite(value):
            raise BadSettings(f"setting '{key}' of editor '{editor}' is no finite number, seen: {value}.")
    return built


def family_values(editor: str, families: Sequence[str]) -> dict[str, Any]:
    """What the shipped TOML file of an editor says: its `default` table, overlaid with the first table that fits.

    `families` goes from the most to the least specific name of a model; a model without a table gets the default.
    """
    tables = _shipped(editor)
    own = next((tables[name] for name in families if name in tables), {})
    return tables["default"] | own


@cache
def _shipped(editor: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((SHIPPED / f"{editor}.toml").read_text(encoding="utf-8"))


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a TOML file of the user's own, to be given to an editor as overrides.

    Raises:
        MissingData: there is no such file.
        BadSettings: it is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise MissingData(f"no settings file '{path}': name a TOML file with one 'key = value' a line.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"settings file '{path}' is not TOML: {error}.") from error
    except OSError as error:
        raise BadSettings(f"settings file '{path}' cannot be read: {error.strerror or error}.") from error
