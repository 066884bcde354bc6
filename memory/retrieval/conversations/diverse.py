"""Diversity of sessions among the hits, for questions whose evidence is spread."""

from collections import Counter
from collections.abc import Callable
from typing import Annotated

import numpy as np
from pydantic import Field

from emend.memory.retrieval.base import Corpus, Hit, Retriever
from emend.memory.retrieval.conversations.turns import TurnOrder
from emend.memory.retrieval.default import Default
from emend.memory.retrieval.exact import DECIMALS

DEPTH = 30


class Diverse:
    """Another strategy's hits, with a penalty for each earlier hit of the same session.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches.
        penalty: subtracted for each earlier hit of the same session, in standard deviations of the
            scores.
    """

    def __init__(
        self,
        corpus: Corpus,
        inner: Callable[[Corpus], Retriever] = Default,
        penalty: Annotated[float, Field(ge=0)] = 0.2,
    ) -> None:
        entries = corpus.entries()
        self._sessions = dict(
            zip((entry.id for entry in entries), TurnOrder(entries).sessions, strict=True)
        )
        self._inner, self._penalty = inner(corpus), penalty

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k hits, best first."""
        left = self._inner.search(query, max(k, DEPTH)) if k > 0 else []
        unit = self._penalty * float(np.std([hit.score for hit in left])) if left else 0.0
        counts: Counter[str] = Counter()
        chosen: list[Hit] = []
        while left and len(chosen) < k:
            reduced = [hit.score - unit * counts[self._sessions[hit.entry.id]] for hit in left]
            best = int(np.argmax(reduced))
            hit = left.pop(best)
            chosen.append(Hit(entry=hit.entry, score=round(reduced[best], DECIMALS)))
            counts[self._sessions[hit.entry.id]] += 1
        return chosen
