"""Formats of verdicts in words, such as those of papers: `Score: 5`, `<support>`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from emend.agents.judging.replies import last_line
from emend.memory.edit import FrozenModel

MARKS = ("1", "2", "3", "4", "5")
_FIELD = re.compile(r"\{(\w+)\}")


class ReplyForm(FrozenModel):
    """The last line of a reply, with the verdict's fields in braces, and the words for their
    values.

    `words` maps each word allowed in a field to its value; without it a field has the judge's own
    words, or a mark from 1 to 5.
    """

    line: str = Field(min_length=1)
    words: dict[str, str] = {}

    @model_validator(mode="after")
    def _has_fields(self) -> "ReplyForm":
        if not self.fields:
            raise ValueError(f"the form '{self.line}' has no field in braces, such as {{verdict}}")
        if len({*self.fields}) < len(self.fields):
            raise ValueError(f"the form '{self.line}' has a field twice")
        return self

    @property
    def fields(self) -> list[str]:
        """Names of the fields in order."""
        return _FIELD.findall(self.line)

    @property
    def is_tag(self) -> bool:
        """True if the line is a tag, which may follow other words."""
        return self.line.startswith("<")

    def pattern(self, known: Mapping[str, Sequence[str]]) -> str:
        """Return a pattern of the whole line with a group for each field, which tolerates white
        space and `=` for `:`.

        Args:
            known: the allowed words by field, for a form without its own words.
        """
        parts = _FIELD.split(self.line.strip())  # text, field, text, field, ..., text
        literals = [_literal(part) for part in parts[::2]]
        groups = [f"({self._choice(known.get(name, MARKS))})" for name in parts[1::2]]
        line = "".join(text + group for text, group in zip(literals, [*groups, ""], strict=True))
        if self.is_tag:
            return rf"{line}\.?"
        return rf"<?\s*(?:the\s+)?{line}\s*>?\.?"

    def values(self, groups: Sequence[str]) -> dict[str, Any]:
        """Return the values of the fields from the groups of the pattern."""
        folded = {word.casefold(): value for word, value in self.words.items()}
        values = [folded.get(text.casefold(), text) for text in groups]
        numbers = [int(value) if value.isdigit() else value for value in values]
        return dict(zip(self.fields, numbers, strict=True))

    def _choice(self, words: Sequence[str]) -> str:
        return "|".join(map(re.escape, sorted(self.words or words, key=len, reverse=True)))


def _literal(text: str) -> str:
    """Return a pattern of the words between two fields."""
    spaced = r"\s*".join(map(re.escape, text.split()))
    around = [r"\s*" if end.isspace() else "" for end in (text[:1], text[-1:])]
    return f"{around[0]}{spaced}{around[1]}".replace(":", r"(?:\s+is)?\s*[:=]\s*")


def read_forms(
    reply: str,
    forms: Sequence[ReplyForm],
    texts: Iterable[str],
    known: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Return the values of the fields in the last line of a reply in one of the forms.

    Args:
        reply: the raw reply.
        forms: the accepted forms.
        texts: the judged texts; a line that occurs in one of them is not a verdict.
        known: the allowed words by field.

    Raises:
        ModelReplyError: the reply does not end in one of the forms, or has two such lines that
            differ.
    """
    for form in forms:
        if form.is_tag:
            tag = re.compile(form.pattern(known), re.IGNORECASE)
            reply = tag.sub(lambda hit: f"\n{hit[0]}\n", reply)
    pattern = "|".join(f"(?:{form.pattern(known)})" for form in forms)
    hit = last_line(reply, re.compile(pattern, re.IGNORECASE), texts)
    groups = list(hit.groups())
    for form in forms:
        values, groups = groups[: len(form.fields)], groups[len(form.fields) :]
        if values[0] is not None:
            return form.values(values)
    raise AssertionError("the line that matched has one of the forms")
