"""Completion of a prompt by any chat model, up to a stop text: of plain text, or of a reply that is begun for it."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from emend.agents.parsing.messages import answer_text, read_usage
from emend.agents.providers.errors import provider_text
from emend.agents.roles.conversation import Prompt, lead_of, with_instruction, without_lead
from emend.agents.scoring import LimitedModel, is_chat_model
from emend.memory.errors import RequestRefused
from emend.memory.probe import Usage

STOP = re.compile(r"\bstop(_sequences)?\b")
"""The parameter that a provider names when it rejects stop texts."""
PREFILL = re.compile(r"prefill|assistant message|end with a user message")
"""Words of a provider that rejects a reply begun for its model."""
LINE_TOKENS = 32
"""Maximum number of tokens of one line of a chain."""
CHARACTERS = 3
"""Lower bound of characters per token in English."""


class Completion(NamedTuple):
    """The completion without a reasoning model's thoughts, its cost, and the number of prompt tokens cut off."""

    text: str
    usage: Usage
    cut_tokens: int = 0


def continue_text(model: BaseChatModel, prompt: Prompt, stop: Sequence[str] = (), new_tokens: int = 0) -> Completion:
    """The model's completion of the prompt, up to a stop text; a chat model gets it in turns.

    Args:
        model: any chat model.
        prompt: in both forms.
        stop: texts that end the completion; some providers refuse white space alone.
        new_tokens: maximum number of tokens, for models that have a limit of their own; 0 leaves it to the model.

    Raises:
        ModelReplyError: the reply has thoughts only.
    """
    limited, chats = isinstance(model, LimitedModel), is_chat_model(model)
    limit: dict[str, Any] = {"max_new_tokens": new_tokens} if new_tokens and limited else {}
    ends = [end for end in stop if limited or end.strip()]
    message = invoke(model, prompt.turns if chats else prompt.text, ends, **limit)
    cut = int(message.response_metadata.get("cut_tokens", 0))
    raw, answer = str(message.text), answer_text(message)
    if chats:
        answer = without_lead(answer, prompt.turns)
    if not limited:  # some models and protocols take no stop texts, and some servers ignore them
        answer = answer[: min((at for end in ends if (at := answer.find(end)) >= 0), default=len(answer))]
    return Completion(answer if answer == raw else answer.lstrip("\n"), read_usage(message), cut)


def invoke(
    model: BaseChatModel, prompt: str | Sequence[BaseMessage], stop: Sequence[str] | None = None, **options: Any
) -> AIMessage:
    """The model's message; what its provider rejects is left out: stop texts, or the beginning of the reply.

    Where a model takes no beginning, the last message of the user asks for it, see `with_instruction`.
    """
    ends = stop if getattr(model, "supports_stop", True) else None
    prefilled = not isinstance(prompt, str) and bool(lead_of(prompt)) and getattr(model, "supports_prefill", False)
    sent = prompt if prefilled or isinstance(prompt, str) else with_instruction(prompt)
    try:
        return model.invoke(sent, stop=list(ends) if ends else None, **options)
    except RequestRefused as error:
        text = provider_text(error)
        if ends and STOP.search(text) and hasattr(model, "supports_stop"):
            model.supports_stop = False  # remembered for the next call
        elif prefilled and PREFILL.search(text):
            model.supports_prefill = False  # type: ignore[attr-defined]
        else:
            raise
    return invoke(model, prompt, stop, **options)


def has_room(model: BaseChatModel, text: str, new_tokens: int = 0) -> bool:
    """Return whether a text and the new tokens fill less than half of the model's window; True if it is unknown."""
    window = getattr(getattr(model, "lm", model), "window", None)
    return not window or len(text) / CHARACTERS + new_tokens <= window / 2
