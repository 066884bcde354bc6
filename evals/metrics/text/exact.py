"""Comparison of whole answers: exact match by character or by value, and ROUGE-L."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from emend.evals.metrics.scores import AnswerReading
from emend.memory.retrieval.tokens import words
from emend.memory.typography import fold_text
from emend.memory.values.dates import Date, find_dates
from emend.memory.values.text import ValueText, glue, value_text

_ARTICLE = re.compile(r"^(?:a|an|the)\s+(?=\S)")
# Marks that are part of a value at its ends: `C++`, `C#`, `60%`, `$5`; a sign before digits is kept
# too.
_KEPT = frozenset("+#%°$€£¥")
_MARKS = frozenset("P Z C".split())
# Rule name: the whole first line is a correct answer.
WHOLE = "the first line is the right answer or an alias"
_PLACEHOLDER = re.compile(r"\s*\[[A-Z]+\]\s*$")


def fold(text: str) -> str:
    """Return the first non-empty line in folded case and typography, without outer punctuation.

    Punctuation of all scripts is removed at both ends. Marks inside are kept, since they
    distinguish names (`AC/DC`, `U.S.`), as are marks that are part of a value. A text that consists
    only of symbols, such as a flag, is unchanged.
    """
    line = next((line for line in text.splitlines() if line.strip()), "")
    folded = fold_text(_PLACEHOLDER.sub("", line))
    return _without_marks(folded) or _symbols(folded)


def _symbols(text: str) -> str:
    """Return the text if it contains a symbol; empty if it is only punctuation."""
    has_symbol = any(unicodedata.category(letter).startswith("S") for letter in text)
    if has_symbol:
        return text.strip()
    return ""


def _without_marks(text: str) -> str:
    start, end = 0, len(text)
    while (
        start < end
        and _is_mark(text[start])
        and not text[start : start + 2].lstrip("-").isdecimal()
    ):
        start += 1
    while end > start and _is_mark(text[end - 1]):
        end -= 1
    return text[start:end]


def _is_mark(letter: str) -> bool:
    """Return whether a character is punctuation, white space or a bullet of any script."""
    if letter in _KEPT:
        return False
    category = unicodedata.category(letter)
    return category[0] in _MARKS or category in ("So", "Sm", "Sk")


@lru_cache(maxsize=65536)
def normalise(text: str) -> str:
    """Apply `fold` and remove one leading English article.

    This is simpler than SQuAD's rule, which drops all punctuation and articles: `C++` would equal
    `C`, and `The A` would become empty.
    """
    return _ARTICLE.sub("", fold(text))


def exact_match(reply: str, golds: Iterable[str]) -> float:
    """Return 1.0 if the normalised reply equals the correct answer or an alias, else 0.0."""
    answer = normalise(reply)
    return float(bool(answer) and any(answer == normalise(gold) for gold in golds))


def read_exact(reply: str, golds: Sequence[str], as_values: bool = False) -> AnswerReading:
    """Return whether a reply's first line is a correct answer, with the deciding rule.

    Args:
        reply: the reply.
        golds: the right answer and its aliases.
        as_values: whether other forms of the same value count too (`value_match`).
    """
    line = normalise(reply)
    if exact_match(reply, golds):
        return AnswerReading(True, line, WHOLE)
    if as_values and value_match(reply, golds):
        return AnswerReading(True, line, "the first line is the right value in another writing")
    return AnswerReading(False, line, "the first line is another text")


def value_match(reply: str, golds: Iterable[str]) -> float:
    """Return 1.0 if the reply's first line has the same value as a gold answer, else 0.0.

    Date orders, numbers in digits or words, initials and accents are normalised (`memory/values`).
    Additional words are not ignored: `It is Paris` does not match *Paris*.
    """
    golds = tuple(golds)
    if exact_match(reply, golds):
        return 1.0
    text = value_text(fold(reply))
    return float(any(_is_value(text, value_text(gold)) for gold in golds))


def _is_value(text: ValueText, gold: ValueText) -> bool:
    if gold.tokens and glue(text.tokens)[0] == glue(gold.tokens)[0]:
        return True
    ours, theirs = _whole_dates(text), _whole_dates(gold)
    return any(date[:3] == other[:3] for date in ours for other in theirs)


def _whole_dates(text: ValueText) -> list[Date]:
    """Return the interpretations of a text that consists only of a date."""
    if not text.tokens:
        return []
    first, last = text.tokens[0].start, text.tokens[-1].end
    return [date for date in find_dates(text.tokens) if date.start == first and date.end == last]


def strict_match(reply: str, golds: Iterable[str]) -> float:
    """Return 1.0 if the reply equals a gold answer character by character, else 0.0.

    This is the rule of MeLLo's released code (Zhong et al. 2023). Case counts. The reply has no
    surrounding white space and keeps its final full stop. A longer reply that contains an alias
    does not match.
    """
    return float(any(reply == gold for gold in golds))


def read_strict(reply: str, golds: Sequence[str]) -> AnswerReading:
    """Return whether a reply equals a right answer exactly (`strict_match`), with the rule."""
    if strict_match(reply, golds):
        return AnswerReading(True, reply, "the right answer or an alias, letter by letter")
    if exact_match(reply, golds):
        return AnswerReading(False, reply, "a right answer in other letters or marks")
    return AnswerReading(False, reply, "another text")


def rouge_l(reply: str, gold: str) -> float:
    """Return ROUGE-L (Lin 2004): F1 of the longest common subsequence of words, from 0 to 1.

    Case is ignored; words are not stemmed.
    """
    first, second = words(reply), words(gold)
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for position, match in enumerate(second, 1):
            if word == match:
                longest = before + 1
            else:
                longest = max(row[position], row[position - 1])
            before, row[position] = row[position], longest
    return 2 * row[-1] / max(1, len(first) + len(second))
