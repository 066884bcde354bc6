"""Query expansion with related words of the memory, by embedding ("instrument" finds "violin")."""

import re
from collections import Counter, defaultdict
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emend.memory.retrieval.base import Corpus, Hit
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.conversations.turns import speaker_of
from emend.memory.retrieval.exact import DECIMALS, best
from emend.memory.retrieval.tokens import stems, words

# Maximum number of related words per query word, and the cosine above which words are related.
RELATED, LEAST = 6, 0.5
WEIGHT = 0.3
# Least number of occurrences of a stem that is embedded: half of the words of a conversation occur
# once, and embedding a word takes a tenth of the time of a turn.
FREQUENT = 2
# Words of chat, beside the function words, that carry no topic.
CHAT_WORDS = frozenset(
    "about am be been can could d did do does don had has have he her him his i if it its just ll "
    "m me my no not our re s she should so t than that their them they this us ve was we were will "
    "would yes you "
    "your".split()
)
_PLAIN = re.compile(r"[^\W\d_]{3,}")


class Vocabulary:
    """Stems of a memory's words, each with the vector of its most frequent form.

    Args:
        corpus: the entries, and the embedding for single words.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        speakers = {word for entry in corpus.entries() for word in words(speaker_of(entry.text))}
        self._ignored = CHAT_WORDS | speakers
        forms: dict[str, Counter[str]] = defaultdict(Counter)
        for entry in corpus.entries():
            for word in words(entry.text, self._ignored):
                if _PLAIN.fullmatch(word):
                    forms[stems(word)[0]][word] += 1
        forms = {stem: counts for stem, counts in forms.items() if counts.total() >= FREQUENT}
        self._stems = list(forms)
        vectors = corpus.embed([counts.most_common(1)[0][0] for counts in forms.values()])
        self._columns = np.ascontiguousarray(vectors.T)

    def related(self, query: str, least: float = LEAST, count: int = RELATED) -> dict[str, float]:
        """Return weights from 0 to 1 of other stems that are related to a word of the query."""
        query_stems = {*stems(query)}
        query_words = [word for word in words(query, self._ignored) if _PLAIN.fullmatch(word)]
        query_words = [word for word in dict.fromkeys(query_words) if stems(word)[0] in query_stems]
        weights: dict[str, float] = {}
        if not query_words or not self._stems:
            return weights
        for cosines in self._corpus.embed(query_words) @ self._columns:
            for place in best(cosines, count):
                stem, cosine = self._stems[place], float(cosines[place])
                if cosine > least and stem not in query_stems:
                    weights[stem] = max(weights.get(stem, 0.0), (cosine - least) / (1 - least))
        return weights


class Related:
    """BM25 over the query's stems and, with less weight, over related words of the memory.

    Args:
        corpus: the entries to search.
        weight: weight of the related words; 1 counts the nearest as much as the query's own.
        least: cosine above which a word is related.
        count: maximum number of related words per query word.
    """

    def __init__(
        self,
        corpus: Corpus,
        weight: Annotated[float, Field(ge=0)] = WEIGHT,
        least: Annotated[float, Field(gt=0, lt=1)] = LEAST,
        count: Annotated[int, Field(ge=1)] = RELATED,
    ) -> None:
        self._entries = corpus.entries()
        self._vocabulary = Vocabulary(corpus)
        self._weight, self._least, self._count = weight, least, count
        self._index = BM25(corpus, tokens="stems", stop_words=CHAT_WORDS, k1=1.2, b=0.6)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k hits with a positive score, best first; ties keep the corpus order."""
        scores = self._index.scores(query) + self._weight * self.related_scores(query)
        scores = np.round(scores.astype(np.float64), DECIMALS)
        return [
            Hit(entry=self._entries[i], score=float(scores[i]))
            for i in best(scores, k)
            if scores[i] > 0
        ]

    def related_scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of every entry for the related words alone; shape (entries,)."""
        return self._index.weighted_scores(
            self._vocabulary.related(query, self._least, self._count)
        )
