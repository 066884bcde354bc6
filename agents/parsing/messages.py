"""Parsing of model messages: structured output from tool calls or JSON in the text, usage and
finish reason.
"""

import json
import re
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    convert_to_openai_messages,
)
from langchain_core.messages.ai import UsageMetadata
from pydantic import BaseModel, ConfigDict, ValidationError

from emend.agents.parsing.json_objects import json_objects
from emend.agents.parsing.reply_marks import has_reasoning, strip_marks
from emend.memory.errors import ModelReplyError, ReplyCutOff, ReplyRefused
from emend.memory.probe import Usage
from emend.memory.redaction import hide_keys

T = TypeVar("T", bound=BaseModel)

WINDOW = ("model_context_window_exceeded", "model_length")
# Status of a partial response, which usually comes with details.
PARTIAL = "incomplete"
# Finish reasons of replies truncated by the limit of new tokens or the context window.
CUT = ("length", "max_tokens", "max_output_tokens", PARTIAL, *WINDOW)
# Finish reasons of incomplete replies: OpenRouter's, vLLM's and SGLang's, DeepSeek's.
BROKEN_OFF = ("error", "abort", "insufficient_system_resource")
# Metadata key of local models for the number of truncated prompt tokens.
LOCAL_MARK = "cut_tokens"
DECLINED = "refusal"
# Finish reasons of replies stopped by the provider's filter; some servers pass on Gemini's reasons.
FILTERED = re.compile(r"content_?filter|safety|prohibited|recitation|blocklist|spii", re.I)
# Message fields in which servers return a reasoning model's thoughts.
REASONING = ("reasoning_content", "reasoning")
# Keywords that strict structured output rejects; the reply is validated against the full schema
# anyway.
NOT_STRICT = ("minLength", "maxLength", "default", "title", "examples", "uniqueItems", "format")


# Roles of messages that usually are plain text.
ROLES: dict[type[BaseMessage], str] = {HumanMessage: "user", AIMessage: "assistant"}


def plain_turn(message: BaseMessage) -> dict[str, Any] | None:
    """Return a plain-text user or assistant message in OpenAI's format, or None for any other
    message.

    LangChain's general conversion takes twenty times as long, and a multi-turn prompt has dozens of
    messages.
    """
    role = ROLES.get(type(message))
    if role is None or message.name or message.additional_kwargs:
        return None
    if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
        return None
    return {"role": role, "content": message.content} if isinstance(message.content, str) else None


def as_openai(message: BaseMessage) -> dict[str, Any]:
    """Return any message in OpenAI's format.

    Raises:
        ValueError: the format does not support its content; also `KeyError`, `TypeError` and
            `AttributeError`.
    """
    plain = plain_turn(message)
    if plain is not None:
        return plain
    converted: Any = convert_to_openai_messages(message)
    return dict(converted)


class AnyObject(BaseModel):
    """Any JSON object."""

    model_config = ConfigDict(extra="allow")


class ReplySchema(Generic[T]):
    """A pydantic class as JSON schema for a provider, as text for a prompt, and as validator."""

    def __init__(self, schema: type[T]) -> None:
        self.schema = schema

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema; strict where possible, so that providers enforce it."""
        plain = self.schema.model_json_schema()
        strict = _strict(plain)
        if not isinstance(strict, dict):
            return plain
        head = {
            "title": plain.get("title", self.schema.__name__),
            "description": plain.get("description", ""),
        }
        return {**head, **strict, "strict": True}

    @property
    def form(self) -> str:
        """The fields and their types in one line, for prompts."""
        return _form_of_class(self.schema)

    def read_reply(self, message: AIMessage) -> str:
        """Return the raw reply: the text, or else the arguments of the tool calls as JSON."""
        text = str(message.text)
        if text.strip():
            return text
        calls = [json.dumps(call["args"], ensure_ascii=False) for call in message.tool_calls]
        return "\n".join(
            [*calls, *(str(call.get("args") or "") for call in message.invalid_tool_calls)]
        )

    def validate(self, candidate: Any) -> T | str:
        """Return the value, or a description of the problem for a retry."""
        try:
            return self.schema.model_validate(candidate)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the whole"
            return f"the JSON is not as asked, at '{where}': {first['msg']}."


def _strict(node: Any) -> Any:
    """Return the schema with all properties required and no others allowed, or None if an object
    has free keys.
    """
    if isinstance(node, list):
        inside = [_strict(part) for part in node]
        return None if None in inside else inside
    if not isinstance(node, dict):
        return node
    free = node.get("type") == "object" and not node.get("properties")
    if free or "patternProperties" in node:
        return None
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("properties", "$defs"):
            parts = {name: _strict(part) for name, part in value.items()}
            if None in parts.values():
                return None
            out[key] = parts
        elif key not in NOT_STRICT:
            part = value if key in ("enum", "const", "description") else _strict(value)
            if part is None and value is not None:
                return None
            out[key] = part
    if "properties" in out:
        out |= {"required": list(out["properties"]), "additionalProperties": False}
    return out


# cached: pydantic takes longer to generate a schema than a small graph takes to run
@lru_cache(maxsize=256)
def _form_of_class(schema: type[BaseModel]) -> str:
    plain = schema.model_json_schema()
    return _form(plain, plain.get("$defs", {}))


def _form(node: dict[str, Any], named: dict[str, Any]) -> str:
    if "$ref" in node:
        return _form(named.get(str(node["$ref"]).rpartition("/")[2], {}), named)
    if "enum" in node:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in node["enum"])
    if "const" in node:
        return json.dumps(node["const"], ensure_ascii=False)
    if "anyOf" in node:
        return " or ".join(_form(part, named) for part in node["anyOf"])
    if "properties" in node:
        fields = (
            f"{json.dumps(name)}: {_form(part, named)}" for name, part in node["properties"].items()
        )
        return "{" + ", ".join(fields) + "}"
    if node.get("type") == "array":
        return f"[{_form(node.get('items', {}), named)}, ...]"
    note = f"<{node['description']}>" if "description" in node else ""
    return {"integer": "number", "null": "null"}.get(
        str(node.get("type")), f"{node.get('type', 'any')}"
    ) + note


def read_usage(message: AIMessage) -> Usage:
    """Return the usage of a reply; a cached reply has no tokens and does not count as a call."""
    if message.response_metadata.get("cached"):
        return Usage(cached=1)
    used: Any = message.usage_metadata or {}
    retries = max(0, int(message.response_metadata.get("tries", 1)) - 1)
    tokens = {name: used.get(name, 0) for name in ("input_tokens", "output_tokens")}
    return Usage(**tokens, calls=1, retries=retries, untold=int(message.usage_metadata is None))


def count_tokens(read: int, written: int) -> UsageMetadata:
    """Return the usage of a reply in LangChain's format."""
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


def parse_message(message: AIMessage, schema: ReplySchema[T]) -> T:
    """Return the value of a message.

    Raises:
        ReplyRefused: the model declined.
        ReplyCutOff: the reply was truncated and cannot be parsed.
        ModelReplyError: there is no value, or there are two that differ.
    """
    if (refusal := refusal_error(message)) is not None:
        raise refusal
    reply = schema.read_reply(message)
    try:
        if message.tool_calls:
            return _only([call["args"] for call in message.tool_calls], schema, reply)
        return parse_text(reply, schema)
    except ModelReplyError as error:
        if not was_cut_off(message):
            raise
        raise cut_off_error(message, reply, f" ({error})") from error


def parse_any(message: AIMessage, schema: type[BaseModel] | None) -> Any:
    """Return the value of a message for a pydantic class, or any JSON object if the class is None.

    Raises:
        ModelReplyError: see `parse_message`.
    """
    if schema is None:
        return parse_message(message, ReplySchema(AnyObject)).model_extra
    return parse_message(message, ReplySchema(schema))


def parse_text(reply: str, schema: ReplySchema[T]) -> T:
    """Return the value in a text, ignoring the text around it; repeated equal values count as one.

    Raises:
        ModelReplyError: there is no value, or there are two that differ.
    """
    text = strip_marks(reply)
    if not text.strip():
        raise ModelReplyError("expected a JSON object, the reply is empty.", reply)
    candidates = json_objects(text)
    if not candidates:
        raise ModelReplyError("expected a JSON object, the reply holds none that is whole.", reply)
    return _only(candidates, schema, reply)


def _only(candidates: list[dict[str, Any]], schema: ReplySchema[T], reply: str) -> T:
    results = [schema.validate(candidate) for candidate in candidates]
    values = [value for value in results if not isinstance(value, str)]
    if not values:
        raise ModelReplyError(f"{results[-1]}", reply)
    if any(value != values[0] for value in values[1:]):
        raise ModelReplyError(
            f"expected one JSON object, the reply holds {len(values)} that differ.", reply
        )
    return values[0]


def answer_text(message: AIMessage) -> str:
    """Return the reply without a reasoning model's thoughts.

    Raises:
        ModelReplyError: it consists only of thoughts, which is not an (empty) answer; carries the
            whole reply.
    """
    whole = str(message.text)
    answer = strip_marks(whole)
    if has_reasoning(whole) and not answer.strip():
        if was_cut_off(message):
            raise cut_off_error(message, whole, ", within its thoughts")
        raise ModelReplyError("the reply holds thoughts and no answer.", whole, read_usage(message))
    return answer


def refusal_error(message: AIMessage, who: str = "") -> ReplyRefused | None:
    """Return the error for a refusal by the model or the provider's filter, or None for any other
    reply.

    Args:
        message: the reply.
        who: text before the message.
    """
    text, reason = _read_refusal(message), read_finish_reason(message)
    if text is None:
        return None
    excerpt = f": {hide_keys(text)[:200]!r}" if text.strip() else ""
    cause = "the model declined to answer"
    if FILTERED.search(reason):
        cause = f"the provider's content filter stopped the reply (finish reason {reason[:60]})"
    return ReplyRefused(f"{who}{cause}{excerpt}.", text, read_usage(message))


def _read_refusal(message: AIMessage) -> str | None:
    refusal = message.additional_kwargs.get("refusal")
    if refusal:
        return str(refusal)
    content = message.content if isinstance(message.content, list) else []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "refusal":
            return str(block.get("refusal", ""))
    reason = read_finish_reason(message)
    return str(message.text) if reason == DECLINED or FILTERED.search(reason) else None


def reasoning_beside(message: AIMessage) -> str:
    """Return the thoughts in other fields of a message than its content, or ""."""
    fields = message.additional_kwargs
    return next((str(fields[name]) for name in REASONING if fields.get(name)), "")


def was_cut_off(message: AIMessage) -> bool:
    """Return whether the reply was truncated by its limit of new tokens."""
    return read_finish_reason(message).lower() in CUT


def cut_off_error(message: AIMessage, reply: str, detail: str = "", who: str = "") -> ReplyCutOff:
    """Return the error for a reply truncated by a limit, with the remedy for that limit.

    Args:
        message: the reply.
        reply: its text.
        detail: text after the number of tokens.
        who: text before the message.
    """
    usage = read_usage(message)
    remedy = (
        "allow more new tokens: --set model.max_tokens=4096 (of a judge: judge.max_tokens=4096)."
    )
    if read_finish_reason(message) in WINDOW:
        remedy = (
            "the model's window is full: take fewer retrieved entries or a model with a "
            "longer window."
        )
    elif LOCAL_MARK in message.response_metadata:
        remedy = (
            "allow more new tokens: --set model.max_new_tokens=512 (of a judge: "
            "judge.max_new_tokens=512)."
        )
    return ReplyCutOff(
        f"{who}the reply was cut off after {usage.output_tokens} tokens{detail}: {remedy}",
        reply,
        usage,
    )


def is_complete(message: AIMessage) -> bool:
    """Return whether the provider completed the reply; a response may be in progress or
    cancelled.
    """
    status = message.response_metadata.get("status")
    return status in ("completed", PARTIAL) if status else bool(read_finish_reason(message))


def read_finish_reason(message: AIMessage) -> str:
    """Return the provider's finish reason, or ""."""
    metadata = message.response_metadata
    incomplete = metadata.get("incomplete_details") or {}
    reason = incomplete.get("reason") if isinstance(incomplete, dict) else None
    partial = PARTIAL if metadata.get("status") == PARTIAL else ""
    return str(
        reason or partial or metadata.get("finish_reason") or metadata.get("stop_reason") or ""
    )
