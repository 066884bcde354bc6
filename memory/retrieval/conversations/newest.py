"""Reordering of hits, which puts a newer statement before an outdated one about the same thing."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from emend.memory.retrieval.base import Corpus, Hit, Retriever
from emend.memory.retrieval.conversations.turns import TurnOrder, utterance
from emend.memory.retrieval.conversations.vocabulary import CHAT_WORDS
from emend.memory.retrieval.default import Default
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.tokens import stems

# Number of top hits that may change places.
DEPTH = 10
# Characters of a statement that are searched: a change is stated at the beginning of a message.
HEAD = 400
# Thresholds for a newer statement: the least share of the query's words (weighted by rarity) that
# it contains; with a word of change, the least ratio to the older statement's share, also used as
# the least cosine; without such a word, the least cosine, the least ratio, and the largest lead in
# score that the older statement may have, in standard deviations. Chosen on the updates of BEAM.
COVERED, CUED, ALIKE, LIKELY, GAP = 0.19, 0.25, 0.5, 0.75, 4.0

_CHANGE = re.compile(
    r"\b(?:new|newly|now|currently|updat\w*|adjust\w*|chang\w*|mov(?:ed|ing)|resched\w*|extend\w*|"
    r"increas\w*|decreas\w*"
    r"|improv\w*|reach\w*|grew|grow\w*|postpon\w*|push\w* "
    r"(?:back|to)|switch\w*|rais(?:ed|ing)|reduc\w*|instead"
    r"|revis\w*|bump\w*|recent\w*|latest|since then|no longer|anymore)\b",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b", re.IGNORECASE
)
_ASKS = re.compile(r"\b(?:how|when|what|which|who|where)\b", re.IGNORECASE)
_PRESENT = re.compile(
    r"\b(?:is|are|am|'s|does|do|has|have|should|can|will|current\w*|now)\b", re.IGNORECASE
)
_PAST = re.compile(
    r"\b(?:did|was|were|had|at first|first "
    r"(?:time|mention\w*|sa[iy]\w*|plan\w*|tell|told)|original\w*|initial\w*"
    r"|before|used to|previous\w*|earlier|between|since|order|list|summar\w*|why)\b",
    re.IGNORECASE,
)


def asks_for_present(query: str) -> bool:
    """Return whether a question asks about the present, not an earlier time, order or reason."""
    question = query.partition("?")[0]
    return bool(
        _ASKS.search(question[:40]) and _PRESENT.search(question) and not _PAST.search(question)
    )


class _Statement(NamedTuple):
    rank: int
    """Position of the turn in the conversation."""
    share: float
    """Share of the query's words, weighted by rarity, that the turn contains."""
    has_value: bool
    says_change: bool
    position: int
    deviations: float
    """Score of the hit, in standard deviations of all scores."""


class UpdateOrder:
    """Reordering of hits that moves newer statements before outdated ones.

    Args:
        corpus: the entries.
    """

    def __init__(self, corpus: Corpus) -> None:
        entries = corpus.entries()
        self._positions = {entry.id: position for position, entry in enumerate(entries)}
        turns = TurnOrder(entries)
        self._ranks, self._speakers = turns.ranks, turns.speakers
        self._vectors = corpus.vectors if isinstance(corpus, ExactCorpus) and entries else None
        self._stems = [frozenset(stems(entry.text)) for entry in entries]
        spread = Counter(stem for entry_stems in self._stems for stem in entry_stems)
        self._rarity = {stem: math.log(1 + len(entries) / n) for stem, n in spread.items()}

    def ordered(self, query: str, hits: Sequence[Hit], deviation: float) -> list[Hit]:
        """Return the hits with newer statements before outdated ones, and descending scores.

        Args:
            query: a question; the order changes only if it asks about the present.
            hits: best first; only the first `DEPTH` may change places.
            deviation: the standard deviation of all scores.
        """
        if len(hits) < 2 or not asks_for_present(query):
            return list(hits)
        query_stems = {
            stem for stem in stems(query) if stem in self._rarity and stem not in CHAT_WORDS
        }
        statements = [self._statement(hit, query_stems, deviation) for hit in hits[:DEPTH]]
        order: list[int] = []
        for number, statement in enumerate(statements):
            earlier = (
                at for at, other in enumerate(order) if self._replaces(statement, statements[other])
            )
            order.insert(next(earlier, len(order)), number)
        moved = [
            Hit(entry=hits[number].entry, score=hits[at].score) for at, number in enumerate(order)
        ]
        return [*moved, *hits[DEPTH:]]

    def _statement(self, hit: Hit, query_stems: set[str], deviation: float) -> _Statement:
        position, head = self._positions[hit.entry.id], utterance(hit.entry.text)[:HEAD]
        whole = sum(self._rarity[stem] for stem in query_stems) or 1.0
        return _Statement(
            rank=self._ranks[position],
            share=sum(self._rarity[stem] for stem in query_stems & self._stems[position]) / whole,
            has_value=bool(_VALUE.search(head)),
            says_change=bool(_CHANGE.search(head)),
            position=position,
            deviations=hit.score / deviation if deviation else 0.0,
        )

    def _replaces(self, new: _Statement, old: _Statement) -> bool:
        """Return whether `new` is later than `old`, gives a value, and is about the same thing."""
        if new.rank <= old.rank or not new.has_value:
            return False
        if self._speakers[new.position] != self._speakers[old.position]:
            return False  # a reply that repeats the statement
        likeness = self._likeness(new.position, old.position)
        if (
            new.says_change
            and new.share >= COVERED
            and new.share >= CUED * old.share
            and likeness >= CUED
        ):
            return True
        is_close = new.deviations >= old.deviations - GAP and new.share >= LIKELY * old.share
        return old.has_value and is_close and likeness >= ALIKE

    def _likeness(self, first: int, second: int) -> float:
        """Return the cosine of two entries, or without vectors the share of common stems."""
        if self._vectors is not None:
            return float(np.dot(self._vectors[first], self._vectors[second]))
        stems_a, stems_b = self._stems[first], self._stems[second]
        return len(stems_a & stems_b) / max(1, min(len(stems_a), len(stems_b)))


class Newest:
    """Another strategy's hits, with newer statements before outdated ones.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches.
    """

    def __init__(self, corpus: Corpus, inner: Callable[[Corpus], Retriever] = Default) -> None:
        self._inner, self._updates = inner(corpus), UpdateOrder(corpus)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k hits, with scores in descending order."""
        hits = self._inner.search(query, max(k, DEPTH)) if k > 0 else []
        deviation = float(np.std([hit.score for hit in hits])) if hits else 0.0
        return self._updates.ordered(query, hits, deviation)[:k]
