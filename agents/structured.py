"""Structured replies from any model, with the provider's structured output or JSON in the text;
also plain replies.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel

from emend.agents.parsing.messages import (
    ReplySchema,
    answer_text,
    cut_off_error,
    parse_message,
    read_usage,
    refusal_error,
    was_cut_off,
)
from emend.agents.providers.errors.conversion import as_model_error
from emend.agents.providers.errors.rejection import find_status, provider_text
from emend.agents.scoring import has_limit
from emend.memory.errors import (
    BadGeneration,
    ModelReplyError,
    ReplyCutOff,
    ReplyRefused,
    RequestRefused,
)
from emend.memory.probe import Usage

T = TypeVar("T", bound=BaseModel)

# Errors without retry: another reply would not be better, or was already requested.
FINAL = (ReplyRefused, ReplyCutOff, BadGeneration)
# Minimum limit of new tokens for a local model, unless a caller needs more.
NEW_TOKENS = 256
FORM = "Reply with one JSON object of this form and nothing else: {form}"
AGAIN = "That reply could not be read: {problem} {form}"


class Structured(NamedTuple, Generic[T]):
    """A reply as an instance of the schema, its raw text, and the usage of all attempts."""

    value: T
    reply: str
    usage: Usage


def ask_structured(
    model: BaseChatModel,
    prompt: str | Sequence[BaseMessage],
    schema: type[T],
    *,
    retries: int = 1,
    new_tokens: int = NEW_TOKENS,
) -> Structured[T]:
    """Return the model's reply in the schema; after an unparsable reply, ask again and state the
    problem.

    Providers with structured output enforce the schema. Any other model gets the format in its
    prompt, and the JSON is extracted from its text, ignoring fences, reasoning and prose.

    Args:
        model: any chat model.
        prompt: text or messages.
        schema: pydantic class of the reply.
        retries: attempts after an unparsable reply; refusals, truncated replies and replies that
            the provider found unusable twice are not retried.
        new_tokens: minimum token limit of a local model, whose default is meant for short answers.

    Raises:
        ModelReplyError: no reply could be parsed, or the reply has two different values; carries
            the last reply, and the usage of all.
        ModelError: the call failed.
    """
    messages: list[BaseMessage] = (
        [HumanMessage(prompt)] if isinstance(prompt, str) else list(prompt)
    )
    form, usage = ReplySchema(schema), Usage()
    for left in range(retries, -1, -1):
        counted = False
        try:
            message = _ask(model, messages, form, new_tokens)
            usage, counted = usage.plus(read_usage(message)), True
            value = parse_message(message, form)
        except ModelReplyError as error:
            error.usage = usage = usage if counted else usage.plus(error.usage)
            if not left or isinstance(error, FINAL):
                raise
            messages = [
                *messages,
                AIMessage(error.reply.strip() or "(no reply)"),
                _again(error, form),
            ]
        else:
            return Structured(value, form.read_reply(message), usage)
    raise AssertionError("the last attempt returns or raises")


def ask_in_words(model: BaseChatModel, messages: Sequence[BaseMessage]) -> tuple[str, Usage]:
    """Return the model's reply as text, without a reasoning model's thoughts, and the usage.

    Args:
        model: any chat model.
        messages: the prompt.

    Raises:
        ModelReplyError: the model declined, was cut off, or returned only thoughts.
        ModelError: the call failed.
    """
    try:
        message = model.invoke(list(messages), **_room(model, NEW_TOKENS))
    except Exception as error:
        raise _known(error, model) from error
    if (refusal := refusal_error(message)) is not None:
        raise refusal
    text = answer_text(message)
    if was_cut_off(message):
        raise cut_off_error(message, text)
    return text, read_usage(message)


def supports_structure(model: BaseChatModel) -> bool:
    """Return whether the model's class implements structured output or tools."""
    setting = getattr(model, "supports_structure", None)
    if setting is not None:
        return bool(setting)
    kind = type(model)
    return kind.with_structured_output is not BaseChatModel.with_structured_output or (
        kind.bind_tools is not BaseChatModel.bind_tools
    )


def _again(error: ModelReplyError, schema: ReplySchema[Any]) -> HumanMessage:
    return HumanMessage(AGAIN.format(problem=error, form=FORM.format(form=schema.form)))


def _ask(
    model: BaseChatModel, messages: list[BaseMessage], schema: ReplySchema[Any], new_tokens: int
) -> AIMessage:
    try:
        if supports_structure(model):
            try:
                return _ask_natively(model, messages, schema)
            except RequestRefused as error:  # a compatible server that supports only chat
                if not _about_structure(error):
                    raise
                if hasattr(model, "supports_structure"):
                    model.supports_structure = False  # do not try structured output again
        return _ask_in_text(model, messages, schema, new_tokens)
    except Exception as error:
        raise _known(error, model) from error


def _known(error: Exception, model: BaseChatModel) -> Exception:
    """Convert an error with a known cause to Emend's; return other errors unchanged."""
    return as_model_error(error, type(model).__name__) or error


def _room(model: BaseChatModel, new_tokens: int) -> dict[str, Any]:
    """Return options that raise a local model's token limit."""
    if not has_limit(model):
        return {}
    return {"stop": [], "max_new_tokens": max(new_tokens, model.max_new_tokens)}


def _ask_natively(
    model: BaseChatModel, messages: list[BaseMessage], schema: ReplySchema[Any]
) -> AIMessage:
    # Passed as a dict: with a pydantic class some clients raise an error on invalid JSON, and the
    # reply and usage are lost.
    result: Any = model.with_structured_output(schema.json_schema, include_raw=True).invoke(
        messages
    )
    message: AIMessage = result["raw"]
    return message


def _about_structure(error: Exception) -> bool:
    # llama.cpp returns status 500 without tools
    text = provider_text(error) if find_status(error) in (400, 422, 500) else ""
    return any(
        word in text
        for word in ("response_format", "json_schema", "tool", "output_config", "structured")
    )


def _ask_in_text(
    model: BaseChatModel, messages: list[BaseMessage], schema: ReplySchema[Any], new_tokens: int
) -> AIMessage:
    return model.invoke(_with_form(messages, schema), **_room(model, new_tokens))


def _with_form(messages: list[BaseMessage], schema: ReplySchema[Any]) -> list[BaseMessage]:
    """Append the format to the first user message; a single message stays single."""
    for at, message in enumerate(messages):
        if isinstance(message, HumanMessage):
            text = f"{message.text}\n\n{FORM.format(form=schema.form)}\n"
            return [*messages[:at], HumanMessage(text), *messages[at + 1 :]]
    return [*messages, HumanMessage(FORM.format(form=schema.form))]
