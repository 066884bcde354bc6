"""Searches in two steps: the second adds words or names of the first hits to the query."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field

from emend.memory.retrieval.base import Corpus, Hit, Retriever
from emend.memory.retrieval.conversations.turns import utterance
from emend.memory.retrieval.conversations.vocabulary import CHAT_WORDS
from emend.memory.retrieval.default import Default
from emend.memory.retrieval.exact import DECIMALS
from emend.memory.retrieval.tokens import names, stems, words

FIRST = 3
DEPTH = 100
Count = Annotated[int, Field(ge=1)]


class Feedback:
    """Pseudo-relevance feedback: a second search with frequent words of the first hits.

    The method follows Rocchio and Lavrenko's RM3.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches twice.
        first: number of hits whose words are added.
        terms: number of words that are added.
        weight: weight of the second search's scores.
    """

    def __init__(
        self,
        corpus: Corpus,
        inner: Callable[[Corpus], Retriever] = Default,
        first: Count = FIRST,
        terms: Count = 8,
        weight: Annotated[float, Field(ge=0)] = 0.3,
    ) -> None:
        self._inner = inner(corpus)
        self._first, self._terms, self._weight = first, terms, weight
        self._spread = Counter(stem for entry in corpus.entries() for stem in {*stems(entry.text)})

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k hits of both searches, by the weighted sum of their scores."""
        hits = self._inner.search(query, max(k, DEPTH)) if k > 0 else []
        added = self._words(query, hits[: self._first])
        return (
            added_hits(hits, self._inner.search(added, max(k, DEPTH)), self._weight)[:k]
            if added
            else hits[:k]
        )

    def _words(self, query: str, hits: Sequence[Hit]) -> str:
        """Return words of the hits that are rare in other entries and not in the query."""
        query_stems = {*stems(query)}
        weights: Counter[str] = Counter()
        for hit in hits:
            # In text order: the order of a set differs between processes, and equal weights are
            # common.
            for word in dict.fromkeys(words(utterance(hit.entry.text), CHAT_WORDS)):
                stem = stems(word)[0]
                if stem not in query_stems:
                    weights[word] += 1 / (1 + self._spread[stem])  # type: ignore[assignment]
        return " ".join(word for word, _ in weights.most_common(self._terms))


class Bridge:
    """Two-hop search: a second search with the names in the first hits.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches twice.
        first: number of hits whose names are added.
        weight: weight of the second search's scores.
    """

    def __init__(
        self,
        corpus: Corpus,
        inner: Callable[[Corpus], Retriever] = Default,
        first: Count = FIRST,
        weight: Annotated[float, Field(ge=0)] = 0.3,
    ) -> None:
        self._inner = inner(corpus)
        self._first, self._weight = first, weight

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k hits of both searches, by the weighted sum of their scores."""
        hits = self._inner.search(query, max(k, DEPTH)) if k > 0 else []
        asked_names = {*names(query), *(word for name in names(query) for word in name.split())}
        new_names = [
            name
            for hit in hits[: self._first]
            for name in names(utterance(hit.entry.text))
            if name not in asked_names
        ]
        if not new_names:
            return hits[:k]
        second = f"{query} {' '.join(name.title() for name in dict.fromkeys(new_names))}"
        return added_hits(hits, self._inner.search(second, max(k, DEPTH)), self._weight)[:k]


def added_hits(first: Sequence[Hit], second: Sequence[Hit], weight: float) -> list[Hit]:
    """Return the hits of two searches, best first, by the first score plus the weighted second one.

    A hit of only the second search has the lowest score of the first as its first score.
    """
    scores = {hit.entry.id: hit.score for hit in first}
    entries = {hit.entry.id: hit.entry for hit in (*first, *second)}
    floor = min(scores.values(), default=0.0)
    for hit in second:
        scores[hit.entry.id] = scores.get(hit.entry.id, floor) + weight * hit.score
    hits = [
        Hit(entry=entries[name], score=round(score, DECIMALS)) for name, score in scores.items()
    ]
    return sorted(hits, key=lambda hit: -hit.score)
