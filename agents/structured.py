"""Replies in a schema, from every model: the provider's own structured output, or JSON in the text of the reply."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel

from emend.agents.parsing.messages import ReplySchema, parse_message, usage_of
from emend.agents.providers.errors import as_model_error, provider_text, status_of
from emend.agents.scoring import LimitedModel
from emend.memory.errors import ModelReplyError, ReplyCutOff, ReplyRefused, RequestRefused
from emend.memory.probe import Usage

T = TypeVar("T", bound=BaseModel)

NEW_TOKENS = 256
"""The least that a local model may write; its own limit is meant for an answer of a few words."""
FORM = "Reply with one JSON object of this form and nothing else: {form}"
AGAIN = "That reply could not be read: {problem} {form}"


class Structured(NamedTuple, Generic[T]):
    """A reply as an instance of the schema, as it came, and what it cost with all that were asked before it."""

    value: T
    reply: str
    usage: Usage

    @property
    def calls(self) -> int:
        """How many calls were made."""
        return self.usage.calls


def ask_structured(
    model: BaseChatModel, prompt: str | Sequence[BaseMessage], schema: type[T], *, retries: int = 1
) -> Structured[T]:
    """The model's reply in the schema; one that cannot be read is asked for again, and the model is told why.

    A model with structured output is held to the schema by its provider. Any other model is shown the form, and its
    JSON is read out of the text, also from between fences, thoughts and prose.

    Args:
        model: any chat model.
        prompt: what is asked.
        schema: pydantic class of the reply.
        retries: how often an unreadable reply is asked for again; a refusal or a reply cut off never is.

    Raises:
        ModelReplyError: no reply could be read, or it held two that differ; carries the last one, and the cost of all.
        ModelError: the model could not be asked.
    """
    asked: list[BaseMessage] = [HumanMessage(prompt)] if isinstance(prompt, str) else list(prompt)
    shape, usage = ReplySchema(schema), Usage()
    for left in range(retries, -1, -1):
        counted = False
        try:
            message = _ask(model, asked, shape)
            usage, counted = usage.plus(usage_of(message)), True
            value = parse_message(message, shape)
        except ModelReplyError as error:
            error.usage = usage = usage if counted else usage.plus(error.usage)
            if not left or isinstance(error, (ReplyRefused, ReplyCutOff)):
                raise
            asked = [*asked, AIMessage(error.reply.strip() or "(no reply)"), _again(error, shape)]
        else:
            return Structured(value, shape.reply_of(message), usage)
    raise AssertionError("the last attempt returns or raises")


def supports_structure(model: BaseChatModel) -> bool:
    """Whether the model's class brings structured output, or tools, of its own."""
    told = getattr(model, "supports_structure", None)
    if told is not None:
        return bool(told)
    own = type(model)
    return own.with_structured_output is not BaseChatModel.with_structured_output or (
        own.bind_tools is not BaseChatModel.bind_tools
    )


def _again(error: ModelReplyError, shape: ReplySchema[Any]) -> HumanMessage:
    return HumanMessage(AGAIN.format(problem=error, form=FORM.format(form=shape.form)))


def _ask(model: BaseChatModel, asked: list[BaseMessage], shape: ReplySchema[Any]) -> AIMessage:
    try:
        if supports_structure(model):
            try:
                return _ask_natively(model, asked, shape)
            except RequestRefused as error:  # a compatible server that knows chat and no more
                if not _about_structure(error):
                    raise
                if hasattr(model, "supports_structure"):
                    model.supports_structure = False  # it need not be told again
        return _ask_in_text(model, asked, shape)
    except Exception as error:
        known = as_model_error(error, type(model).__name__)
        if known is None or known is error:
            raise
        raise known from error


def _ask_natively(model: BaseChatModel, asked: list[BaseMessage], shape: ReplySchema[Any]) -> AIMessage:
    # As a dict: with a pydantic class some clients raise on bad JSON, and reply and cost are lost.
    told: Any = model.with_structured_output(shape.json_schema, include_raw=True).invoke(asked)
    message: AIMessage = told["raw"]
    return message


def _about_structure(error: Exception) -> bool:
    told = provider_text(error) if status_of(error) in (400, 422, 500) else ""  # 500 of llama.cpp without tools
    return any(word in told for word in ("response_format", "json_schema", "tool", "output_config", "structured"))


def _ask_in_text(model: BaseChatModel, asked: list[BaseMessage], shape: ReplySchema[Any]) -> AIMessage:
    more: dict[str, Any] = {}
    if isinstance(model, LimitedModel):
        more = {"stop": [], "max_new_tokens": max(NEW_TOKENS, model.max_new_tokens)}
    return model.invoke(_with_form(asked, shape), **more)


def _with_form(asked: list[BaseMessage], shape: ReplySchema[Any]) -> list[BaseMessage]:
    """The messages, the first of the user's with the form at its end; a lone message stays one."""
    for at, message in enumerate(asked):
        if isinstance(message, HumanMessage):
            text = f"{message.text}\n\n{FORM.format(form=shape.form)}\n"
            return [*asked[:at], HumanMessage(text), *asked[at + 1 :]]
    return [*asked, HumanMessage(FORM.format(form=shape.form))]
