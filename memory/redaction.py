"""Redaction: keeps API keys out of everything that is written or shown."""

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from emend.memory.errors import BadSettings
from emend.memory.json_files import replace_surrogates

_SECRET = re.compile(
    r"api.?key|^(.*(access|auth|private)[-_])?key$|headers|query|proxy|secret|password|authorization|(^|_|-)token$",
    re.I,
)
"""Names of settings that may contain keys."""
NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
OTLP_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
SHORTEST = 8
"""Minimum length of a key; a shorter value would occur in ordinary words."""


_added: set[str] = set()


def add_secrets(*values: str) -> None:
    """Hide these values from now on: keys given as settings, and headers that are sent, with or without `Bearer`."""
    for value in values:
        _added.update(word for word in (value, *value.split()) if len(word) >= SHORTEST)


def add_secret_headers(headers: Mapping[str, str]) -> None:
    """Hide the values of those headers, by name, that may be keys."""
    add_secrets(*(value for name, value in headers.items() if _is_secret(name)))


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def hide_keys(text: str) -> str:
    """Return text to be shown or written without keys: those of the environment, of settings and of headers.

    Half surrogate pairs, which cannot be written, are replaced.
    """
    return key_hider()(text)


def key_hider() -> Callable[[str], str]:
    """Return `hide_keys` with the keys of this moment, for many texts at once."""
    secrets = [(value, f"<{name}>") for value, name in _secrets().items()]

    def hide(text: str) -> str:
        text = replace_surrogates(text)
        for value, name in secrets:
            text = text.replace(value, name)
        return text

    return hide


def hide_in_bytes(content: bytes) -> bytes:
    """Return UTF-8 without keys; see `hide_keys`."""
    return hide_keys(content.decode()).encode() if any(os.fsencode(key) in content for key in _secrets()) else content


def _secrets() -> dict[str, str]:
    """Name of each value to hide, the longest first; values of other variables are not read: this runs for all text."""
    names = dict.fromkeys(_added, "key")
    for name in list(os.environ):
        if name.upper().endswith(NAMES):
            names[os.environ.get(name, "")] = name
        elif name in OTLP_HEADERS:
            for field in os.environ.get(name, "").split(","):
                header = unquote(field.partition("=")[2].strip())
                names |= dict.fromkeys((field.partition("=")[2].strip(), header, *header.split()), name)
    for value, name in list(names.items()):  # as JSON and addresses have them
        names |= {json.dumps(value)[1:-1]: name, quote(value, safe=""): name}
    long_enough = (value for value in names if len(value) >= SHORTEST)
    return {value: names[value] for value in sorted(long_enough, key=len, reverse=True)}


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
