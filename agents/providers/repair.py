"""Puts right what clients make of a reply: a tool call that they fail over, a usage of nulls, two messages glued."""

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage
from pydantic import ValidationError

from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.redaction import hide_keys

_TOKENS = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
CALLS = ("tool_calls", "invalid_tool_calls")
HOLDING = ("response", "data")
"""What clients call the provider's reply while they read it."""


def unreadable_call(error: Exception) -> ModelReplyError | None:
    """The error to raise where a client failed over a tool call that is none; None for any other error.

    Some models give a list, or JSON within JSON, as the arguments; such a reply came, and it was paid for.
    """
    if not isinstance(error, ValidationError):
        return None
    wrong = [one for one in error.errors(include_url=False) if one["loc"] and one["loc"][0] in CALLS]
    if not wrong:
        return None
    reply = "\n".join(_written(one["input"]) for one in wrong)
    where = ".".join(str(part) for part in wrong[0]["loc"])
    return ModelReplyError(
        f"expected a tool call whose arguments are a JSON object, at '{where}' stands {hide_keys(reply)[:200]!r}.",
        reply,
        _usage_left(error),
    )


def _written(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)


def _usage_left(error: BaseException) -> Usage:
    """What the reply cost that a client failed over and dropped: only the frames of its error still hold it."""
    trace = error.__traceback__
    while trace is not None:
        for name in HOLDING:
            used = _part(trace.tb_frame.f_locals.get(name), "usage")
            tokens = [_part(used, one) or _part(used, other) for one, other in _TOKENS]
            if all(isinstance(one, int) for one in tokens):
                return Usage(input_tokens=tokens[0], output_tokens=tokens[1], calls=1)
        trace = trace.tb_next
    return Usage(calls=1, untold=1)


def _part(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def mended(message: AIMessage) -> AIMessage:
    """The message with nothing in place of a usage that is none, and with its last text where there are several."""
    used = message.usage_metadata
    said = message.content or message.tool_calls or message.invalid_tool_calls
    if used is not None and said and not used["output_tokens"]:
        message.usage_metadata = None  # clients make zeros of nulls, and a reply of no tokens says nothing
    if isinstance(message.content, list) and not (message.tool_calls or message.invalid_tool_calls):
        message.content = _last_text(message.content)
    return message


def _last_text(blocks: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
    """OpenAI's responses may hold several messages, each with an id: the last is the answer, the others lead to it."""
    ids = [_id_of(block) for block in blocks]
    last = next((one for one in reversed(ids) if one), "")
    return [block for block, one in zip(blocks, ids, strict=True) if not one or one == last]


def _id_of(block: str | dict[str, Any]) -> str:
    """Of a text block; empty for any other."""
    return str(block.get("id") or "") if isinstance(block, dict) and block.get("type") == "text" else ""
