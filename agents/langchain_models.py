"""Chat models of the providers that LangChain's `init_chat_model` knows: `openai:`, `anthropic:` and `langchain:`."""

import importlib.util
import math
import os
import re
import warnings
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from emend.agents.llm import API_DEFAULTS, DEFAULT_BOUNDS, SUPPORTED, provider_names, split_address
from emend.agents.providers.environment import clean_keys
from emend.agents.providers.http_client import bound_exchanges
from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

BOUNDED = ("openai", "anthropic")
"""Providers to whose clients `bound_exchanges` can set limits of time and size; others have their own timeout alone."""
OWN_RETRIES = "max_retries"
PASSED_ON = ("extra_body", "model_kwargs")
"""Settings of some classes that take further parameters of a request."""
_PACKAGE = re.compile(r"pip install ([\w.-]+)")


def load_openai(name: str, **settings: Any) -> BaseChatModel:
    """Load a chat model of OpenAI, or of any compatible server."""
    return _api("openai", name, settings)


def load_anthropic(name: str, **settings: Any) -> BaseChatModel:
    """Load a chat model of Anthropic, or of a compatible server; replies have at most 4,096 tokens by default."""
    return _api("anthropic", name, {"max_tokens": 4096} | settings)


def _api(provider: str, name: str, settings: dict[str, Any]) -> BaseChatModel:
    key, spec = f"{provider.upper()}_API_KEY", f"{provider}:{name}"
    if not name:
        raise BadSettings(f"model '{spec}' names no model: write {provider}:NAME.")
    if importlib.util.find_spec(f"langchain_{provider}") is None:
        raise MissingExtra(f"model '{spec}' needs a package: {install_command(provider)}.")
    name, url = split_address(provider, name, key)
    if not os.environ.get(key) and not settings.get("api_key"):
        if not url:  # the client requires one, most local servers do not
            raise BadSettings(f"model '{spec}' needs a key, and {key} is not set: export {key}=...")
        settings = {"api_key": "none"} | settings
    if provider == "openai" and settings.get("streaming"):  # compatible servers count its tokens only on request
        settings = {"stream_usage": True} | settings
    return make_client(provider, name, spec, settings | ({"base_url": url} if url else {}))


def load_langchain(name: str, **settings: Any) -> BaseChatModel:
    """Load a model of a provider by LangChain's own class for it.

    Args:
        name: `PROVIDER:NAME`, or `PROVIDER:NAME@URL` for a class with the setting `base_url`.
        settings: those of the class; `deadline` as for all models behind an API.

    Raises:
        BadSettings: no name or no such provider, an unknown setting, or a missing key.
        MissingExtra: the provider's package is not installed; names it.
    """
    provider, _, model = name.partition(":")
    provider, spec = provider.replace("-", "_").lower(), f"langchain:{name}"
    if not provider or not model:
        raise BadSettings(f"model '{spec}': write langchain:PROVIDER:NAME, for example langchain:google_genai:NAME.")
    model, url = split_address(f"langchain:{provider}", model, f"{provider.upper()}_API_KEY")
    return make_client(provider, model, spec, settings | ({"base_url": url} if url else {}))


def make_client(provider: str, model: str, spec: str, settings: dict[str, Any]) -> BaseChatModel:
    """Return the client of a provider's model, by LangChain's class for it.

    Temperature 0, the timeout and no retries of the client's own are set where the class has these settings.

    Raises:
        BadSettings: no such provider, an unknown setting, or a missing key.
        MissingExtra: the provider's package is not installed; names it.
    """
    if settings.get(OWN_RETRIES):
        raise BadSettings("model.max_retries: Emend retries itself, with its own waits; leave the setting out.")
    bounds = {name: _bound(name, settings.get(name, default)) for name, default in DEFAULT_BOUNDS.items()}
    options = {name: value for name, value in settings.items() if name not in DEFAULT_BOUNDS}
    trial = _make(provider, model, spec, options)
    known = {name for field, info in type(trial).model_fields.items() for name in (field, info.alias) if name}
    _refuse_unknown(spec, options, known)
    defaults = {name: value for name, value in (API_DEFAULTS | {OWN_RETRIES: 0}).items() if name in known}
    options = {name: value for name, value in (defaults | options).items() if value is not None}
    client = _make(provider, model, spec, options | clean_keys(trial, spec))
    if provider in BOUNDED:
        bound_exchanges(client, provider, seconds=bounds["deadline"], max_bytes=int(bounds["reply_mb"] * 1e6))
    return client


def _bound(setting: str, value: Any) -> float:
    if isinstance(value, (int, float)) and 0 < value < math.inf:
        return float(value)
    raise BadSettings(f"model.{setting} is {value!r}: give a number above 0.")


def _make(provider: str, model: str, spec: str, options: dict[str, Any]) -> BaseChatModel:
    try:
        with warnings.catch_warnings(action="ignore"):  # about unknown settings, which are refused
            client: BaseChatModel = init_chat_model(model, model_provider=provider, **options)
    except ImportError as error:
        package = _PACKAGE.search(str(error))
        raise MissingExtra(_missing(spec, package[1] if package else f"langchain-{provider}")) from error
    except Exception as error:  # noqa: BLE001  clients have errors of their own for keys and settings
        if "langchain_community" in str(error):  # where LangChain looks for ollama's class without its package
            raise MissingExtra(_missing(spec, f"langchain-{provider}")) from error
        if SUPPORTED.search(str(error)):
            known = nearest(provider, list(provider_names()))
            raise BadSettings(f"model '{spec}': LangChain knows no such provider: {known}") from error
        reason = hide_keys(" ".join(str(error).split()))[:300]
        raise BadSettings(
            f"model '{spec}' refuses its settings or environment ({type(error).__name__}): {reason}"
        ) from error
    return client


def _missing(spec: str, package: str) -> str:
    return f"model '{spec}' needs a package: pip install {package}."


def _refuse_unknown(spec: str, options: dict[str, Any], known: set[str]) -> None:
    """Refuse settings that a class ignores, or passes on unread so that every call failed."""
    for setting in sorted(options.keys() - known):
        place = next((name for name in PASSED_ON if name in known), "")
        hint = f' A parameter of the server\'s own goes into model.{place}={{"{setting}": ...}}.' if place else ""
        raise BadSettings(f"unknown setting '{setting}' of model '{spec}': {nearest(setting, sorted(known))}{hint}")
