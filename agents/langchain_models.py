"""Chat models of any provider that LangChain's `init_chat_model` supports:
`langchain:PROVIDER:NAME`.
"""

import re
import warnings
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from emend.agents.api_models import (
    API_DEFAULTS,
    DEFAULT_BOUNDS,
    OWN_RETRIES,
    parse_bound,
    split_address,
)
from emend.agents.llm import SUPPORTED, provider_names
from emend.agents.providers.environment import clean_keys
from emend.agents.providers.http_client import bound_exchanges
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

# Providers for whose clients `bound_exchanges` can limit time and size; others only have their own
# timeout.
BOUNDED = ("openai", "anthropic")
_PACKAGE = re.compile(r"pip install ([\w.-]+)")


def load_langchain(name: str, **settings: Any) -> BaseChatModel:
    """Load a provider's model with LangChain's class for it.

    Sets temperature 0, the timeout and no client retries, where the class has these settings.

    Args:
        name: `PROVIDER:NAME`, or `PROVIDER:NAME@URL` for a class with the setting `base_url`.
        settings: the settings of the class, and `deadline` as for all API models.

    Raises:
        BadSettings: a missing name or key, or an unknown provider or setting.
        MissingExtra: the provider's package is not installed; names it.
    """
    provider, _, model = name.partition(":")
    provider, spec = provider.replace("-", "_").lower(), f"langchain:{name}"
    if not provider or not model:
        raise BadSettings(
            f"model '{spec}': write langchain:PROVIDER:NAME, for example "
            "langchain:google_genai:NAME."
        )
    model, url = split_address(f"langchain:{provider}", model, f"{provider.upper()}_API_KEY")
    options = {key: value for key, value in settings.items() if key not in DEFAULT_BOUNDS}
    options |= {"base_url": url} if url else {}
    trial = _make(provider, model, spec, options)
    known = _settings_of(type(trial))
    _refuse_unknown(spec, options, known)
    options |= clean_keys(trial, spec)
    defaults = {
        key: value for key, value in (API_DEFAULTS | {OWN_RETRIES: 0}).items() if key in known
    }
    options = {key: value for key, value in (defaults | options).items() if value is not None}
    client = _make(provider, model, spec, options)
    seconds, megabytes = (
        parse_bound(name, settings.get(name, DEFAULT_BOUNDS[name]))
        for name in ("deadline", "reply_mb")
    )
    if provider in BOUNDED:
        bound_exchanges(client, provider, seconds=seconds, max_bytes=int(megabytes * 1e6))
    return client


def _make(provider: str, model: str, spec: str, options: dict[str, Any]) -> BaseChatModel:
    try:
        # a warning about unknown settings, which are rejected below
        with warnings.catch_warnings(action="ignore"):
            client: BaseChatModel = init_chat_model(model, model_provider=provider, **options)
    except ImportError as error:
        package = _PACKAGE.search(str(error))
        raise MissingExtra(
            _missing(spec, package[1] if package else f"langchain-{provider}")
        ) from error
    except Exception as error:  # noqa: BLE001
        # Clients raise their own errors for keys and settings. Without langchain-ollama, LangChain
        # looks for its class in langchain_community.
        if "langchain_community" in str(error):
            raise MissingExtra(_missing(spec, f"langchain-{provider}")) from error
        if SUPPORTED.search(str(error)):
            known = nearest(provider, list(provider_names()))
            raise BadSettings(
                f"model '{spec}': LangChain knows no such provider: {known}"
            ) from error
        reason = hide_keys(" ".join(str(error).split()))[:300]
        raise BadSettings(
            f"model '{spec}' cannot be made ({type(error).__name__}): {reason}"
        ) from error
    return client


def _missing(spec: str, package: str) -> str:
    return f"model '{spec}' needs a package: pip install {package}."


def _settings_of(kind: type[BaseChatModel]) -> set[str]:
    """Return the names and aliases of a class's settings."""
    return {
        name for field, info in kind.model_fields.items() for name in (field, info.alias) if name
    }


def _refuse_unknown(spec: str, options: dict[str, Any], known: set[str]) -> None:
    """Reject settings that a class would ignore, or pass on so that every call fails."""
    for setting in options:
        if setting not in known:
            raise BadSettings(
                f"unknown setting '{setting}' of model '{spec}': {nearest(setting, sorted(known))}"
            )
