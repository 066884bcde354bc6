"""Texts longer than an encoder's window: splitting them into pieces, and a warning.

Recall@1 of MiniLM for 500 questions over 400 DocTER documents (380 tokens on average): 90.0% with
the mean vector of pieces of half a window, 90.4% with the best piece; 89.0% and 89.2% with pieces
of a whole window; 88.0% with truncation. The mean is a single vector, which every memory can store.
On the turns of BEAM's chats, which begin with their topic, the mean is worse than truncation:
recall@10 of the evidence is 48.7% against 55.1%.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
_BOUNDARY = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
# How a reranker reads a long text.
BEST_PIECE = "the best of their pieces counts"
# A tokenizer without a limit reports a larger window than this.
NO_WINDOW = 1_000_000


class EncoderWindow:
    """The window of an encoder in tokens; splits longer texts into pieces.

    Args:
        tokenizer: the encoder's transformers tokenizer.
        tokens: the window's number of tokens, including special tokens; None is no limit.
        reserved_tokens: number of tokens of the window kept free, for example for a question.
    """

    def __init__(self, tokenizer: Any, tokens: int | None, reserved_tokens: int = 0) -> None:
        self._tokenizer = tokenizer
        self.tokens = NO_WINDOW if tokens is None else min(tokens, NO_WINDOW)
        self._room = max(self.tokens - reserved_tokens - _special_tokens(tokenizer), 2)

    def pieces(self, text: str) -> list[str]:
        """Split a text into pieces of whole sentences, each about half the available tokens long; a
        text that fits is returned as one piece.
        """
        if not self.is_exceeded(text):
            return [text]
        size = max(self._room // 2, 1)
        parts = [part for part in _BOUNDARY.split(text) if part.strip()]
        units = [unit for part in parts for unit in self._halves(part, size)]
        return _filled(units, [self._count(unit) for unit in units], size)

    def is_exceeded(self, text: str) -> bool:
        """Return whether a text does not fit in the window; a token has at least one character."""
        return len(text) > self._room and self._count(text) > self._room

    def _count(self, text: str) -> int:
        ids = self._tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)
        return len(ids["input_ids"])

    def _halves(self, text: str, size: int) -> Iterator[str]:
        """Yield the text, halved recursively (at a space if there is one) until each piece fits."""
        if len(text) <= 1 or self._count(text) <= size:
            yield text
            return
        middle = len(text) // 2
        space = text.find(" ", middle)
        at = space if 0 < space < len(text) - 1 else middle
        for half in (text[:at].strip(), text[at:].strip()):
            if half:
                yield from self._halves(half, size)


def _special_tokens(tokenizer: Any) -> int:
    try:
        return int(tokenizer.num_special_tokens_to_add())
    except (AttributeError, TypeError, NotImplementedError):
        return 2


def _filled(units: Sequence[str], counts: Sequence[int], size: int) -> list[str]:
    """Join consecutive units into pieces of about equal token counts, at most `size` each."""
    number = -(-sum(counts) // size)
    target = sum(counts) / number
    pieces: list[list[str]] = [[]]
    used = 0
    for unit, count in zip(units, counts, strict=True):
        is_full = used + count > size or (used >= target and len(pieces) < number)
        if pieces[-1] and is_full:
            pieces.append([])
            used = 0
        pieces[-1].append(unit)
        used += count
    return [" ".join(piece) for piece in pieces]


def best_of_pieces(
    score: Callable[[list[str]], Vectors], pieces: Sequence[Sequence[str]]
) -> Vectors:
    """Return the highest score among each text's pieces, shape (len(pieces),).

    Args:
        score: scores texts; returns shape (texts,).
        pieces: the pieces of each text, at least one.
    """
    scores = np.asarray(score(list(chain.from_iterable(pieces))))
    return np.maximum.reduceat(scores, _starts(pieces)) if len(pieces) else scores


def mean_of_pieces(vectors: Vectors, pieces: Sequence[Sequence[str]], *, unit: bool) -> Vectors:
    """Return the mean vector of each text's pieces, normalised to length 1 if `unit`; a single
    piece keeps its vector.
    """
    counts = np.array([len(part) for part in pieces])
    means = np.add.reduceat(vectors, _starts(pieces), axis=0) / counts[:, None]
    if unit:
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        means = np.where(counts[:, None] > 1, means / np.maximum(lengths, 1e-9), means)
    return np.asarray(means, dtype=np.float32)


def _starts(pieces: Sequence[Sequence[str]]) -> NDArray[np.intp]:
    return np.cumsum([0, *map(len, pieces)])[:-1]


class LengthWarning:
    """Warns once if texts are longer than an encoder's window, and says how they are encoded.

    Args:
        name: the encoder's name.
        tokens: the encoder's window in tokens.
        remedy: how long texts are encoded, and the setting that changes it.
    """

    def __init__(self, name: str, tokens: int, remedy: str) -> None:
        self._name, self._tokens, self._remedy = name, tokens, remedy
        self._texts = self._long = 0

    @property
    def note(self) -> str:
        """The number of long texts so far, with the remedy; empty if there are none."""
        if not self._long:
            return ""
        return (
            f"{self._name} reads {self._tokens} tokens, and {self._long} of {self._texts} texts "
            f"have more: {self._remedy}"
        )

    def look(self, are_long: Iterable[bool]) -> None:
        """Count the texts that are too long, whether new or already encoded."""
        is_said = self._long > 0
        flags = list(are_long)
        self._texts += len(flags)
        self._long += sum(flags)
        if self._long and not is_said:
            logging.getLogger(__name__).warning("%s", self.note)
