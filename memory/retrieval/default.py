"""The default strategy: a weighted sum of cosine and of BM25 over stems and over names, for the
focused query.
"""

from functools import partial

from emend.memory.retrieval.base import Corpus, Hit
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.dense import Dense
from emend.memory.retrieval.focus import focused
from emend.memory.retrieval.hybrid import Hybrid

# Weights of the cosine and of the two BM25 scores, tuned on DocTER's and AKEW's odd ids and ELKEN's
# training events.
DENSE, STEMS, NAMES = 15.0, 0.7, 1.0
# Weight of the cosine for the lexical embedding, which is largely redundant with BM25 over stems.
LEXICAL = 5.0
STEM_PART = partial(BM25, tokens="stems", k1=1.2, b=0.6)
NAME_PART = partial(BM25, tokens="names", k1=1.0, b=0.0)


class Default:
    """The chain `focus>hybrid` with a third part, and with a fixed weighted sum instead of
    standardised scores.

    The score of an entry is 15 x cosine + 0.7 x BM25 over stems (k1 1.2, b 0.6) + BM25 over names
    (k1 1, b 0: the frequency of a name counts a little, the length of the entry does not). No part
    is normalised over the other entries, so scores of different queries over one memory can be
    compared and thresholded.

    Args:
        corpus: the entries to search.
        dense: weight of the cosine; None is 15, and 5 with the lexical embedding.
        stems: weight of BM25 over stems.
        names: weight of BM25 over names, exact and whole.
    """

    def __init__(
        self, corpus: Corpus, dense: float | None = None, stems: float = STEMS, names: float = NAMES
    ) -> None:
        if dense is None:
            dense = (
                LEXICAL if str(getattr(corpus, "identity", "")).startswith("lexical-") else DENSE
            )
        parts = (Dense, STEM_PART, NAME_PART)
        self._hybrid = Hybrid(corpus, fusion="sum", parts=parts, weights=(dense, stems, names))

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits, best first; equal ones in the order of the corpus."""
        return self._hybrid.search(focused(query), k)
