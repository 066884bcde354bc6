"""BM25 (Robertson et al., 1994) in Lucene's variant, computed by bm25s."""

from collections.abc import Collection, Mapping
from typing import Annotated, Literal

import bm25s
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emend.memory.retrieval.base import Corpus, Hit
from emend.memory.retrieval.exact import best
from emend.memory.retrieval.tokens import TOKENS


class BM25:
    """Entries by BM25; only those that share a word with the query are hits, so a score is above 0.

    The index is built when the object is created; searching does not change it, so threads may
    share it.

    Args:
        corpus: the entries to search.
        stop_words: words ignored in entries and queries.
        k1: saturation of the term frequency.
        b: length normalisation, 0 (none) to 1.
        tokens: the tokeniser: `words`, `stems`, `names` or `wordpiece` (see `tokens`).

    Raises:
        MissingExtra: a package that the tokens need is not installed.
    """

    def __init__(
        self,
        corpus: Corpus,
        stop_words: Collection[str] = (),
        k1: Annotated[float, Field(ge=0)] = 1.5,
        b: Annotated[float, Field(ge=0, le=1)] = 0.75,
        tokens: Literal["words", "stems", "names", "wordpiece"] = "words",
    ) -> None:
        self._entries = corpus.entries()
        self._stop_words = frozenset(stop_words)
        self._tokens = TOKENS[tokens]
        texts = [self._words(entry.text) for entry in self._entries]
        self._index: bm25s.BM25 | None = None
        if any(texts):  # bm25s cannot index an empty corpus
            self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
            self._index.index(texts, show_progress=False)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits, best first; equal ones in the order of the corpus, none without a shared
        word.
        """
        scores = self.scores(query)
        return [
            Hit(entry=self._entries[i], score=float(scores[i]))
            for i in best(scores, k)
            if scores[i] > 0
        ]

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of every entry in the order of the corpus, 0 without a shared word;
        shape (len(entries),).
        """
        terms = self._words(query)
        if self._index is None or not terms:
            return np.zeros(len(self._entries), np.float32)
        return np.asarray(self._index.get_scores(terms), np.float32)

    def weighted_scores(self, terms: Mapping[str, float]) -> NDArray[np.float32]:
        """Return the score of every entry for weighted tokens, in the order of the corpus; shape
        (len(entries),).
        """
        scores = np.zeros(len(self._entries), np.float32)
        if self._index is not None:
            for term, weight in terms.items():
                scores += weight * np.asarray(self._index.get_scores([term]), np.float32)
        return scores

    def _words(self, text: str) -> list[str]:
        return [word for word in self._tokens(text) if word not in self._stop_words]
