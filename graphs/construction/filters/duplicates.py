"""Near duplicates among short texts: by the words that they share, or by their vectors."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import MissingExtra
from emend.memory.paths import cache_folder
from emend.memory.retrieval.tokens import words

THRESHOLD = 0.4
"""ROUGE-1 above which ELKEN drops one of two events (appendix A.2)."""
SIMILARITY = 0.72
"""Cosine of MiniLM's vectors above which two events are near in meaning, chosen on ELKEN's released ones."""

_LOADING = threading.Lock()


def rouge_1(first: Counter[str], second: Counter[str]) -> float:
    """The F measure of the words that two texts share, without stemming."""
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else 0.0


def find_duplicates(texts: Sequence[str], threshold: float = THRESHOLD) -> dict[int, int]:
    """By the place of each text that is dropped, that of an earlier one that stays and shares too many words."""
    tokens = [Counter(words(text)) for text in texts]
    return _find_near(len(texts), lambda first, second: rouge_1(tokens[first], tokens[second]) > threshold)


def find_same_meaning(texts: Sequence[str], embedding: Embedding, threshold: float = SIMILARITY) -> dict[int, int]:
    """By the place of each text that is dropped, that of an earlier one that stays and whose vector is too near."""
    vectors = embedding.documents(texts)
    return _find_near(len(texts), lambda first, second: float(vectors[first] @ vectors[second]) > threshold)


def _find_near(count: int, is_near: Callable[[int, int], bool]) -> dict[int, int]:
    dropped: dict[int, int] = {}
    for place in range(count):
        earlier = (other for other in range(place) if other not in dropped)
        nearest = next((other for other in earlier if is_near(place, other)), None)
        if nearest is not None:
            dropped[place] = nearest
    return dropped


def meaning_embedding(language: str) -> Embedding | None:
    """MiniLM, to which `SIMILARITY` belongs; None for a language other than English, or where it is not installed."""
    with _LOADING:  # items are made in several threads, and one of them loads it
        return _load_minilm() if language == "en" else None


@cache
def _load_minilm() -> Embedding | None:
    try:
        return load_embedding("minilm", cache_folder("vectors"))
    except MissingExtra:
        return None
