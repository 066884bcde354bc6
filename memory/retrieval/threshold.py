"""A threshold on another strategy's score, below which a query counts as out of scope."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Hit, Retriever
from emend.memory.retrieval.default import Default

# The value that is compared with the threshold: the best hit's score, or its lead over the best hit
# of another edit.
Sign = Literal["score", "lead"]

DEPTH = 10


class Threshold:
    """Another strategy's hits if the first reaches a threshold; none otherwise.

    Scales differ between strategies, memories and embeddings: `calibrate` chooses the threshold on
    examples.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches.
        least: the threshold; values equal to it pass.
        by: `score` of the first hit, or its `lead` over the first hit of another edit among the
            first ten hits.
    """

    def __init__(
        self,
        corpus: Corpus,
        inner: Callable[[Corpus], Retriever] = Default,
        least: float = 0.0,
        by: Sign = "score",
    ) -> None:
        self._inner = inner(corpus)
        self._least = least
        self._by = by

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits, best first; empty when the query is out of scope."""
        if k <= 0:
            return []
        hits = self._inner.search(query, max(k, DEPTH))
        return hits[:k] if hits and confidence(hits, self._by) >= self._least else []


def confidence(hits: Sequence[Hit], by: Sign) -> float:
    """Return the value of hits (at least one) that is compared with a threshold; the lead of a hit
    without a rival is its score.
    """
    first = hits[0]
    if by == "score":
        return first.score
    rivals = (hit.score for hit in hits[:DEPTH] if hit.entry.edit_id != first.entry.edit_id)
    return first.score - next(rivals, 0.0)


def calibrate(confidences: Sequence[float], keep: float = 0.95) -> float:
    """Return the highest threshold that keeps at least this share of the correct hits.

    Args:
        confidences: confidences of the queries whose first hit is correct.
        keep: the share, above 0 and at most 1.

    Raises:
        BadSettings: no confidences, or an impossible share.
    """
    if not 0 < keep <= 1:
        raise BadSettings(f"keep={keep}: give a share above 0 and at most 1, for example 0.95.")
    if not confidences:
        raise BadSettings(
            "there are no correct hits to calibrate on: use more queries, or choose "
            "another strategy."
        )
    return float(np.sort(confidences)[int(np.floor((1 - keep) * len(confidences) + 1e-9))])
