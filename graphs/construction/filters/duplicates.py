"""Detection of near duplicates among short texts, by shared words or by embeddings."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import MissingExtra
from emend.memory.paths import cache_folder
from emend.memory.retrieval.tokens import words

# ROUGE-1 score above which ELKEN drops one of two events (appendix A.2).
THRESHOLD = 0.4
# Cosine of MiniLM embeddings above which two events are similar in meaning, chosen on ELKEN's
# released events.
SIMILARITY = 0.72

_LOADING = threading.Lock()


def rouge_1(first: Counter[str], second: Counter[str]) -> float:
    """Return the ROUGE-1 F score of two bags of words, without stemming."""
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else 0.0


def find_duplicates(texts: Sequence[str], threshold: float = THRESHOLD) -> dict[int, int]:
    """Return the positions of near duplicates by shared words.

    Keys are positions of dropped texts, values those of earlier, kept texts with a ROUGE-1 score
    above the threshold.
    """
    tokens = [Counter(words(text)) for text in texts]
    return _find_near(
        len(texts), lambda first, second: rouge_1(tokens[first], tokens[second]) > threshold
    )


def find_same_meaning(texts: Sequence[str], embedding: Embedding) -> dict[int, int]:
    """Return the positions of near duplicates by meaning.

    Keys are positions of dropped texts, values those of earlier, kept texts with a cosine
    similarity above `SIMILARITY`.
    """
    vectors = embedding.documents(texts)
    return _find_near(
        len(texts), lambda first, second: float(vectors[first] @ vectors[second]) > SIMILARITY
    )


def _find_near(count: int, is_near: Callable[[int, int], bool]) -> dict[int, int]:
    dropped: dict[int, int] = {}
    for place in range(count):
        earlier = (other for other in range(place) if other not in dropped)
        nearest = next((other for other in earlier if is_near(place, other)), None)
        if nearest is not None:
            dropped[place] = nearest
    return dropped


def meaning_embedding(language: str) -> Embedding | None:
    """Return MiniLM, for which `SIMILARITY` was chosen; None if the language is not English or it
    is not installed.
    """
    with _LOADING:  # items are made in several threads, of which only one should load the model
        return _load_minilm() if language == "en" else None


@cache
def _load_minilm() -> Embedding | None:
    try:
        return load_embedding("minilm", cache_folder("vectors"))
    except MissingExtra:
        return None
