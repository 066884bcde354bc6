"""Shared words, weighted by how rare they are: BM25 (Robertson et al., 1994) in Lucene's variant, by bm25s."""

import re
from collections.abc import Collection

import bm25s
import numpy as np
from numpy.typing import NDArray

from emend.memory.exact import best
from emend.memory.retrieval.base import Corpus, Hit

# Chinese and Japanese write no spaces: each of their characters counts as a word.
_CHARACTERS = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CHARACTERS}]|[^\W{_CHARACTERS}]+")


def words(text: str, stop_words: Collection[str] = ()) -> list[str]:
    """Lower-cased words of a text, without the stop words."""
    return [word for word in _WORD.findall(text.lower()) if word not in stop_words]


class BM25:
    """Entries by BM25; only those that share a word with the query are found, so a score is above 0.

    The index is built once, here; searching it changes nothing, so that threads may share it.

    Args:
        corpus: what may be found.
        stop_words: words that neither entries nor queries are credited for.
        k1: how soon a repeated word stops adding to the score.
        b: how much long entries are held back, 0 (not at all) to 1.
    """

    def __init__(self, corpus: Corpus, stop_words: Collection[str] = (), k1: float = 1.5, b: float = 0.75) -> None:
        self._entries = corpus.entries()
        self._stop_words = frozenset(stop_words)
        texts = [words(entry.text, self._stop_words) for entry in self._entries]
        self._index: bm25s.BM25 | None = None
        if any(texts):  # bm25s cannot index nothing
            self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
            self._index.index(texts, show_progress=False)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits, best first; equal ones in the order of the corpus, none without a shared word."""
        scores = self.scores(query)
        found = [i for i in best(scores, k) if scores[i] > 0]
        return [Hit(entry=self._entries[i], score=float(scores[i])) for i in found]

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every entry in the order of the corpus, 0 without a shared word; shape (len(entries),)."""
        asked = words(query, self._stop_words)
        if self._index is None or not asked:
            return np.zeros(len(self._entries), np.float32)
        return np.asarray(self._index.get_scores(asked), np.float32)
