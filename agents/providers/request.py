"""Request to a provider through its client: the payload, settings that decide the reply, and the call itself."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel, SecretStr

from emend.agents.parsing.messages import BROKEN_OFF, is_complete, read_finish_reason
from emend.agents.providers.errors import BrokenReply, as_model_error
from emend.agents.providers.plain_completion import complete, is_plain
from emend.agents.providers.repair import UNREADABLE, invalid_call_error, repaired
from emend.memory.errors import BadSettings
from emend.memory.redaction import hide_keys, refuse_secrets

LIMITS = ("max_tokens", "max_completion_tokens")
"""Settings under which clients take the limit of a reply's tokens."""
_LOGIN = re.compile(r"//[^/@\s]*@")
"""A name and password in an address."""


def build_payload(
    client: BaseChatModel,
    settings: Mapping[str, Any],
    messages: Sequence[BaseMessage],
    stop: Sequence[str] | None,
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the request as the client will send it; where a client does not show it, its input and its settings.

    Args:
        client: the provider's.
        settings: result of `client_settings`.
        messages: the prompt.
        stop: stop texts of the call, which replace the client's own.
        kwargs: the other arguments of the call.
    """
    build = getattr(client, "_get_request_payload", None)
    if build is not None:
        payload: dict[str, Any] = build(messages, stop=stop, **kwargs)
        return payload
    prompt = [message.model_dump(exclude={"id", "response_metadata", "usage_metadata"}) for message in messages]
    stops = settings.get("stop") if stop is None else stop
    return {**client._identifying_params, **settings, "messages": prompt, "stop": stops, **kwargs}


def client_settings(client: BaseChatModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides the replies of any client besides a call's arguments: class, fields, constructor settings.

    Without values that may hold a key, and with the class alone of values that are not plain, which is the same in any
    process. Fields with a factory, such as a number of each client's own, are left out: units of a run have to be found
    again.
    """
    kind = type(client)
    fields = {
        name: getattr(client, name, None)
        for name, field in kind.model_fields.items()
        if name not in BaseChatModel.model_fields and (field.default_factory is None or name in client.model_fields_set)
    }
    return {"class": _name(kind), **_plain(fields | dict(settings))}


def address_of(client: BaseChatModel) -> str:
    """Return the address that the client asks: its setting, or that of its environment variables."""
    known: Any = client
    address = getattr(known, "openai_api_base", None) or getattr(known, "anthropic_api_url", None)
    return str(address or getattr(getattr(known, "root_client", known), "base_url", ""))


def reply_limit_in(settings: Mapping[str, Any]) -> int:
    """Return the maximum of new tokens in settings; 0 without one."""
    return max((value for name in LIMITS if isinstance(value := settings.get(name), int)), default=0)


def secrets_of(client: BaseChatModel) -> list[str]:
    """Return keys that were given as settings, to be hidden in messages."""
    values = [getattr(client, name, None) for name in type(client).model_fields]
    return [value.get_secret_value() for value in values if isinstance(value, SecretStr)]


def call_once(
    client: BaseChatModel,
    messages: list[BaseMessage],
    stop: Sequence[str] | None,
    run_manager: Any,
    kwargs: dict[str, Any],
    payload: dict[str, Any],
) -> AIMessage:
    """Make one attempt through the provider's client, whose call `build_payload` makes; raises what that raises."""
    streamed = bool(getattr(client, "streaming", False))
    arguments: dict[str, Any] = {"stop": None if stop is None else list(stop), "run_manager": run_manager, **kwargs}
    try:
        if streamed:
            result = generate_from_stream(client._stream(messages, **arguments))
        else:
            plain = is_plain(client, payload)
            result = complete(client, payload) if plain else client._generate(messages, **arguments)
        message = result.generations[0].message
    except UNREADABLE as error:
        if (invalid := invalid_call_error(error)) is not None:
            raise invalid from error
        # A parameter that the client does not take ("unexpected keyword argument") is no reply.
        if not hasattr(client, "_get_request_payload") or as_model_error(error, "") or "argument" in str(error):
            raise
        raise BrokenReply(error) from error
    assert isinstance(message, AIMessage)
    ending = (result.llm_output or {}) | (result.generations[0].generation_info or {})
    message.response_metadata = ending | message.response_metadata
    status = message.response_metadata.get("status")
    if hasattr(client, "_get_request_payload") and (streamed or status) and not is_complete(message):
        # Clients take it for the whole.
        raise ConnectionError(f"the reply is '{status}'" if status else "the stream broke off before the reply ended")
    if (reason := read_finish_reason(message)).lower() in BROKEN_OFF:
        raise ConnectionError(f"the provider broke the reply off (finish reason '{reason}')")
    return repaired(message)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (str, Path)):
        return _LOGIN.sub("//", hide_keys(str(value)))
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items() if not _secret(str(name))}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, BaseModel):
        return {"class": _name(type(value)), **_plain(dict(value))}
    return _name(value if callable(value) and hasattr(value, "__qualname__") else type(value))


def _name(thing: Any) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def _secret(name: str) -> bool:
    try:
        refuse_secrets({name: None}, "model")
    except BadSettings:
        return True
    return False
