"""Near duplicates among short texts, by the words that they share."""

from collections import Counter
from collections.abc import Sequence

from emend.memory.retrieval.tokens import words

THRESHOLD = 0.4
"""ROUGE-1 above which ELKEN drops one of two events (appendix A.2)."""


def rouge_1(first: Counter[str], second: Counter[str]) -> float:
    """The F measure of the words that two texts share, without stemming."""
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else 0.0


def find_duplicates(texts: Sequence[str], threshold: float = THRESHOLD) -> dict[int, int]:
    """By the place of each text that is dropped, that of an earlier one that stays and is too near to it."""
    tokens = [Counter(words(text)) for text in texts]
    dropped: dict[int, int] = {}
    for place, counts in enumerate(tokens):
        earlier = (other for other in range(place) if other not in dropped)
        nearest = next((other for other in earlier if rouge_1(counts, tokens[other]) > threshold), None)
        if nearest is not None:
            dropped[place] = nearest
    return dropped
