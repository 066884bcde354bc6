"""Windows of neighbouring turns that are indexed together; a hit is a single turn."""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from emend.memory.embeddings.embed import Vectors
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever
from emend.memory.retrieval.conversations.turns import TurnOrder
from emend.memory.retrieval.default import STEM_PART
from emend.memory.retrieval.exact import ExactCorpus

# Number of words taken from each neighbour: the last words of a turn before, the first of a turn
# after.
NEIGHBOUR_WORDS = 40
# Weights of the neighbours' vectors in the vector of a window, chosen on LoCoMo.
BEFORE_SHARE, AFTER_SHARE = 0.6, 0.4
Turns = Annotated[int, Field(ge=0, le=5)]


class Window:
    """Search over windows of turns by another strategy; a hit is the central turn of a window.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches the windows.
        before: number of preceding turns in a window.
        after: number of following turns in a window.
    """

    def __init__(
        self,
        corpus: Corpus,
        inner: Callable[[Corpus], Retriever] = STEM_PART,
        before: Turns = 1,
        after: Turns = 0,
    ) -> None:
        self._turns = {entry.id: entry for entry in corpus.entries()}
        self._inner = inner(windowed(corpus, before, after))

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k turns in the order of their windows."""
        hits = self._inner.search(query, k)
        return [Hit(entry=self._turns[hit.entry.id], score=hit.score) for hit in hits]


class ReplacedTexts:
    """A corpus with replaced texts, whose entries keep their original vectors.

    Args:
        corpus: the corpus with the vectors.
        entries: the same entries with other texts, in the same order.
    """

    def __init__(self, corpus: Corpus, entries: Sequence[Entry]) -> None:
        self._corpus, self._entries = corpus, entries
        self._by_id = {entry.id: entry for entry in entries}
        self.identity = str(getattr(corpus, "identity", ""))

    def entries(self) -> Sequence[Entry]:
        """Return the entries with their replaced texts."""
        return self._entries

    def embed(self, queries: Sequence[str]) -> Vectors:
        """Return the vectors of queries."""
        return self._corpus.embed(queries)

    def nearest(self, query: str, k: int) -> list[Hit]:
        """Return the nearest entries by the vectors of the original corpus."""
        hits = self._corpus.nearest(query, k)
        return [
            Hit(entry=self._by_id[hit.entry.id], score=hit.score)
            for hit in hits
            if hit.entry.id in self._by_id
        ]


def windowed(corpus: Corpus, before: int, after: int) -> Corpus:
    """Return a corpus of windows under the ids of their central turns.

    If the vectors are in memory, a window's vector is the weighted sum of its turns' vectors.
    """
    turns = TurnOrder(corpus.entries())
    entries = [
        entry.model_copy(update={"text": text})
        for entry, text in zip(turns.entries, window_texts(turns, before, after), strict=True)
    ]
    if isinstance(corpus, ExactCorpus) and entries:
        return corpus.replaced(entries, window_vectors(turns, corpus.vectors, before, after))
    return ReplacedTexts(corpus, entries)


def window_texts(turns: TurnOrder, before: int, after: int) -> list[str]:
    """Return the text of each entry's window: its turns in order, with the neighbours shortened."""
    texts = [entry.text for entry in turns.entries]
    for distance in range(1, before + 1):
        for position, other in enumerate(turns.neighbours(-distance)):
            if other is not None:
                end = " ".join(turns.entries[other].text.split()[-NEIGHBOUR_WORDS:])
                texts[position] = f"{end}\n{texts[position]}"
    for distance in range(1, after + 1):
        for position, other in enumerate(turns.neighbours(distance)):
            if other is not None:
                start = " ".join(turns.entries[other].text.split()[:NEIGHBOUR_WORDS])
                texts[position] = f"{texts[position]}\n{start}"
    return texts


def window_vectors(turns: TurnOrder, vectors: Vectors, before: int, after: int) -> Vectors:
    """Return the vectors of windows: each turn's plus decreasing shares of its neighbours'.

    Returns:
        Shape (entries, dimensions), rows of length 1.
    """
    total = vectors.astype(np.float32).copy()
    shares = [(-distance, BEFORE_SHARE**distance) for distance in range(1, before + 1)]
    shares += [(distance, AFTER_SHARE**distance) for distance in range(1, after + 1)]
    for distance, share in shares:
        for position, other in enumerate(turns.neighbours(distance)):
            if other is not None:
                total[position] += share * vectors[other]
    lengths = np.linalg.norm(total, axis=1, keepdims=True)
    return np.asarray(total / np.maximum(lengths, 1e-9), np.float32)
