"""Search for values in a text: the same name, number or date in another form."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from emend.memory.retrieval.tokens import stem
from emend.memory.values.dates import Date, find_dates, years
from emend.memory.values.tokens import Token, fold_value_text, tokenize

# Words that may be glued to a name in web text whose links lost their spaces (`thethylakoid
# membranesof`).
GLUED_WORDS = frozenset(
    "a after an and are as at but by called during for from in is named of on or that the to was "
    "were "
    "when who with".split()
)
_FOOTNOTE = re.compile(r"\d{1,2}(?!\d)")
_BEFORE_YEARS = frozenset(
    "in since by until to from of and during before after january february march april may june "
    "july august september october november december".split()
)
_GLUED_LETTERS = 4


class TextSpan(NamedTuple):
    """Characters of a text, from `start` up to `end`."""

    start: int
    end: int


def glue(tokens: Sequence[Token]) -> tuple[str, dict[int, int], dict[int, int]]:
    """Return the token forms joined without spaces, and maps from positions to the tokens that
    begin or end there.

    `hip-hop`, `hip hop` and `hiphop` then become the same string. Adjacent numbers keep a
    separator.
    """
    text = ""
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for index, token in enumerate(tokens):
        if text[-1:].isdigit() and token.form[0].isdigit():
            text += "\x1f"
        starts[len(text)] = index
        text += token.form
        ends[len(text)] = index
    return text, starts, ends


class ValueText:
    """A text with its tokens, in which values are searched."""

    def __init__(self, text: str) -> None:
        self.plain = fold_value_text(text)
        self.tokens = tokenize(self.plain)
        self._glued, self._starts, self._ends = glue(self.tokens)

    @cached_property
    def dates(self) -> list[Date]:
        """Dates that name a month."""
        return find_dates(self.tokens)

    @cached_property
    def years(self) -> list[Date]:
        """Years, including those within dates."""
        return years(self.tokens)

    @cached_property
    def stems(self) -> list[str]:
        """Stems of the words, and the forms of other tokens."""
        return [
            stem(token.form) if token.kind in ("word", "name") else token.form
            for token in self.tokens
        ]

    def find(self, glued: str) -> Iterator[TextSpan]:
        """Yield the spans in which the glued tokens of a value occur as whole tokens, regardless of
        spacing.
        """
        position = self._glued.find(glued) if glued else -1
        while position >= 0:
            end = position + len(glued)
            first, last = self._token_at(position), self._token_at(end - 1)
            if self._begins(position, first, glued) and self._ends_there(end, last, glued):
                yield self._span(position, end, first, last)
            position = self._glued.find(glued, position + 1)

    def _span(self, position: int, end: int, first: int, last: int) -> TextSpan:
        """Return the span of a hit; within a glued token only the span of the value."""
        start = self.tokens[first].start
        if position not in self._starts:
            start += position - self._borders[first]
        stop = self.tokens[last].end
        if end not in self._ends:
            stop = min(stop, self.tokens[last].start + end - self._borders[last])
        return TextSpan(start, max(start, stop))

    @cached_property
    def _borders(self) -> list[int]:
        """Positions in the glued text at which the tokens begin."""
        return [*self._starts]

    def _token_at(self, position: int) -> int:
        """Return the index of the token at a position of the glued text."""
        return bisect_right(self._borders, position) - 1

    def _begins(self, position: int, index: int, glued: str) -> bool:
        """Return whether a value may begin at a position: at a token, or after a word glued to
        it.
        """
        if position in self._starts:
            return not self._is_glued_number(index, index - 1)
        before = self._glued[self._borders[index] : position]
        return len(glued) >= _GLUED_LETTERS and before in GLUED_WORDS

    def _is_glued_number(self, index: int, before: int) -> bool:
        """Return whether a number is the end of a name, as in F16 and Apollo11."""
        token, previous = self.tokens[index], self.tokens[before]
        if before < 0 or token.kind != "number" or previous.end != token.start:
            return False
        return (
            previous.kind in ("word", "name")
            and not previous.form[:2].islower()
            or (previous.kind == "name")
        )

    def _ends_there(self, end: int, index: int, glued: str) -> bool:
        """Return whether a value may end at a position: at a token, before a glued word, or before
        a footnote number.
        """
        if end in self._ends:
            return not self._has_glued_number(index)
        token = self.tokens[index]
        after = self._glued[end : end + len(token.form)]
        rest = after[: self._borders[index] + len(token.form) - end]
        if token.kind == "number":
            return _is_year(glued) and self._is_footnote(index, rest)
        return len(glued) >= _GLUED_LETTERS and rest in GLUED_WORDS

    def _is_footnote(self, index: int, rest: str) -> bool:
        """Return whether digits after a year are a footnote number (`in 196912.`); the year must
        follow a preposition or date.
        """
        before = self.tokens[index - 1] if index else None
        after = self.plain[self.tokens[index].end : self.tokens[index].end + 1]
        if before is None or (before.form not in _BEFORE_YEARS and before.kind != "number"):
            return False
        return (
            bool(_FOOTNOTE.fullmatch(rest))
            and rest.strip("0") != ""
            and after in ("", ".", ",", ";", " ", "\n")
        )

    def _has_glued_number(self, index: int) -> bool:
        """Return whether a number continues a name: MI in MI5, but not Nile in Nile12, which is a
        footnote.
        """
        token = self.tokens[index]
        if index + 1 >= len(self.tokens) or self.tokens[index + 1].start != token.end:
            return False
        following = self.tokens[index + 1]
        if following.kind != "number" or token.kind not in ("word", "name"):
            return False
        is_short = len(token.form) < _GLUED_LETTERS or self.plain[token.start : token.end].isupper()
        return is_short or not _FOOTNOTE.fullmatch(following.form)


def _is_year(glued: str) -> bool:
    return (
        re.fullmatch(r"(?:1[5-9]\d\d|20[0-2]\d)", glued[-4:]) is not None
        and not glued[-5:-4].isdigit()
    )


@lru_cache(maxsize=4096)
def value_text(text: str) -> ValueText:
    """Return a text prepared for the search of values."""
    return ValueText(text)
