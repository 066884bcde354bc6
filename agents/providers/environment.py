"""Cleaning and validation of keys, proxies and certificates that clients read from the
environment.
"""

import importlib.util
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from emend.memory.errors import BadSettings, EmendError, KeyRefused
from emend.memory.redaction import add_secrets

PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")
# Schemes of proxies that httpx, the HTTP library of most clients, can use.
SCHEMES = ("http", "https", "socks5", "socks5h")
QUOTES = ("''", '""', "``", "“”", "‘’", "„“", "«»")
_BEARER = re.compile(r"bearer\s+", re.I)
# Characters that a key cannot contain: most are invalid in a header, and a lone quote was copied by
# mistake.
_UNSENDABLE = re.compile(r"[^\x21-\x7e]|[\"'`]")
_AT_FAULT = re.compile(r"socks|proxy|certificate|no such file|cacert|pem|ssl|x509", re.I)


def clean_key(key: str, name: str) -> str:
    """Return a key without surrounding white space, quotes and `Bearer`.

    Args:
        key: the given text.
        name: the variable or setting with the key, for the error.

    Raises:
        KeyRefused: it still has an invalid character; the message shows neither the key nor the
            character's surroundings.
    """
    add_secrets(key)
    key, before = key.strip(), ""
    while key != before:
        before = key
        key = key[1:-1] if len(key) > 1 and key[0] + key[-1] in QUOTES else key
        key = _BEARER.sub("", key, count=1) if _BEARER.match(key) else key
        key = key.strip(" \t\r\n\ufeff\u200b\u00a0")
    add_secrets(key)
    if wrong := _UNSENDABLE.search(key):
        kind = "white space" if wrong[0].isspace() else f"the character U+{ord(wrong[0]):04X}"
        raise KeyRefused(
            f"{name} holds {kind} within the key, at position {wrong.start() + 1} of {len(key)}, "
            "which cannot be sent: copy the key again."
        )
    return key


def clean_keys(client: BaseChatModel, name: str) -> dict[str, str]:
    """Return the client's key settings whose values had to be cleaned, by setting name.

    Raises:
        KeyRefused: a key cannot be sent.
    """
    keys = {}
    for field, info in type(client).model_fields.items():
        value: Any = getattr(client, field, None)
        if isinstance(value, SecretStr) and (raw := value.get_secret_value()):
            if (key := clean_key(raw, f"model '{name}': the environment's {field.upper()}")) != raw:
                keys[info.alias or field] = key
    return keys


def network_problem() -> str:
    """Return which environment variable prevents clients from being created, with the remedy; "" if
    none.
    """
    for name in (spelling for proxy in PROXIES for spelling in (proxy, proxy.lower())):
        if problem := _proxy_problem(os.environ.get(name, "")):
            return f"{name} {problem}, or unset {name} (env -u {name} emend ...)."
    file, folder = (os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    if folder and not Path(folder).is_dir():
        return (
            f"SSL_CERT_DIR names the folder '{folder}', which does not exist: correct it, or "
            "unset SSL_CERT_DIR."
        )
    try:
        ssl.create_default_context(cafile=file or None)
    except (OSError, ssl.SSLError) as error:
        reason = (
            "does not exist"
            if isinstance(error, FileNotFoundError)
            else ("holds no certificates in PEM form")
        )
        return f"SSL_CERT_FILE names '{file}', which {reason}: correct it, or unset SSL_CERT_FILE."
    return ""


def _proxy_problem(address: str) -> str:
    if not address.strip():
        return ""
    scheme = urlsplit(address).scheme.lower()
    if "://" in address and scheme not in SCHEMES:
        meant = "socks5" if scheme.startswith("socks") else "http"
        return (
            f"names a proxy of the scheme '{scheme}://', which is not supported: write "
            f"{meant}://HOST:PORT"
        )
    if scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        return "names a SOCKS proxy, which needs a package: pip install 'httpx[socks]'"
    return ""


@contextmanager
def named_problems() -> Iterator[None]:
    """Name the environment variable if a client cannot be created because of a proxy or
    certificates.

    Raises:
        BadSettings: instead of the client's error.
    """
    try:
        yield
    except Exception as error:
        at_fault = isinstance(error, OSError) or _AT_FAULT.search(
            f"{error} {error.__cause__ or ''}"
        )
        problem = network_problem() if at_fault or not isinstance(error, EmendError) else ""
        if not problem:
            raise
        raise BadSettings(problem) from error
