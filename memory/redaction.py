"""Redaction: keeps API keys out of everything that is written or shown."""

import os
import re
from collections.abc import Mapping
from typing import Any

from emend.memory.errors import BadSettings

_SECRET = re.compile(
    r"api.?key|^(.*(access|auth|private)[-_])?key$|headers|query|proxy|secret|password|authorization|(^|_|-)token$",
    re.I,
)
"""Names of settings that may contain keys."""
NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
SHORTEST = 8
"""Minimum length of a key; a shorter value would occur in ordinary words."""


def hide_keys(text: str, *keys: str) -> str:
    """The text without the values of the environment's API keys and of `keys`.

    Args:
        text: to be shown or written.
        keys: further values to hide, such as a key from a setting.
    """
    for name, value in _keys():
        text = text.replace(value, f"<{name}>")
    for value in keys:
        if len(value) >= SHORTEST:
            text = text.replace(value, "<key>")
    return text


def hide_in_bytes(content: bytes) -> bytes:
    """The content without API keys, which a model may repeat after a server that leaks them."""
    values = [os.fsencode(value) for _, value in _keys()]
    return hide_keys(content.decode()).encode() if any(value in content for value in values) else content


def _keys() -> list[tuple[str, str]]:
    """Name and value of each key; values of other variables are not read, since this runs for every call."""
    pairs = [(name, os.environ.get(name, "")) for name in list(os.environ) if name.upper().endswith(NAMES)]
    return [(name, value) for name, value in pairs if len(value) >= SHORTEST]


def refuse_secrets(settings: Mapping[str, Any], above: str) -> None:
    """Refuse settings, at any depth, that may contain a key, because settings are written to the run folder.

    Raises:
        BadSettings: one of them may; the message names it, under `above`, but never its value.
    """
    for name, value in settings.items():
        if _SECRET.search(name):
            raise BadSettings(
                f"--set {above}.{name} may contain a key, which would be written to disk: put it into the environment "
                "(OPENAI_API_KEY, ANTHROPIC_API_KEY), and a proxy into HTTPS_PROXY."
            )
        if isinstance(value, Mapping):
            refuse_secrets(value, f"{above}.{name}")
