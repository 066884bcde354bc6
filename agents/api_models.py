"""Loading of chat models behind the APIs of OpenAI and Anthropic, or of compatible servers."""

import importlib.util
import math
import os
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


# Timeout in seconds without a byte of the reply.
SECONDS_A_REPLY = 120
# Emend's default settings of API models.
API_DEFAULTS: dict[str, Any] = {"temperature": 0, "timeout": SECONDS_A_REPLY}
# Default limits of API models: seconds of a call including retries, and megabytes of a reply.
DEFAULT_BOUNDS = {"deadline": 600.0, "reply_mb": 8.0}
# Setting of clients that Emend replaces by its own retries.
OWN_RETRIES = "max_retries"
# Paths that clients append to an address themselves.
ENDPOINT = re.compile(r"/(chat/completions|completions|responses|messages)/*$", re.I)
# Start of a server address.
ADDRESS = re.compile(r"@(?=https?://)", re.I)


def load_openai(name: str, **settings: Any) -> "BaseChatModel":
    """Load a chat model of OpenAI or of a compatible server."""
    return _api("openai", *_at_address("openai", name, settings))


def load_anthropic(name: str, **settings: Any) -> "BaseChatModel":
    """Load a chat model of Anthropic, or of a compatible server; replies have at most 4,096 tokens
    by default.
    """
    return _api("anthropic", *_at_address("anthropic", name, {"max_tokens": 4096} | settings))


def _at_address(provider: str, name: str, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the model's name, and the settings with its address, if it has one."""
    key = f"{provider.upper()}_API_KEY"
    name, url = split_address(provider, name, key)
    if not url:
        return name, settings
    settings = settings | {"base_url": url}
    if key not in os.environ:  # the client requires a key, most local servers do not
        settings = {"api_key": "none"} | settings
    return name, settings


def split_address(provider: str, name: str, key: str) -> tuple[str, str]:
    """Split a model into name and address at the last @ that precedes an address, since names may
    contain @; the address may be "".

    Args:
        provider: for messages.
        name: the text after the provider's name.
        key: environment variable of the server's key.

    Raises:
        BadSettings: an @ without an address, or an address with a password or a query.
    """
    matches = list(ADDRESS.finditer(name))
    if not matches and "@" not in name:
        return name, ""
    at = matches[-1].start() if matches else name.rindex("@")
    name, url = name[:at], name[at + 1 :]
    parts = urlsplit(url)
    if not matches or not parts.hostname:
        bare = name.partition("@")[0]
        excerpt = "" if "@" in name else f", got '{url}'"  # otherwise it may be a password
        raise BadSettings(
            f"model '{provider}:{bare}' has an @ but no address after it{excerpt}: write "
            f"{provider}:NAME@http://HOST/v1, with http:// or https:// (is the variable with the "
            "address set?)."
        )
    if "@" in parts.netloc or parts.query:
        raise BadSettings(
            f"the address of model '{provider}:{name}' has "
            f"{'a password' if '@' in parts.netloc else 'a query'}, which would be stored with "
            f"the run: leave it out, and set the key as {key}."
        )
    url = ENDPOINT.sub("", url)
    # Anthropic's client adds the version too.
    return name, url.rstrip("/").removesuffix("/v1") if provider.endswith("anthropic") else url


def _client_options(provider: str, settings: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the options of a provider's client; `key` names the variable with the API key."""
    from emend.agents.providers.environment import clean_key

    options = API_DEFAULTS | {OWN_RETRIES: 0}
    # OpenAI-compatible servers report the tokens of a stream only on request.
    if provider == "openai" and settings.get("streaming"):
        options["stream_usage"] = True
    options |= settings
    api_key = settings.get("api_key") or os.environ[key]
    if isinstance(api_key, str):
        place = "model.api_key" if settings.get("api_key") else key
        options["api_key"] = clean_key(api_key, place)
    return {
        name: value
        for name, value in options.items()
        if value is not None and name not in DEFAULT_BOUNDS
    }


def _api(provider: str, name: str, settings: dict[str, Any]) -> "BaseChatModel":
    key = f"{provider.upper()}_API_KEY"
    if not name:
        raise BadSettings(f"model '{provider}:' names no model: write {provider}:NAME.")
    if importlib.util.find_spec(f"langchain_{provider}") is None:
        raise MissingExtra(
            f"model '{provider}:{name}' needs a package: {install_command(provider)}."
        )
    if not os.environ.get(key) and not settings.get("api_key"):
        raise BadSettings(
            f"model '{provider}:{name}' needs a key, and {key} is not set: export {key}=..."
        )
    from langchain.chat_models import init_chat_model

    from emend.agents.providers.http_client import bound_exchanges

    seconds, megabytes = (
        parse_bound(name, settings.get(name, DEFAULT_BOUNDS[name])) for name in DEFAULT_BOUNDS
    )
    options = _client_options(provider, settings, key)
    try:
        # a warning about unknown settings, which are rejected below
        with warnings.catch_warnings(action="ignore"):
            model: BaseChatModel = init_chat_model(name, model_provider=provider, **options)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise BadSettings(
            f"model '{provider}:{name}' rejects its settings ({', '.join(sorted(options))}): "
            f"{reason}"
        ) from error
    _refuse_unknown(model, f"{provider}:{name}", options)
    if "http_client" not in settings:
        bound_exchanges(model, provider, seconds=seconds, max_bytes=int(megabytes * 1e6))
    return model


def refuse_own_retries(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse a client's own number of retries, which would multiply Emend's.

    Raises:
        BadSettings: the setting is given.
    """
    if OWN_RETRIES in settings:
        raise BadSettings(
            f"setting '{OWN_RETRIES}' of model '{name}' has no effect, since Emend retries calls "
            "itself: leave it out; 'deadline' limits the seconds of a call with its retries."
        )


def parse_bound(setting: str, value: Any) -> float:
    """Return the value of a limit as a number.

    Raises:
        BadSettings: it is not a number above 0.
    """
    if isinstance(value, (int, float)) and 0 < value < math.inf:
        return float(value)
    raise BadSettings(f"setting '{setting}' is {value!r}: give a number above 0.")


def _refuse_unknown(model: "BaseChatModel", name: str, options: dict[str, Any]) -> None:
    """Reject settings that a client would pass on, so that every call would fail."""
    passed_on = set(getattr(model, "model_kwargs", None) or {}) - set(
        options.get("model_kwargs") or {}
    )
    for setting in sorted(passed_on & set(options)):
        known = sorted(type(model).model_fields)
        place = "extra_body" if "extra_body" in known else "model_kwargs"
        raise BadSettings(
            f"unknown setting '{setting}' of model '{name}': {nearest(setting, known)} Give a "
            f'parameter of the server itself in {place}={{"{setting}": ...}}.'
        )
