"""What a model is asked with, and where: for the key of a kept reply, and for the parameters that a run writes down."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from emend.memory.errors import BadSettings
from emend.memory.redaction import hide_keys, refuse_secrets

LIMITS = ("max_tokens", "max_completion_tokens")
"""Settings under which clients take the limit of a reply's tokens."""
_LOGIN = re.compile(r"//[^/@\s]*@")
"""A name and password in an address."""


def payload_of(
    inner: BaseChatModel,
    held: Mapping[str, Any],
    messages: Sequence[BaseMessage],
    stop: Sequence[str] | None,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """The request as the client will send it; for a client that does not tell, what it is given and what it holds.

    Args:
        inner: the client.
        held: as `held_by` has it.
        messages: what is asked.
        stop: the stop texts of the call, which take the place of the client's own.
        more: the other arguments of the call.
    """
    build = getattr(inner, "_get_request_payload", None)
    if build is not None:
        payload: dict[str, Any] = build(messages, stop=stop, **more)
        return payload
    said = [message.model_dump(exclude={"id", "response_metadata", "usage_metadata"}) for message in messages]
    stops = held.get("stop") if stop is None else stop
    return {**inner._identifying_params, **held, "messages": said, "stop": stops, **more}


def held_by(inner: BaseChatModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the replies of any client besides a call's arguments: its class, its fields, what it was made with.

    What may hold a key is left out; of what is no plain value only the class is told, which is the same in any process;
    and of what was made for each model, such as a number of its own, nothing: units of a run have to be found again.
    """
    own = type(inner)
    fields = {
        name: getattr(inner, name, None)
        for name, field in own.model_fields.items()
        if name not in BaseChatModel.model_fields and (field.default_factory is None or name in inner.model_fields_set)
    }
    return {"class": _name(own), **_plain(fields | dict(settings))}


def address_of(inner: BaseChatModel) -> str:
    """Where the client asks: as it was told, or as its own variables of the environment have it."""
    asked: Any = inner
    told = getattr(asked, "openai_api_base", None) or getattr(asked, "anthropic_api_url", None)
    return str(told or getattr(getattr(asked, "root_client", None), "base_url", ""))


def limit_in(settings: Mapping[str, Any]) -> int:
    """The limit of a reply's tokens that stands in settings; 0 where there is none."""
    told = [value for name in LIMITS if isinstance(value := settings.get(name), int)]
    return max(told, default=0)


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
