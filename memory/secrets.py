"""Keeps API keys out of everything that is written or shown."""

import os
import re
from collections.abc import Mapping
from typing import Any

from emend.memory.errors import BadSettings

_SECRET = re.compile(
    r"api.?key|^(.*(access|auth|private)[-_])?key$|headers|query|proxy|secret|password|authorization|(^|_|-)token$",
    re.I,
)
"""Names of settings under which clients take keys."""
NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
SHORTEST = 8
"""A shorter value is no key, and would be found in words."""


def hide_keys(text: str, *more: str) -> str:
    """The text without the values of API keys that the environment holds, nor those that are given.

    Args:
        text: what is to be shown or written.
        more: further values to hide, such as a key that was given as a setting.
    """
    for name, value in _keys():
        text = text.replace(value, f"<{name}>")
    for value in more:
        if len(value) >= SHORTEST:
            text = text.replace(value, "<key>")
    return text


def hide_in_bytes(content: bytes) -> bytes:
    """The same for what is about to be written: a model may repeat what a careless server tells it."""
    held = [os.fsencode(value) for _, value in _keys()]
    return hide_keys(content.decode()).encode() if any(value in content for value in held) else content


def _keys() -> list[tuple[str, str]]:
    """Name and value of each key; values of other names are not even looked at, since this is asked for every call."""
    held = [(name, os.environ.get(name, "")) for name in list(os.environ) if name.upper().endswith(NAMES)]
    return [(name, value) for name, value in held if len(value) >= SHORTEST]


def refuse_secrets(settings: Mapping[str, Any], above: str) -> None:
    """Refuses settings, at any depth, that may hold a key: what is set is written down.

    Raises:
        BadSettings: one of them may; `above` and its name are told, never its value.
    """
    for name, value in settings.items():
        if _SECRET.search(name):
            raise BadSettings(
                f"--set {above}.{name} may hold a key, and would be written down: put the key into the environment "
                "(OPENAI_API_KEY, ANTHROPIC_API_KEY), and a proxy into HTTPS_PROXY."
            )
        if isinstance(value, Mapping):
            refuse_secrets(value, f"{above}.{name}")
