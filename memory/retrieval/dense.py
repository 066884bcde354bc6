"""Dense retrieval by cosine similarity."""

from emend.memory.retrieval.base import Corpus, Hit


class Dense:
    """Entries by cosine similarity under the memory's embedding; a score lies in -1..1."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits, best first; equal ones in the order of the corpus."""
        return self._corpus.nearest(query, k)
