"""Completion of a prompt by any chat model up to a stop text, as plain text or from the beginning
of a reply.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from emend.agents.parsing.messages import answer_text, read_usage
from emend.agents.providers.errors.rejection import provider_text
from emend.agents.roles.conversation import Prompt, lead_of, with_instruction, without_lead
from emend.agents.scoring import has_limit, is_chat_model
from emend.memory.errors import RequestRefused
from emend.memory.probe import Usage

# Parameter names in a provider's rejection of stop texts.
STOP = re.compile(r"\bstop(_sequences)?\b")
# Words of a provider that rejects a prefilled reply.
PREFILL = re.compile(r"prefill|assistant message|end with a user message")
# Maximum number of tokens of one line of a chain.
LINE_TOKENS = 32
# Lower bound of characters per token in English.
CHARACTERS = 3


class Completion(NamedTuple):
    """The completion without a reasoning model's thoughts, its cost, and the number of truncated
    prompt tokens.
    """

    text: str
    usage: Usage
    cut_tokens: int = 0


def continue_text(
    model: BaseChatModel, prompt: Prompt, stop: Sequence[str] = (), new_tokens: int = 0
) -> Completion:
    """Return the model's completion of the prompt up to a stop text; a chat model gets the prompt
    in turns.

    Args:
        model: any chat model.
        prompt: the prompt in both forms.
        stop: texts that end the completion; some providers reject white space.
        new_tokens: maximum number of tokens, for models with a limit; 0 uses the model's own.

    Raises:
        ModelReplyError: the reply has only thoughts.
    """
    limited, chats = has_limit(model), is_chat_model(model)
    limit: dict[str, Any] = {"max_new_tokens": new_tokens} if new_tokens and limited else {}
    ends = [end for end in stop if limited or end.strip()]
    message = invoke(model, prompt.turns if chats else prompt.text, ends, **limit)
    cut = int(message.response_metadata.get("cut_tokens", 0))
    raw, answer = str(message.text), answer_text(message)
    if chats:
        answer = without_lead(answer, prompt.turns)
    # some models and protocols do not support stop texts, and some servers ignore them
    if not limited:
        answer = answer[
            : min((at for end in ends if (at := answer.find(end)) >= 0), default=len(answer))
        ]
    return Completion(answer if answer == raw else answer.lstrip("\n"), read_usage(message), cut)


def invoke(
    model: BaseChatModel,
    prompt: str | Sequence[BaseMessage],
    stop: Sequence[str] | None = None,
    **options: Any,
) -> AIMessage:
    """Return the model's message, retrying without stop texts or without the reply's beginning if
    the provider rejects them.

    If a model does not support a prefilled reply, the last user message asks for it, see
    `with_instruction`.
    """
    ends = stop if getattr(model, "supports_stop", True) else None
    prefilled = (
        not isinstance(prompt, str)
        and bool(lead_of(prompt))
        and getattr(model, "supports_prefill", False)
    )
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
    """Return whether a text and the new tokens fill less than half of the model's window; True if
    the window is unknown.
    """
    window = getattr(getattr(model, "lm", model), "window", None)
    return not window or len(text) / CHARACTERS + new_tokens <= window / 2
