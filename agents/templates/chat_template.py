"""A tokenizer's chat template with options, a fixed date, and detection of thoughts.

Prompts must not change with the day, and targets must be scored at the position of the answer:
after the thoughts.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from emend.agents.parsing.tool_calls import render_chat
from emend.agents.templates.template_trial import try_template
from emend.agents.templates.thoughts import (
    MARKS,
    RESPONSE,
    Thoughts,
    channel_thoughts,
    closes_thoughts,
    opened_thoughts,
    written_thoughts,
)
from emend.memory.edit import content_id
from emend.memory.errors import BadSettings, ModelError

# The call with which templates write the date; transformers does not let us override this function.
CLOCK = re.compile(r"""strftime_now\(\s*(['"])(.*?)\1\s*\)""")
# Rendering argument that replaces the tokenizer's own template.
TEMPLATE = "chat_template"
# Date that is written instead of today's, unless `model.template.date` sets another one.
DATE = "2025-01-01"
# Template options that switch thoughts on and off.
SWITCHES = ("enable_thinking", "thinking")
# Additional new tokens that a reply may use for its thoughts.
THOUGHT_TOKENS = 1024
# Rendering arguments that are not options.
OWN = {
    "messages", "tools", "documents", "tokenize", "chat_template", "add_generation_prompt",
    "continue_final_message",
}  # fmt: skip
SAMPLE = (HumanMessage("Hello"),)


def template_texts(tokenizer: Any) -> dict[str, str]:
    """Return a tokenizer's chat templates by name; one without a name is the default."""
    template = getattr(tokenizer, "chat_template", None) or ""
    by_name = template if isinstance(template, dict) else {"default": template}
    return {name: str(text) for name, text in by_name.items()}


class ChatTemplate:
    """Renders conversations with a tokenizer's chat template.

    Args:
        tokenizer: Hugging Face tokenizer, with or without a chat template.
        options: variables of the template (`enable_thinking`, `reasoning_effort` ...), and `date`
            (YYYY-MM-DD) for a template that otherwise writes today's date.
        name: name of the model, for messages.

    Raises:
        BadSettings: the template does not have an option.
        ModelError: the template does not end, or needs too much memory.
    """

    def __init__(self, tokenizer: Any, options: Mapping[str, Any], name: str) -> None:
        self.tokenizer, self.name = tokenizer, name
        texts = template_texts(tokenizer)
        for text in filter(None, texts.values()):
            try_template(text)
        self.text = texts.get("default", "")
        self._has_marks = any(closing in self.text for closing in MARKS.values())
        self.options = dict(options)
        self._refuse_unknown()
        self.notes: list[str] = []
        """Notes for the user about settings that were chosen automatically, and about thoughts."""
        self._arguments = self._with_date()
        self.thoughts: Thoughts | None = None
        # the option that switches on thoughts which the model itself opens
        self._switch = ""
        if self.text:
            # a template that rejects the sample raises its error in use
            with suppress(ModelError):
                self.thoughts = self._recognise()

    def _refuse_unknown(self) -> None:
        for option in self.options:
            is_date = option == "date" and CLOCK.search(self.text)
            if option in OWN or not (is_date or re.search(rf"\b{re.escape(option)}\b", self.text)):
                switch = next((name for name in SWITCHES if name in self.text), "")
                hint = f" It has '{switch}'." if switch else ""
                raise BadSettings(
                    f"model.template.{option}: the chat template of '{self.name}' has no such "
                    f"option.{hint}"
                )

    def _with_date(self) -> dict[str, Any]:
        """Return the template's options, and the template with a fixed date instead of today's."""
        if not CLOCK.search(self.text):
            return dict(self.options)
        day = self._read_day()
        if "date" not in self.options:
            self.notes.append(
                f"the template writes today's date: {day} is always written (model.template.date "
                "sets another)"
            )
        rest = {name: value for name, value in self.options.items() if name != "date"}
        return rest | {TEMPLATE: CLOCK.sub(lambda call: repr(day.strftime(call[2])), self.text)}

    def _read_day(self) -> date:
        text = str(self.options.get("date", DATE))
        try:
            return date.fromisoformat(text)
        except ValueError as error:
            raise BadSettings(f"model.template.date is {text!r}: give a day as {DATE}.") from error

    def _recognise(self) -> Thoughts | None:
        """Switch off thoughts that were not requested, and return the remaining ones."""
        switch = next((name for name in SWITCHES if re.search(rf"\b{name}\b", self.text)), "")
        is_set = bool(self.options.keys() & set(SWITCHES))
        if switch and not is_set and self._thinks_unless(switch):
            self._arguments[switch] = False
            self.notes.append(
                "the model would write thoughts: they are switched off "
                f"(model.template.{switch}=true has them written)"
            )
        prompt = self._render(SAMPLE)
        thoughts = opened_thoughts(prompt) or channel_thoughts(self.text, prompt)
        if thoughts is None and switch and self._arguments.get(switch):
            self._switch = switch
            thoughts = self._switched_on(switch)
        self._note(thoughts)
        return thoughts

    def _thinks_unless(self, switch: str) -> bool:
        """Return whether the template treats an unset switch as on."""
        default = self._render(SAMPLE)
        return default != self._render(SAMPLE, {switch: False}) and default == self._render(
            SAMPLE, {switch: True}
        )

    def _switched_on(self, switch: str) -> Thoughts | None:
        """Return the thoughts opened by the model itself, if the template writes empty thoughts
        when they are off.
        """
        other = self._render(SAMPLE, {switch: False})
        mark = next((mark for mark, closing in MARKS.items() if closing in other[-60:]), "")
        if not mark:
            mark = next((mark for mark in MARKS if mark in self.text), "")
        if not mark:
            return None
        at = other.rfind(mark)
        is_block = at >= 0 and MARKS[mark] in other[at:]
        empty = other[at:] if is_block else f"{mark}\n\n{MARKS[mark]}\n\n"
        answer = RESPONSE if RESPONSE in self.text else ""
        return Thoughts("", empty + answer, MARKS[mark])

    def _note(self, thoughts: Thoughts | None) -> None:
        if thoughts:
            self.notes.append(
                "the model writes thoughts: a reply has model.thought_tokens more new tokens for "
                "them, they are not part of its answer, and likelihoods are taken behind empty "
                "thoughts"
            )
        with suppress(ModelError):
            if thoughts and self._switch and self._is_ignored((SystemMessage("Hi"), *SAMPLE)):
                self.notes.append(
                    f"model.template.{self._switch} has no effect in a conversation with a system "
                    "message: the template then asks for no thoughts"
                )

    def observe(self, first_text: Callable[[str], str]) -> None:
        """Detect thoughts that are not visible in the template from the beginning of the model's
        reply.

        Args:
            first_text: returns the first tokens of the reply to a prompt, including special tokens.
        """
        if self.thoughts or not self.may_write_thoughts:
            return
        prompt = self._render(SAMPLE)
        if not closes_thoughts(prompt):
            self.thoughts = written_thoughts(first_text(prompt))
            self._note(self.thoughts)

    @property
    def may_write_thoughts(self) -> bool:
        """True if the tokenizer has a mark of thoughts."""
        words: dict[str, int] = getattr(self.tokenizer, "get_added_vocab", dict)()
        return any(mark in words for mark in MARKS)

    def warn(self) -> None:
        """Warn about changes beyond the user's settings."""
        while self.notes:
            logging.getLogger(__name__).warning("%s: %s", self.name, self.notes.pop(0))

    @property
    def suffix(self) -> str:
        """Digest of the options for a fingerprint, including options set automatically; "" without
        options.
        """
        settings = {name: value for name, value in self._arguments.items() if name != TEMPLATE}
        if TEMPLATE in self._arguments:
            settings["date"] = str(self._read_day())
        return (
            f"+template-{content_id('template', sorted(settings.items()))[:8]}" if settings else ""
        )

    def render(self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = ()) -> str:
        """Render the conversation up to the position of the reply.

        Raises:
            ModelError: the template refuses it.
        """
        if messages and _is_beginning(messages[-1]):
            return self.render_answer(messages)
        return self._render(messages, tools=tools)

    def render_answer(self, messages: Sequence[BaseMessage]) -> str:
        """Render the conversation up to the position of the answer, after the thoughts of a model
        that writes them.

        Raises:
            ModelError: the template refuses it.
        """
        has_beginning = bool(messages) and _is_beginning(messages[-1])
        thoughts = self.thoughts_in(messages[:-1] if has_beginning else messages)
        skipping = thoughts.skipping if thoughts else ""
        if not has_beginning:
            return self._render(messages) + skipping
        if len(messages) > 1 and (thoughts or self._has_marks):
            before = self._render(messages[:-1])
            if thoughts or closes_thoughts(before):
                return before + skipping + str(messages[-1].text)
        return self._render(messages)

    def thoughts_in(self, messages: Sequence[BaseMessage]) -> Thoughts | None:
        """Return the thoughts that begin the reply to a conversation; None where the template
        renders it the same with thoughts switched off, as Granite's does with a system message.
        """
        if self.thoughts and self._switch and messages and self._is_ignored(messages):
            return None
        return self.thoughts

    def _is_ignored(self, messages: Sequence[BaseMessage]) -> bool:
        off = {self._switch: False}
        return self._render(messages) == self._render(messages, off)

    def _render(
        self,
        messages: Sequence[BaseMessage],
        changes: Mapping[str, Any] | None = None,
        tools: Sequence[dict[str, Any]] = (),
    ) -> str:
        return render_chat(self.tokenizer, messages, tools, self._arguments | dict(changes or {}))


def _is_beginning(message: BaseMessage) -> bool:
    """Return whether a message is an assistant message without calls, which is the beginning of the
    reply.
    """
    return message.type == "ai" and not getattr(message, "tool_calls", None)
