"""A model continues a plain text: what it says up to a stop, and what that cost."""

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
"""How a provider names the stop texts that it rejects."""
LINE_TOKENS = 32
"""A line of a chain has at most so many tokens."""
CHARACTERS = 3
"""So many characters make a token at least, in English."""


class Continued(NamedTuple):
    """The continuation without a reasoning model's thoughts, its cost, and how many tokens of the text were cut off."""

    text: str
    usage: Usage
    cut_tokens: int = 0


def continue_text(model: BaseChatModel, text: str, stop: Sequence[str] | None = None, new_tokens: int = 0) -> Continued:
    """What the model says after the text, up to a stop text; a chat model gets the text as one message.

    Args:
        model: any chat model.
        text: what is to be continued.
        stop: texts that end the continuation; None leaves it to the model, and some providers refuse white space alone.
        new_tokens: at most so many, on models that continue plain text; 0 leaves it to the model.

    Raises:
        ModelReplyError: the model thinks, and says nothing.
    """
    plain = isinstance(model, LimitedModel)
    more: dict[str, Any] = {"max_new_tokens": new_tokens} if new_tokens and plain else {}
    ends = [end for end in stop or () if plain or end.strip()]
    message = _continued(model, text, ends, more)
    cut = int(message.response_metadata.get("cut_tokens", 0))
    raw, said = str(message.text), answer_text(message)
    if not plain:  # some models and protocols take no stop texts, and some servers do not heed them
        said = said[: min((at for end in ends if (at := said.find(end)) >= 0), default=len(said))]
    return Continued(said if said == raw else said.lstrip("\n"), usage_of(message), cut)


def _continued(model: BaseChatModel, text: str, ends: list[str], more: dict[str, Any]) -> AIMessage:
    """The model's message; one whose provider takes no stop texts, as those of OpenAI that reason, is sent none."""
    if not getattr(model, "supports_stop", True):
        ends = []
    try:
        return model.invoke(text, stop=ends or None, **more)
    except RequestRefused as error:
        if not ends or not STOP.search(provider_text(error)) or not hasattr(model, "supports_stop"):
            raise
    model.supports_stop = False  # it need not be told again
    return model.invoke(text, **more)


def has_room(model: BaseChatModel, text: str, new_tokens: int = 0) -> bool:
    """Whether a text, and so many new tokens, take less than half of the model's window; True where none is told."""
    window = getattr(getattr(model, "lm", None), "window", None)
    return not window or len(text) / CHARACTERS + new_tokens <= window / 2
