"""Stop texts of replies, looked for in the text of the latest tokens alone.

Decoding the whole reply anew at every token takes time that grows with the square of its length.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

LATEST = 8
"""Tokens that are decoded beside those that a stop text may have: some add no character, some a part of one."""
TOKENS = 4
"""Maximum number of tokens of a character."""


class StopMatch(NamedTuple):
    """The text up to the first stop text, and True if there is one."""

    text: str
    stopped: bool


class TokenTexts:
    """Decodes tokens.

    Args:
        tokenizer: of Hugging Face.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the tokens without special ones."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def read(self, ids: Sequence[int], stop: Sequence[str]) -> StopMatch:
        """The text up to the first stop text after the first word, without white space in front."""
        text = self.decode(ids).lstrip()
        ends = [place for word in stop if (place := text.find(word)) >= 0]
        return StopMatch(text[: min(ends)], True) if ends else StopMatch(text, False)


class StopTexts:
    """Watches one reply for stop texts after its first word; it gets the tokens one by one.

    Args:
        texts: of the model's tokenizer.
        stop: the stop texts; an empty one ends the reply at once.
    """

    def __init__(self, texts: TokenTexts, stop: Sequence[str]) -> None:
        self.texts, self.stop = texts, tuple(stop)
        self.ids: list[int] = []
        self._latest = LATEST + TOKENS * max((len(word) for word in stop), default=0)

    def add(self, token: int) -> bool:
        """Add the reply's next token; True if the reply contains a stop text now."""
        self.ids.append(token)
        if not self.stop:
            return False
        text = self.texts.decode(self.ids[-self._latest :])
        return any(word in text for word in self.stop) and self.texts.read(self.ids, self.stop).stopped
