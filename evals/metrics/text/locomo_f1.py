"""LoCoMo's F1 over stemmed words, and its rule for adversarial questions."""

import re
import string
from collections import Counter
from functools import cache
from typing import Any

# Phrases that LoCoMo's code searches for in an answer to an adversarial question.
REFUSALS = ("no information available", "not mentioned")
_ARTICLES = re.compile(r"\b(?:a|an|the|and)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def stemmed_words(text: str) -> list[str]:
    """Return lower-case Porter stems, without punctuation and articles, as LoCoMo compares them."""
    plain = _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))
    return [_stem(word) for word in plain.split()]


@cache
def _stem(word: str) -> str:
    stemmed: str = _porter().stemWord(word)
    return stemmed


@cache
def _porter() -> Any:
    import snowballstemmer  # imported lazily: few runs need it

    return snowballstemmer.stemmer("porter")


def word_f1(reply: str, gold: str) -> float:
    """Return the F1 of the stemmed words; 0 without a common word."""
    predicted, expected = stemmed_words(reply), stemmed_words(gold)
    common = (Counter(predicted) & Counter(expected)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def parts_f1(reply: str, gold: str) -> float:
    """Return the mean F1 over gold's comma-separated parts, each with the reply's best part."""
    replies = [part.strip() for part in reply.split(",")]
    golds = [part.strip() for part in gold.split(",")]
    return sum(max(word_f1(part, item) for part in replies) for item in golds) / len(golds)


def locomo_f1(kind: str, reply: str, gold: str) -> float:
    """Return LoCoMo's score of a reply, as computed by its code.

    Args:
        kind: category of the question. `adversarial` requires one of `REFUSALS` in the reply,
            `multi_hop` scores each part of gold, and `open_domain` cuts gold at a semicolon.
        reply: the whole answer.
        gold: the right answer.
    """
    if kind == "adversarial":
        return float(any(refusal in reply.lower() for refusal in REFUSALS))
    if kind == "multi_hop":
        return parts_f1(reply, gold)
    if kind == "open_domain":
        gold = gold.partition(";")[0].strip()
    return word_f1(reply, gold)
