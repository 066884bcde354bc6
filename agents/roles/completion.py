"""Completion of plain text by any chat model, up to a stop text."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from emend.agents.parsing.messages import answer_text, usage_of
from emend.agents.providers.errors import provider_text
from emend.agents.scoring import LimitedModel
from emend.memory.errors import RequestRefused
from emend.memory.probe import Usage

STOP = re.compile(r"\bstop(_sequences)?\b")
"""The parameter that a provider names when it rejects stop texts."""
LINE_TOKENS = 32
"""Maximum number of tokens of one line of a chain."""
CHARACTERS = 3
"""Lower bound of characters per token in English."""


class Completion(NamedTuple):
    """The completion without a reasoning model's thoughts, its cost, and the number of prompt tokens cut off."""

    text: str
    usage: Usage
    cut_tokens: int = 0


def continue_text(model: BaseChatModel, text: str, stop: Sequence[str] = (), new_tokens: int = 0) -> Completion:
    """The model's completion of the text, up to a stop text; a chat model gets the text as one message.

    Args:
        model: any chat model.
        text: the prompt.
        stop: texts that end the completion; some providers refuse white space alone.
        new_tokens: maximum number of tokens, for models that continue plain text; 0 leaves it to the model.

    Raises:
        ModelReplyError: the reply has thoughts only.
    """
    plain = isinstance(model, LimitedModel)
    limit: dict[str, Any] = {"max_new_tokens": new_tokens} if new_tokens and plain else {}
    ends = [end for end in stop if plain or end.strip()]
    message = _invoke(model, text, ends, limit)
    cut = int(message.response_metadata.get("cut_tokens", 0))
    raw, answer = str(message.text), answer_text(message)
    if not plain:  # some models and protocols take no stop texts, and some servers ignore them
        answer = answer[: min((at for end in ends if (at := answer.find(end)) >= 0), default=len(answer))]
    return Completion(answer if answer == raw else answer.lstrip("\n"), usage_of(message), cut)


def _invoke(model: BaseChatModel, text: str, ends: list[str], limit: dict[str, Any]) -> AIMessage:
    """The model's message; no stop texts are sent if its provider takes none, as for OpenAI's reasoning models."""
    if not getattr(model, "supports_stop", True):
        ends = []
    try:
        return model.invoke(text, stop=ends or None, **limit)
    except RequestRefused as error:
        if not ends or not STOP.search(provider_text(error)) or not hasattr(model, "supports_stop"):
            raise
    model.supports_stop = False  # remembered for the next call
    return model.invoke(text, **limit)


def has_room(model: BaseChatModel, text: str, new_tokens: int = 0) -> bool:
    """Return whether a text and the new tokens fill less than half of the model's window; True if it is unknown."""
    window = getattr(getattr(model, "lm", model), "window", None)
    return not window or len(text) / CHARACTERS + new_tokens <= window / 2
