"""Repair of irregular replies in clients: invalid tool calls, null usage, several messages joined
to one.
"""

import json
import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from pydantic import ValidationError

from emend.agents.parsing.messages import REASONING, read_usage
from emend.memory.errors import BadGeneration, ModelReplyError
from emend.memory.json_files import DEPTH_LIMIT, is_too_deep, replace_in_all
from emend.memory.probe import Usage
from emend.memory.redaction import hide_keys

TOKENS = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
# Maximum plausible number of tokens.
MOST_TOKENS = 10**12
CALLS = ("tool_calls", "invalid_tool_calls")
# Client errors for an unexpected body, such as an HTML page or an error with status 200.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)
# Methods of the OpenAI and Anthropic clients that convert a response into a message.
READERS = ("_create_chat_result", "_format_output")


def attach_responses(client: BaseChatModel) -> None:
    """Attach the provider's response to parsing errors of the client (`response`), and reasoning to
    messages.

    A response with a usage but without choices then raises `BadGeneration`.
    """
    for name in READERS:
        read = getattr(client, name, None)
        if read is not None and not hasattr(read, "__wrapped__"):
            # pydantic only allows fields as attributes
            object.__setattr__(client, name, _attaching(read))


def _attaching(read: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(read)
    def wrapper(response: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            _part(response, "choices", [None]) in ([], None)
            and _part(response, "usage")
            and not _part(response, "error")
        ):
            raise BadGeneration(
                "expected a reply, and it has no choices, twice.", "", _usage_of_response(response)
            )
        try:
            result = read(response, *args, **kwargs)
        except UNREADABLE as error:
            error.response = response  # type: ignore[union-attr]
            raise
        _attach_reasoning(response, result)
        return result

    return wrapper


def _attach_reasoning(response: Any, result: Any) -> None:
    """Add the response's thoughts, which clients drop, to messages without content."""
    for generation, choice in zip(
        getattr(result, "generations", ()), _part(response, "choices") or (), strict=False
    ):
        reply = _part(choice, "message")
        thoughts = next(
            (text for name in REASONING if isinstance(text := _part(reply, name), str) and text), ""
        )
        if thoughts and not generation.message.content:
            generation.message.additional_kwargs.setdefault(REASONING[0], thoughts)


def invalid_call_error(error: Exception) -> ModelReplyError | None:
    """Return the error for a client failure caused by an invalid tool call, or None for any other
    error.

    Some models return a list, or JSON within JSON, as arguments; such a reply was delivered and
    paid for.
    """
    if not isinstance(error, ValidationError):
        return None
    wrong = [
        part for part in error.errors(include_url=False) if part["loc"] and part["loc"][0] in CALLS
    ]
    if not wrong:
        return None
    reply = "\n".join(_as_text(part["input"]) for part in wrong)
    where = ".".join(str(part) for part in wrong[0]["loc"])
    return ModelReplyError(
        f"expected a tool call whose arguments are a JSON object, at '{where}' stands "
        f"{hide_keys(reply)[:200]!r}.",
        reply,
        _usage_of_response(getattr(error, "response", None)),
    )


def deep_call_error(usage: Usage | None = None) -> ModelReplyError:
    """Return the error for arguments that are nested too deeply; the usage is unknown if it was the
    client that could not read them.
    """
    return ModelReplyError(
        "expected a tool call whose arguments are a JSON object, and they are nested more than "
        f"{DEPTH_LIMIT} levels deep.",
        "",
        usage or Usage(calls=1, untold=1),
    )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _usage_of_response(response: Any) -> Usage:
    """Return the tokens of a provider's response: an object, a mapping, or an HTTP response with a
    JSON body.
    """
    body = (
        response.json()
        if callable(getattr(response, "json", None)) and hasattr(response, "headers")
        else response
    )
    usage = _part(body, "usage")
    tokens = [_part(usage, name) or _part(usage, other) for name, other in TOKENS]
    if all(isinstance(number, int) for number in tokens):
        return Usage(input_tokens=tokens[0], output_tokens=tokens[1], calls=1)
    return Usage(calls=1, untold=1)


def _part(thing: Any, name: str, default: Any = None) -> Any:
    return thing.get(name, default) if isinstance(thing, Mapping) else getattr(thing, name, default)


def repaired(message: AIMessage) -> AIMessage:
    """Return the message without null usage and lone surrogates, and with only the last of several
    texts.

    Raises:
        ModelReplyError: the arguments of a tool call are nested too deeply to be processed.
    """
    if is_too_deep([call["args"] for call in message.tool_calls]):
        raise deep_call_error(read_usage(message))
    _replace_surrogates(message)
    used = message.usage_metadata
    if used is not None and used["total_tokens"] > used["input_tokens"] + used["output_tokens"]:
        # Some servers (Grok, Gemini) count tokens of thoughts only in the total, and bill them.
        message.usage_metadata = used = {
            **used,
            "output_tokens": used["total_tokens"] - used["input_tokens"],
        }
    has_content = message.content or message.tool_calls or message.invalid_tool_calls
    if used is not None and has_content and not used["output_tokens"]:
        # clients convert nulls to zeros, but a reply with content has tokens
        message.usage_metadata = None
    if isinstance(message.content, list) and not (message.tool_calls or message.invalid_tool_calls):
        message.content = _last_text(message.content)
    return message


def _replace_surrogates(message: AIMessage) -> None:
    parts = {
        name: getattr(message, name)
        for name in ("content", "additional_kwargs", "response_metadata", *CALLS)
    }
    whole = replace_in_all(parts)
    if whole != parts:
        for name, part in whole.items():
            setattr(message, name, part)
        logging.getLogger(__name__).warning(
            "half surrogate pairs are replaced by U+FFFD in a model's reply"
        )


def _last_text(blocks: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
    """Keep the last text: OpenAI's responses may contain several messages, each with an id, of
    which the last is the answer.
    """
    ids = [_id_of(block) for block in blocks]
    last = next((block_id for block_id in reversed(ids) if block_id), "")
    return [
        block
        for block, block_id in zip(blocks, ids, strict=True)
        if not block_id or block_id == last
    ]


def _id_of(block: str | dict[str, Any]) -> str:
    """Return the id of a text block; "" for any other."""
    return (
        str(block.get("id") or "")
        if isinstance(block, dict) and block.get("type") == "text"
        else ""
    )


def replace_usage(body: Any) -> bool:
    """Replace a usage with values that are not numbers by zeros; return whether there was one.

    `repaired` treats zeros as unknown, and clients need the fields.
    """
    holders = [body, body.get("response"), body.get("message")] if isinstance(body, dict) else []
    wrong = [
        holder
        for holder in holders
        if isinstance(holder, dict) and not _is_usage(holder.get("usage") or {})
    ]
    for holder in wrong:
        usage = holder["usage"] if isinstance(holder["usage"], dict) else {}
        holder["usage"] = {name: 0 for name in usage if name.endswith("tokens")} or None
    return bool(wrong)


def _is_usage(usage: Any) -> bool:
    return isinstance(usage, dict) and all(
        _is_usage(value) if isinstance(value, dict) else value is None or _is_count(value)
        for name, value in usage.items()
        if name.endswith(("tokens", "details"))
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
