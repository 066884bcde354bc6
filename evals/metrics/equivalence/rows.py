"""Questions with gold answers and a reply, parsed once for all features."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from emend.agents.parsing.passages import read_passage, sentences, without_question
from emend.memory.values.forms import LIGHT_WORDS, content_words, word_stem
from emend.memory.values.text import ValueText, value_text
from emend.memory.values.tokens import Token

# Maximum number of characters of a reply that are used.
LONGEST = 1500
SENTENCES = 6


class RepliedQuestion(NamedTuple):
    """A question, its gold answers, a reply, and wrong values such as an edit's old object."""

    question: str
    golds: tuple[str, ...]
    reply: str
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadReply:
    """The passage of a reply that answers a question, with its sentences and values."""

    question: str
    reply: str

    @cached_property
    def text(self) -> ValueText:
        """The passage, prepared for the search of values."""
        return value_text(read_passage(self.reply[:LONGEST]))

    @cached_property
    def sentences(self) -> list[str]:
        """The first sentences; one empty sentence for an empty reply."""
        return sentences(self.text.plain)[:SENTENCES] or [""]

    @cached_property
    def first(self) -> ValueText:
        """The first sentence, prepared for the search of values."""
        return value_text(self.sentences[0])

    @cached_property
    def starts(self) -> list[int]:
        """The position in the passage at which each sentence starts."""
        positions: list[int] = []
        start = 0
        for sentence in self.sentences:
            start = max(start, self.text.plain.find(sentence, start))
            positions.append(start)
            start += len(sentence)
        return positions

    @cached_property
    def core(self) -> str:
        """The first sentence without a restated question."""
        return without_question(self.sentences[0], self.question)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of the passage."""
        return frozenset(self.text.stems)

    @cached_property
    def first_stems(self) -> frozenset[str]:
        """Stems of the first sentence."""
        return frozenset(self.first.stems)

    @cached_property
    def new_words(self) -> list[Token]:
        """Content words of the first sentence that the question does not have."""
        return new_words(self.first, self.question)

    def sentence_at(self, position: int) -> int:
        """Return the number of the sentence at a position of the passage."""
        return sum(start <= position for start in self.starts) - 1


def new_words(text: ValueText, question: str) -> list[Token]:
    """Return the content words of a text that its question does not have."""
    question_words = question_stems(question)
    return [
        token
        for token in text.tokens
        if token.form not in LIGHT_WORDS and word_stem(token) not in question_words
    ]


@lru_cache(maxsize=1 << 14)
def question_stems(question: str) -> frozenset[str]:
    """Return the stems of a question's content words."""
    return frozenset(content_words(question))


@lru_cache(maxsize=1 << 14)
def gold_words(gold: str, question: str) -> tuple[Token, ...]:
    """Return the content words of a gold answer that the question does not have, or all words if
    none are left.
    """
    text = value_text(gold)
    return tuple(new_words(text, question) or text.tokens)


def distinct(golds: Sequence[str]) -> list[str]:
    """Return the distinct gold answers that have words."""
    return [gold for gold in dict.fromkeys(golds) if value_text(gold).tokens]
