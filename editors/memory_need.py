"""Memory that an editor needs, and parameter counts of public models."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

DEFAULT = "default"


@cache
def _tables() -> dict[str, dict[str, float]]:
    text = (files("emend.editors") / "memory_need.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def billions_of_parameters(hub: str) -> float | None:
    """Return the billions of parameters of a Hugging Face model; None if it is not in the table."""
    return _tables()["billions"].get(hub)


def bytes_per_parameter(editor: str, settings: Mapping[str, Any]) -> float:
    """Return the bytes per parameter that an editor with these settings needs, weights included."""
    table = _tables()["bytes"]
    for name, value in settings.items():
        if (key := f"{editor}.{name}={value}") in table:
            return table[key]
    return table.get(editor, table[DEFAULT])


def memory_factor(editor: str, settings: Mapping[str, Any]) -> float:
    """Return the memory that an editor with these settings needs, relative to the model's weights.

    The weights themselves are included.
    """
    return bytes_per_parameter(editor, settings) / _tables()["bytes"][DEFAULT]
