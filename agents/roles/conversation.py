"""Prompts in two forms: as text for base models, and as turns of user and assistant for chat
models.

A chat model that gets a few-shot text as one message answers it instead of continuing it. In turns,
the demonstrations are messages of both sides, and the end of the text is the beginning of the
reply.
"""

import re
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

# Labels of the lines that are given to the model in a chain or in steps.
USER = ("New Fact:", "Question:", "Retrieved fact:")
# Labels of the lines that the model writes; the check of a retrieved fact begins like the fact,
# without the colon.
ASSISTANT = (
    "Thoughts:",
    "Answer:",
    "Subquestion:",
    "Generated answer:",
    "Retrieved fact",
    "Final answer:",
)
_NAMES = (
    r"(?:new fact|(?:sub-?)?question|thoughts|(?:(?:generated|final|intermediate) )?answer"
    r"|entity|relations)"
)
# A label at the beginning of a line, in any case, in bold, numbered, or as a heading. Labels of
# several words also match within a line, and one-letter labels from the second line on.
_LABEL = re.compile(
    rf"(?im:^(?:[\W_]|\d+[.)]\s)*{_NAMES}[*_]*\s*(?:\d+[*_]*\s*)?[:：]"
    rf"|^[^\S\n]*[#*_]+[^\S\n]*{_NAMES}[*_]*\s*$"
    r"|^(?:[\W_]|\d+[.)]\s)*final answer (?:is\b|[-–—])"
    r"|^[\W_]*retrieved facts?\b)"
    r"|(?<=\n)[QA]\s*[:：]"
    r"|(?<=\s)(?:Subquestion:|Generated answer:|Final answer:|Retrieved fact(?::| contradicts| "
    r"does not contradict))"
)
BEGIN = 'Reply with nothing but the text that follows, and begin it with "{label}"'
SO_FAR = "So far:"
# The side (role) of a turn, and its text.
_Turn = tuple[type[BaseMessage], str]


@dataclass(frozen=True)
class Prompt:
    r"""A prompt in both forms; added text is added to both.

    >>> prompt = Prompt().plus("Question: Who?\n").plus("Thoughts:")
    >>> prompt.text, [(turn.type, turn.text) for turn in prompt.turns]
    ('Question: Who?\nThoughts:', [('human', 'Question: Who?'), ('ai', 'Thoughts:')])
    """

    text: str = ""
    """The prompt of a model that continues plain text."""
    turns: tuple[BaseMessage, ...] = ()
    """The prompt of a chat model, by turns of user and assistant; the last may be the beginning of
    the reply."""

    def plus(self, text: str) -> "Prompt":
        """Return the prompt with lines added, each to the side that its label names, or else to the
        side before.
        """
        turns = [(type(turn), str(turn.text)) for turn in self.turns[-1:]]
        for line in text.split("\n"):
            _add(turns, _side(line, turns), line, "\n")
        return self._with(text, turns)

    def asked(self, text: str, turn: str) -> "Prompt":
        """Return the prompt with a user text added, regardless of labels; `turn` is its chat
        form.
        """
        return self._added(HumanMessage, text, turn, "\n\n")

    def begun(self, text: str, lead: str, between: str = "\n") -> "Prompt":
        """Return the prompt with an assistant text added, regardless of labels; `lead` is its chat
        form.

        `between` precedes it if the reply has already begun.
        """
        return self._added(AIMessage, text, lead, between)

    def _added(self, side: type[BaseMessage], text: str, turn: str, between: str) -> "Prompt":
        turns = [(type(last), str(last.text)) for last in self.turns[-1:]]
        _add(turns, side, turn, between)
        return self._with(text, turns)

    def _with(self, text: str, turns: Sequence[_Turn]) -> "Prompt":
        """Return the prompt with a text added and the last turn replaced by these turns."""
        before, changed = self.turns[:-1], turns
        if self.turns and turns[0] == (type(self.turns[-1]), str(self.turns[-1].text)):
            before, changed = self.turns, turns[1:]
        return Prompt(
            self.text + text, (*before, *(side(content=content) for side, content in changed))
        )


def before_label(text: str) -> str:
    r"""Return the text before the first label.

    >>> before_label("Peak Records\nFinal answer: Rock")
    'Peak Records'
    >>> before_label("**Retrieved fact:** Peak Records")
    ''
    """
    label = _LABEL.search(text)
    return text[: label.start()].rstrip() if label else text


def _side(line: str, turns: Sequence[_Turn]) -> type[BaseMessage]:
    if line.startswith(USER):
        return HumanMessage
    if line.startswith(ASSISTANT):
        return AIMessage
    return turns[-1][0] if turns else HumanMessage


def _add(turns: list[_Turn], side: type[BaseMessage], text: str, between: str) -> None:
    """Add a text to the last turn if that has the same side, or else as a new turn."""
    if turns and turns[-1][0] is side:
        joined = f"{turns[-1][1]}{between}{text}"
        turns[-1] = side, joined.rstrip() if between == "\n\n" else joined.rstrip("\n")
    elif text.strip():
        turns.append((side, text.strip()))


def lead_of(turns: Sequence[BaseMessage]) -> str:
    """Return the beginning of the reply in the last turn; "" if the last turn is the user's."""
    if turns and isinstance(turns[-1], AIMessage) and not turns[-1].tool_calls:
        return str(turns[-1].text)
    return ""


def with_instruction(turns: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the turns with the reply's beginning replaced by an instruction in the last user
    message.
    """
    lead = lead_of(turns)
    if not lead:
        return list(turns)
    before, _, label = lead.rpartition("\n")
    *rest, last = turns[:-1]
    so_far = f"\n\n{SO_FAR}\n{before}" if before else ""
    return [*rest, HumanMessage(f"{last.text}{so_far}\n\n{BEGIN.format(label=label)}")]


def without_lead(reply: str, turns: Sequence[BaseMessage]) -> str:
    """Return the reply without the requested beginning, if the model repeats it."""
    label = lead_of(turns).rpartition("\n")[2]
    text = reply.lstrip()
    return text[len(label) :] if label and text.casefold().startswith(label.casefold()) else reply


def as_text(turns: Sequence[BaseMessage]) -> str:
    """Format the turns as readable text; a single user turn is its text."""
    if len(turns) == 1:
        return str(turns[0].text)
    names = {"human": "user", "ai": "assistant"}
    return "\n\n".join(f"{names.get(turn.type, turn.type)}:\n{turn.text}" for turn in turns)


def as_json(turns: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return the turns in OpenAI's message format, as stored in a graph's state."""
    return list(convert_to_openai_messages(list(turns)))


def from_json(turns: Sequence[dict[str, Any]]) -> list[BaseMessage]:
    """Return the turns from the result of `as_json`."""
    return convert_to_messages(turns)
