"""Fusion of several strategies: weighted sums of their scores, or of reciprocal ranks (Cormack et
al., 2009).
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Hit, Retriever
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.dense import Dense
from emend.memory.retrieval.exact import DECIMALS, ExactCorpus, best

Floats = NDArray[np.float64]

# The constant k of reciprocal rank fusion, as in the paper.
RANK_CONSTANT = 60

# Number of hits requested from each part; all further entries of a larger memory get the last hit's
# score.
DEPTH = 5000


class Hybrid:
    """Entries by the fused scores of several strategies.

    Args:
        corpus: the entries to search.
        fusion: `scores` adds, per query, each part's scores as standard deviations from its mean
            over the entries; `ranks` adds 1 / (60 + rank), equal scores having equal ranks, over
            the parts that found the entry; `sum` adds the scores as they are, so that the totals of
            two queries can be compared.
        parts: the factories of the strategies.
        weights: factors on the parts' scores, one per part; all 1 if none are given.
        depth: number of hits requested from each part.

    Raises:
        BadSettings: not as many weights as parts.
    """

    def __init__(
        self,
        corpus: Corpus,
        fusion: Literal["scores", "ranks", "sum"] = "scores",
        parts: Sequence[Callable[[Corpus], Retriever]] = (Dense, BM25),
        weights: Sequence[float] = (),
        depth: Annotated[int, Field(ge=1)] = DEPTH,
    ) -> None:
        if weights and len(weights) != len(parts):
            raise BadSettings(
                f"hybrid was given {len(weights)} weights for {len(parts)} parts: give one for "
                "each part."
            )
        self._corpus = corpus
        self._weights = tuple(weights) or (1.0,) * len(parts)
        self._entries = corpus.entries()
        self._places = {entry.id: place for place, entry in enumerate(self._entries)}
        self._parts = [part(corpus) for part in parts]
        self._fuse = _FUSIONS[fusion]
        self._depth = depth

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits, best first; equal ones in the order of the corpus, none that no part
        found.
        """
        if not self._entries or k <= 0:
            return []
        total, is_hit = np.zeros(len(self._entries)), np.zeros(len(self._entries), bool)
        for part, weight in zip(self._parts, self._weights, strict=True):
            scores, hits = self._scores(part, query, k)
            total += weight * self._fuse(scores, hits)
            is_hit |= hits
        total = np.where(is_hit, np.round(total, DECIMALS), -np.inf)
        return [
            Hit(entry=self._entries[i], score=float(total[i])) for i in best(total, k) if is_hit[i]
        ]

    def _scores(self, part: Retriever, query: str, k: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Return each entry's score from one part, and whether the part found it; shapes
        (len(entries),).
        """
        # Two shortcuts avoid creating a hit for every entry; subclasses may override `search` and
        # do not use them.
        if type(part) is BM25:
            scores = part.scores(query).astype(np.float64)
            return scores, scores > 0
        if type(part) is Dense and isinstance(self._corpus, ExactCorpus):
            return self._corpus.cosines(query), np.ones(len(self._entries), bool)
        scores, is_hit = np.zeros(len(self._entries)), np.zeros(len(self._entries), bool)
        results = part.search(query, max(self._depth, k))
        # a live view may have newer entries
        hits = [hit for hit in results if hit.entry.id in self._places]
        places = np.array([self._places[hit.entry.id] for hit in hits], np.intp)
        # entries beyond the depth score at most as high as the last hit
        if hits and len(results) >= self._depth:
            scores[:] = hits[-1].score
        scores[places] = [hit.score for hit in hits]
        is_hit[places] = True
        return scores, is_hit


def _deviations(scores: Floats, is_hit: NDArray[np.bool_]) -> Floats:
    """Return z-scores over all entries; all 0 if all scores are equal."""
    spread = scores.std()
    return np.zeros(len(scores)) if spread < 10.0**-DECIMALS else (scores - scores.mean()) / spread


def _reciprocal_ranks(scores: Floats, is_hit: NDArray[np.bool_]) -> Floats:
    """Return 1 / (60 + rank), with ranks from 1, equal for equal scores; 0 for entries that are not
    hits.
    """
    better = np.searchsorted(np.sort(-scores[is_hit]), -scores, side="left")
    return np.where(is_hit, 1.0 / (RANK_CONSTANT + 1 + better), 0.0)


def _plain(scores: Floats, is_hit: NDArray[np.bool_]) -> Floats:
    """Return the scores unchanged."""
    return scores


_FUSIONS: dict[str, Callable[[Floats, NDArray[np.bool_]], Floats]] = {
    "scores": _deviations,
    "ranks": _reciprocal_ranks,
    "sum": _plain,
}
