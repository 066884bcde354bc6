"""Prompts as conversations: one prompt as a text to be continued, and as turns of user and assistant for chat models.

A few-shot text whose end a model continues is answered, not continued, by a chat model that gets it as one message. In
turns, the demonstrations are messages of both sides, and the end of the text is the beginning of the reply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    convert_to_messages,
    convert_to_openai_messages,
)

USER = ("New Fact:", "Question:", "Retrieved fact:")
"""Labels of the lines that a chain or a walk in steps gives the model."""
ASSISTANT = ("Thoughts:", "Answer:", "Subquestion:", "Generated answer:", "Retrieved fact", "Final answer:")
"""Labels of the lines that the model writes; the check of a retrieved fact begins as the fact, without the colon."""
BEGIN = 'Reply with nothing but the text that follows, and begin it with "{label}"'
SO_FAR = "So far:"


@dataclass(frozen=True)
class Prompt:
    r"""A prompt in both forms; a text that is added to it is added to both.

    >>> prompt = Prompt().plus("Question: Who?\n").plus("Thoughts:")
    >>> prompt.text, [(turn.type, turn.text) for turn in prompt.turns]
    ('Question: Who?\nThoughts:', [('human', 'Question: Who?'), ('ai', 'Thoughts:')])
    """

    text: str = ""
    """The prompt of a model that continues plain text."""
    turns: tuple[BaseMessage, ...] = ()
    """The prompt of a chat model, by turns of user and assistant; the last may be the beginning of the reply."""

    def plus(self, text: str) -> "Prompt":
        """The prompt with lines added, each to the turn of the side that its label names, else of the side before."""
        turns = list(self.turns)
        for line in text.split("\n"):
            _add(turns, _side(line, turns), line, "\n")
        return Prompt(self.text + text, tuple(turns))

    def asked(self, text: str, turn: str) -> "Prompt":
        """The prompt with a text of the user's, whatever its lines begin with; `turn` is its form in turns."""
        return self._added(HumanMessage, text, turn, "\n\n")

    def begun(self, text: str, lead: str, between: str = "\n") -> "Prompt":
        """The prompt with a text of the assistant's, whatever its lines begin with; `lead` is its form in turns.

        `between` stands before it where the reply has begun.
        """
        return self._added(AIMessage, text, lead, between)

    def _added(self, side: type[BaseMessage], text: str, turn: str, between: str) -> "Prompt":
        turns = list(self.turns)
        _add(turns, side, turn, between)
        return Prompt(self.text + text, tuple(turns))


def _side(line: str, turns: Sequence[BaseMessage]) -> type[BaseMessage]:
    if line.startswith(USER):
        return HumanMessage
    if line.startswith(ASSISTANT):
        return AIMessage
    return type(turns[-1]) if turns else HumanMessage


def _add(turns: list[BaseMessage], side: type[BaseMessage], text: str, between: str) -> None:
    """Add a text to the last turn if it is of the same side, else as a turn of its own."""
    if turns and isinstance(turns[-1], side):
        joined = f"{turns[-1].text}{between}{text}"
        turns[-1] = side(content=joined.rstrip() if between == "\n\n" else joined.rstrip("\n"))
    elif text.strip():
        turns.append(side(content=text.strip()))


def lead_of(turns: Sequence[BaseMessage]) -> str:
    """The beginning of the reply that the last turn is; "" if the user has the last word."""
    return str(turns[-1].text) if turns and isinstance(turns[-1], AIMessage) and not turns[-1].tool_calls else ""


def with_instruction(turns: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The turns without the beginning of the reply, for which the last message of the user asks instead."""
    lead = lead_of(turns)
    if not lead:
        return list(turns)
    before, _, label = lead.rpartition("\n")
    *rest, last = turns[:-1]
    so_far = f"\n\n{SO_FAR}\n{before}" if before else ""
    return [*rest, HumanMessage(f"{last.text}{so_far}\n\n{BEGIN.format(label=label)}")]


def without_lead(reply: str, turns: Sequence[BaseMessage]) -> str:
    """The reply without the beginning that it was asked for, where the model repeats it."""
    label = lead_of(turns).rpartition("\n")[2]
    text = reply.lstrip()
    return text[len(label) :] if label and text.casefold().startswith(label.casefold()) else reply


def as_text(turns: Sequence[BaseMessage]) -> str:
    """The turns for a reader; a single one of the user is its text."""
    if len(turns) == 1:
        return str(turns[0].text)
    names = {"human": "user", "ai": "assistant"}
    return "\n\n".join(f"{names.get(turn.type, turn.type)}:\n{turn.text}" for turn in turns)


def as_json(turns: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The turns in OpenAI's format of messages, as a state has them."""
    return list(convert_to_openai_messages(list(turns)))


def from_json(turns: Sequence[dict[str, Any]]) -> list[BaseMessage]:
    """The turns that `as_json` made."""
    return convert_to_messages(turns)
