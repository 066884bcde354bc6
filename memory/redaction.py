"""Redaction of API keys in everything that is written or shown."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from emend.memory.errors import BadSettings
from emend.memory.json_files import replace_surrogates

# Names of settings that may contain keys.
_SECRET = re.compile(
    r"api.?key|^(.*(access|auth|private)[-_])?key$|headers|query|proxy|secret|password|"
    r"authorization|(^|_|-)token$",
    re.I,
)
# Names of request headers that may contain keys; the names of settings are more restricted, since
# there are many such as `max_tokens`.
_SECRET_HEADER = re.compile(
    rf"{_SECRET.pattern}|key|token|auth|credential|signature|session|cookie", re.I
)
# New in every request, so that it is no secret, and there would be ever more of them.
_OF_THE_REQUEST = {"idempotency-key"}
# A value that is probably a secret whatever the name of its header: no word, date or address.
_OPAQUE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])(?!.*://)\S{16,}")
NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
OTLP_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
# Minimum length of a key; a shorter value would match ordinary words.
SHORTEST = 8


_added: set[str] = set()


def add_secrets(*values: str) -> None:
    """Redact these values from now on: keys given as settings, and request headers, with or without
    `Bearer`.
    """
    for value in values:
        _added.update(word for word in (value, *value.split()) if len(word) >= SHORTEST)


def add_secret_headers(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Redact the values of request headers whose names suggest keys."""
    for name, content in headers:
        if _is_secret_header(name.decode(errors="replace")):
            add_secrets(content.decode(errors="surrogateescape"))


def add_headers_of_user(settings: Mapping[Any, Any]) -> None:
    """Redact the values of headers that the user has set, at any depth of a client's settings.

    Under a name that suggests no key, only a value that cannot be an ordinary word is redacted:
    answers may contain the word.
    """
    for name, value in settings.items():
        if not isinstance(value, Mapping):
            continue
        if "headers" in str(name).lower():
            _add_headers(value)
        else:
            add_headers_of_user(value)


def _add_headers(headers: Mapping[Any, Any]) -> None:
    for name, value in headers.items():
        text = str(value)
        if _is_secret_header(str(name)) or _OPAQUE.fullmatch(text):
            add_secrets(text)


@lru_cache(maxsize=1024)
def _is_secret_header(name: str) -> bool:
    return name.lower() not in _OF_THE_REQUEST and _SECRET_HEADER.search(name) is not None


def hide_keys(text: str) -> str:
    """Return a text without the keys from the environment, settings and headers.

    Lone surrogates, which cannot be written, are replaced.
    """
    return key_hider()(text)


def key_hider() -> Callable[[str], str]:
    """Return `hide_keys` with a snapshot of the current keys, for many texts."""
    secrets = [(value, f"<{name}>") for value, name in _secrets().items()]

    def hide(text: str) -> str:
        text = replace_surrogates(text)
        for value, name in secrets:
            text = text.replace(value, name)
        return text

    return hide


def hide_in_bytes(content: bytes) -> bytes:
    """Return UTF-8 bytes without keys; see `hide_keys`."""
    return (
        hide_keys(content.decode()).encode()
        if any(os.fsencode(key) in content for key in _secrets())
        else content
    )


def _secrets() -> dict[str, str]:
    """Map each value to redact to its name, the longest value first; other variables are not read,
    since this runs for every text.
    """
    names = [
        name for name in list(os.environ) if name.upper().endswith(NAMES) or name in OTLP_HEADERS
    ]
    return _written_forms(
        tuple((name, os.environ.get(name, "")) for name in names), frozenset(_added)
    )


@lru_cache(maxsize=16)
def _written_forms(variables: tuple[tuple[str, str], ...], added: frozenset[str]) -> dict[str, str]:
    """Map the forms of the keys in these variables and of the added values to their names."""
    names = dict.fromkeys(added, "key")
    for name, content in variables:
        if name.upper().endswith(NAMES):
            names[content] = name
            continue
        for field in content.split(","):
            header = unquote(field.partition("=")[2].strip())
            names |= dict.fromkeys((field.partition("=")[2].strip(), header, *header.split()), name)
    for value, name in list(names.items()):  # the key as JSON and URLs escape it
        names |= {json.dumps(value)[1:-1]: name, quote(value, safe=""): name}
    long_enough = (value for value in names if len(value) >= SHORTEST)
    return {value: names[value] for value in sorted(long_enough, key=len, reverse=True)}


def refuse_secrets(settings: Mapping[str, Any], above: str) -> None:
    """Reject settings, at any depth, that may contain a key, because settings are written to the
    run folder.

    Raises:
        BadSettings: a setting may contain a key; the message names it, under `above`, but never its
            value.
    """
    for name, value in settings.items():
        if _SECRET.search(name):
            raise BadSettings(
                f"--set {above}.{name} may contain a key, which would be written to disk: put it "
                "into the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY), and a proxy into "
                "HTTPS_PROXY."
            )
        if isinstance(value, Mapping):
            refuse_secrets(value, f"{above}.{name}")
