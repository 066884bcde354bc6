"""Detection of stop texts in the latest tokens of a reply.

Decoding the whole reply at every token would take quadratic time.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

# Number of latest tokens that are decoded again, since later tokens may change their text.
LATEST = 8
# Replacement character in place of a character whose last bytes are missing.
INCOMPLETE = "\ufffd"
# Decoders for which a token only appends text, apart from completing a character.
CONCATENATING = {"ByteLevel", "Metaspace", "ByteFallback", "Fuse", "Replace", "Strip", "Sequence"}


class StopMatch(NamedTuple):
    """The text before the first stop text, and whether there is one."""

    text: str
    stopped: bool


class TokenTexts:
    """Decodes tokens, and detects which of them can complete a stop text.

    Args:
        tokenizer: a Hugging Face tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._pieces: dict[int, str] = {}
        self._concatenates = (
            not tokenizer.clean_up_tokenization_spaces and _decoders(tokenizer) <= CONCATENATING
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the tokens without special tokens."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def read(self, ids: Sequence[int], stop: Sequence[str]) -> StopMatch:
        """Return the text before the first stop text after the first word, without leading white
        space.
        """
        text = self.decode(ids).lstrip()
        ends = [place for word in stop if (place := text.find(word)) >= 0]
        return StopMatch(text[: min(ends)], True) if ends else StopMatch(text, False)

    def may_complete(self, token: int, last: frozenset[str]) -> bool:
        """Return False if the token certainly does not add the last character of a stop text."""
        if not self._concatenates:
            return True
        if token not in self._pieces:
            once, twice = self.decode([token]), self.decode([token, token])
            # The second one preserves the space that a decoder drops at the beginning.
            self._pieces[token] = twice[len(once) :] if twice.startswith(once) else INCOMPLETE
        piece = self._pieces[token]
        return INCOMPLETE in piece or not last.isdisjoint(piece)


class StopTexts:
    """Detects stop texts after the first word of a reply that arrives token by token.

    Args:
        texts: the decoder of the model's tokenizer.
        stop: the stop texts; an empty one ends the reply at once.
    """

    def __init__(self, texts: TokenTexts, stop: Sequence[str]) -> None:
        self.texts, self.stop = texts, tuple(stop)
        self.ids: list[int] = []
        self._last = frozenset(word[-1] for word in stop if word)
        self._longest = max((len(word) for word in stop), default=0)
        self._read, self._before = 0, ""
        """Number of tokens whose text is settled, and the end of that text; empty while it is
        blank."""

    def add(self, token: int) -> bool:
        """Add the next token, and return whether the reply now contains a stop text."""
        self.ids.append(token)
        if not self.stop or (
            "" not in self.stop and not self.texts.may_complete(token, self._last)
        ):
            return False
        text = self._before + self.texts.decode(self.ids[self._read :])
        text = text if self._before else text.lstrip()
        if any(word in text for word in self.stop) and self.texts.read(self.ids, self.stop).stopped:
            return True
        self._settle()
        return False

    def _settle(self) -> None:
        """Finalise all but the latest tokens if decoding both parts separately gives the same text
        as decoding the whole.
        """
        at = len(self.ids) - LATEST
        if at < self._read + LATEST:
            return
        first, rest, whole = (
            self.texts.decode(self.ids[part])
            for part in (slice(self._read, at), slice(at, None), slice(self._read, None))
        )
        # the tokens may be parts of one character
        middle = first.endswith(INCOMPLETE) and rest.startswith(INCOMPLETE)
        if not middle and whole in (first + rest, f"{first} {rest}"):
            text = self._before + whole.removesuffix(rest)
            self._read = at
            self._before = (text if self._before else text.lstrip())[-self._longest :]


def _decoders(tokenizer: Any) -> set[str]:
    """Return the types of a tokenizer's decoders; only known for tokenizers of the library
    tokenizers.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return {"unknown"}
    decoder = json.loads(backend.decoder.__getstate__()) if backend.decoder else {}
    return {each["type"] for each in (decoder, *decoder.get("decoders", ())) if each}
