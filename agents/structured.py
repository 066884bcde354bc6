"""Replies in a schema from any model: by the provider's structured output, or by JSON in the text of the reply."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel

from emend.agents.parsing.messages import ReplySchema, parse_message, read_usage
from emend.agents.providers.errors import as_model_error, find_status, provider_text
from emend.agents.scoring import LimitedModel
from emend.memory.errors import ModelReplyError, ReplyCutOff, ReplyRefused, RequestRefused
from emend.memory.probe import Usage

T = TypeVar("T", bound=BaseModel)

NEW_TOKENS = 256
"""Minimum of new tokens for a local model, unless a caller needs more."""
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
    """Return the model's reply in the schema; an unparsable reply is asked for again, with the problem.

    Providers with structured output enforce the schema. Any other model gets the form in its prompt, and its JSON is
    parsed out of the text, also from between fences, reasoning and prose.

    Args:
        model: any chat model.
        prompt: text or messages.
        schema: pydantic class of the reply.
        retries: attempts after an unparsable reply; refusals and replies cut off are never asked for again.
        new_tokens: minimum of the limit of a local model, whose own is meant for an answer of a few words.

    Raises:
        ModelReplyError: no reply could be parsed, or it has two values that differ; carries the last reply, and the
            usage of all.
        ModelError: the call failed.
    """
    messages: list[BaseMessage] = [HumanMessage(prompt)] if isinstance(prompt, str) else list(prompt)
    form, usage = ReplySchema(schema), Usage()
    for left in range(retries, -1, -1):
        counted = False
        try:
            message = _ask(model, messages, form, new_tokens)
            usage, counted = usage.plus(read_usage(message)), True
            value = parse_message(message, form)
        except ModelReplyError as error:
            error.usage = usage = usage if counted else usage.plus(error.usage)
            if not left or isinstance(error, (ReplyRefused, ReplyCutOff)):
                raise
            messages = [*messages, AIMessage(error.reply.strip() or "(no reply)"), _again(error, form)]
        else:
            return Structured(value, form.read_reply(message), usage)
    raise AssertionError("the last attempt returns or raises")


def supports_structure(model: BaseChatModel) -> bool:
    """Return whether the model's class has structured output, or tools, of its own."""
    setting = getattr(model, "supports_structure", None)
    if setting is not None:
        return bool(setting)
    kind = type(model)
    return kind.with_structured_output is not BaseChatModel.with_structured_output or (
        kind.bind_tools is not BaseChatModel.bind_tools
    )


def _again(error: ModelReplyError, schema: ReplySchema[Any]) -> HumanMessage:
    return HumanMessage(AGAIN.format(problem=error, form=FORM.format(form=schema.form)))


def _ask(model: BaseChatModel, messages: list[BaseMessage], schema: ReplySchema[Any], new_tokens: int) -> AIMessage:
    try:
        if supports_structure(model):
            try:
                return _ask_natively(model, messages, schema)
            except RequestRefused as error:  # a compatible server that knows chat and no more
                if not _about_structure(error):
                    raise
                if hasattr(model, "supports_structure"):
                    model.supports_structure = False  # do not try again
        return _ask_in_text(model, messages, schema, new_tokens)
    except Exception as error:
        known = as_model_error(error, type(model).__name__)
        if known is None or known is error:
            raise
        raise known from error


def _ask_natively(model: BaseChatModel, messages: list[BaseMessage], schema: ReplySchema[Any]) -> AIMessage:
    # As a dict: with a pydantic class some clients raise on bad JSON, and reply and usage are lost.
    result: Any = model.with_structured_output(schema.json_schema, include_raw=True).invoke(messages)
    message: AIMessage = result["raw"]
    return message


def _about_structure(error: Exception) -> bool:
    text = provider_text(error) if find_status(error) in (400, 422, 500) else ""  # 500 of llama.cpp without tools
    return any(word in text for word in ("response_format", "json_schema", "tool", "output_config", "structured"))


def _ask_in_text(
    model: BaseChatModel, messages: list[BaseMessage], schema: ReplySchema[Any], new_tokens: int
) -> AIMessage:
    options: dict[str, Any] = {}
    if isinstance(model, LimitedModel):
        options = {"stop": [], "max_new_tokens": max(new_tokens, model.max_new_tokens)}
    return model.invoke(_with_form(messages, schema), **options)


def _with_form(messages: list[BaseMessage], schema: ReplySchema[Any]) -> list[BaseMessage]:
    """Messages with the form at the end of the user's first one; a single message stays single."""
    for at, message in enumerate(messages):
        if isinstance(message, HumanMessage):
            text = f"{message.text}\n\n{FORM.format(form=schema.form)}\n"
            return [*messages[:at], HumanMessage(text), *messages[at + 1 :]]
    return [*messages, HumanMessage(FORM.format(form=schema.form))]
