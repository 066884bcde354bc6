"""Requests to a provider through its client: the payload, the settings that affect the reply, and
the call.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel, SecretStr

from emend.agents.parsing.messages import (
    BROKEN_OFF,
    is_complete,
    plain_turn,
    read_finish_reason,
)
from emend.agents.providers.errors.conversion import as_model_error
from emend.agents.providers.errors.rejection import BrokenReply
from emend.agents.providers.plain_completion import complete, is_plain
from emend.agents.providers.repair import (
    UNREADABLE,
    deep_call_error,
    invalid_call_error,
    repaired,
)
from emend.memory.errors import BadSettings
from emend.memory.redaction import hide_keys, refuse_secrets

# Names of the clients' setting for the maximum tokens of a reply.
LIMITS = ("max_tokens", "max_completion_tokens")
# A name and password in an address.
_LOGIN = re.compile(r"//[^/@\s]*@")


def build_payload(
    client: BaseChatModel,
    settings: Mapping[str, Any],
    messages: Sequence[BaseMessage],
    stop: Sequence[str] | None,
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the request as the client will send it, or its input and settings if the client does
    not expose it.

    Args:
        client: the provider's client.
        settings: result of `client_settings`.
        messages: the prompt.
        stop: stop texts of the call, which replace the client's own.
        kwargs: the other arguments of the call.
    """
    build = getattr(client, "_get_request_payload", None)
    if build is not None:
        return _built_payload(client, partial(build, stop=stop, **kwargs), messages)
    prompt = [
        message.model_dump(exclude={"id", "response_metadata", "usage_metadata"})
        for message in messages
    ]
    stops = settings.get("stop") if stop is None else stop
    return {**client._identifying_params, **settings, "messages": prompt, "stop": stops, **kwargs}


def _built_payload(
    client: BaseChatModel,
    build: Callable[[Sequence[BaseMessage]], dict[str, Any]],
    messages: Sequence[BaseMessage],
) -> dict[str, Any]:
    """Return the client's payload; of many plain-text turns the client converts only the first."""
    turns = [plain_turn(message) for message in messages]
    if type(client).__name__ == "ChatOpenAI" and len(turns) > 1 and None not in turns:
        payload = build(messages[:1])
        if "messages" in payload:  # otherwise it is a request of the Responses API
            payload["messages"] = turns
            return payload
    return build(messages)


def client_settings(client: BaseChatModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what affects a client's replies besides a call's arguments: class, fields, constructor
    settings.

    Values that may contain a key are omitted, and other objects are represented by their class, so
    that the result is the same in any process. Fields with a default factory, such as a unique id
    of a client, are omitted too, so that units of a run are found again.
    """
    kind = type(client)
    fields = {
        name: getattr(client, name, None)
        for name, field in kind.model_fields.items()
        if name not in BaseChatModel.model_fields
        and (field.default_factory is None or name in client.model_fields_set)
    }
    return {"class": _name(kind), **_plain(fields | dict(settings))}


def address_of(client: BaseChatModel) -> str:
    """Return the client's server address, from its setting or environment variables."""
    known: Any = client
    address = getattr(known, "openai_api_base", None) or getattr(known, "anthropic_api_url", None)
    return str(address or getattr(getattr(known, "root_client", known), "base_url", ""))


def reply_limit_in(settings: Mapping[str, Any]) -> int:
    """Return the maximum number of new tokens in settings; 0 if there is none."""
    return max(
        (value for name in LIMITS if isinstance(value := settings.get(name), int)), default=0
    )


def secrets_of(client: BaseChatModel) -> list[str]:
    """Return the keys given as settings, to be redacted in messages."""
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
    """Make one attempt with the provider's client; raises the client's errors."""
    streamed = bool(getattr(client, "streaming", False))
    arguments: dict[str, Any] = {
        "stop": None if stop is None else list(stop),
        "run_manager": run_manager,
        **kwargs,
    }
    try:
        if streamed:
            result = generate_from_stream(client._stream(messages, **arguments))
        else:
            plain = is_plain(client, payload)
            result = complete(client, payload) if plain else client._generate(messages, **arguments)
        message = result.generations[0].message
        if not isinstance(message, AIMessage):
            raise TypeError(f"a message of the role '{message.type}'")
    except RecursionError as error:
        raise deep_call_error() from error
    except UNREADABLE as error:
        if (invalid := invalid_call_error(error)) is not None:
            raise invalid from error
        # A TypeError for an unsupported parameter ("unexpected keyword argument") is not an invalid
        # reply.
        if (
            not hasattr(client, "_get_request_payload")
            or as_model_error(error, "")
            or "argument" in str(error)
        ):
            raise
        raise BrokenReply(error) from error
    ending = (result.llm_output or {}) | (result.generations[0].generation_info or {})
    message.response_metadata = ending | message.response_metadata
    _refuse_broken_off(message, client, streamed)
    return repaired(message)


def _refuse_broken_off(message: AIMessage, client: BaseChatModel, streamed: bool) -> None:
    """Raise ConnectionError for an incomplete reply, which clients treat as complete."""
    status = message.response_metadata.get("status")
    has_ending = hasattr(client, "_get_request_payload") and (streamed or status)
    if has_ending and not is_complete(message):
        if status:
            raise ConnectionError(f"the reply is '{status}'")
        raise ConnectionError("the stream broke off before the reply ended")
    if (reason := read_finish_reason(message)).lower() in BROKEN_OFF:
        raise ConnectionError(f"the provider ended the reply early (finish reason '{reason}')")


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
