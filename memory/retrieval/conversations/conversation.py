"""Default strategy for conversations, which combines the scores of several searches."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emend.memory.retrieval.base import Corpus, Entry, Hit
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.conversations.dates import DateIndex
from emend.memory.retrieval.conversations.instructions import asks_for_help, standing_bonus
from emend.memory.retrieval.conversations.newest import DEPTH, UpdateOrder
from emend.memory.retrieval.conversations.sessions import STEM_SEARCH, Sessions
from emend.memory.retrieval.conversations.speaker import SpeakerIndex
from emend.memory.retrieval.conversations.topic import topic_of
from emend.memory.retrieval.conversations.turns import TurnOrder, utterance
from emend.memory.retrieval.conversations.vocabulary import CHAT_WORDS, Related
from emend.memory.retrieval.conversations.window import windowed
from emend.memory.retrieval.default import NAME_PART
from emend.memory.retrieval.exact import DECIMALS, ExactCorpus, best
from emend.memory.retrieval.tokens import stems

Floats = NDArray[np.float64]
Scores = NDArray[np.floating[Any]]
Weight = Annotated[float, Field(ge=0)]

# Weights of standardised scores: BM25 over windows of three and of five turns, over names, over
# related words, over dates; cosines of turns and of pairs of turns; sessions; and the speaker whom
# the query names. Chosen on five conversations of LoCoMo by leave-one-out, without loss on twelve
# of BEAM.
NEAR, WIDE, NAMES, RELATED, DATES, DENSE, DENSE_PAIR, SESSION, SPEAKER = (
    0.45,
    0.3,
    0.15,
    0.3,
    1.4,
    0.8,
    0.5,
    0.3,
    0.7,
)
# Weights of a turn's form: long turns state more, and so do turns that ask nothing or are in the
# first person.
LENGTH, QUESTION, PERSON = 0.8, 0.5, 0.15
# Share of the lead of the user's previous message that a message inherits, since users continue
# what they wrote ("And on Sundays?"); chosen on BEAM.
CONTINUED = 0.2
# Number of stems above which length no longer counts; the median length; and the standard deviation
# of its logarithm.
FULL_LENGTH, MEDIAN_LENGTH, LENGTH_SPREAD = 15, 12, 0.6
# With fewer sessions, the session scores are scaled down.
FEW_SESSIONS = 10
_PERSONAL = frozenset("i i'm i've i'd i'll my me we our".split())
_WORD = re.compile(r"[\w']+")


class Conversation:
    """Turns by a weighted sum of standardised scores, with newer statements before outdated ones.

    Args:
        corpus: the entries to search: turns that begin with their speaker, dated by `time`.
        near: weight of BM25 over windows of three turns.
        wide: weight of BM25 over windows of five turns.
        dense: weight of the cosine of a turn; pairs of turns get `DENSE_PAIR` / `DENSE` of it.
        related: weight of words of the memory that are related to the query's.
        dates: weight of matching dates.
        session: weight of the session's BM25 score and cosine.
        speaker: bonus for turns of the speaker whom the query names.
        newest: put newer statements before outdated ones.
    """

    def __init__(
        self,
        corpus: Corpus,
        near: Weight = NEAR,
        wide: Weight = WIDE,
        dense: Weight = DENSE,
        related: Weight = RELATED,
        dates: Weight = DATES,
        session: Weight = SESSION,
        speaker: Weight = SPEAKER,
        newest: bool = True,
    ) -> None:
        self._entries = corpus.entries()
        self._parts: list[tuple[float, Callable[[str], Scores]]] = [
            (near, _word_scores(windowed(corpus, 1, 1))),
            (wide, _word_scores(windowed(corpus, 2, 2))),
            (NAMES, NAME_PART(corpus).scores),
            (dense, partial(_cosines, corpus)),
            (dense * DENSE_PAIR / DENSE, partial(_cosines, windowed(corpus, 1, 0))),
        ]
        if dates:
            self._parts.append((dates, DateIndex(corpus).scores))
        if related:
            self._parts.append((related, Related(windowed(corpus, 1, 0)).related_scores))
        self._sessions = _SessionScores(corpus) if session else None
        self._session, self._speaker = session, speaker
        self._speakers = SpeakerIndex(self._entries)
        self._prior = statement_prior(self._entries)
        self._standing = standing_bonus(self._entries)
        self._previous = np.array(TurnOrder(self._entries).previous_requests(), np.intp)
        self._updates = UpdateOrder(corpus) if newest else None

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k hits, with scores in descending order; ties keep the corpus order."""
        if not self._entries or k <= 0:
            return []
        scores = self.scores(query)
        hits = [
            Hit(entry=self._entries[i], score=float(scores[i])) for i in best(scores, max(k, DEPTH))
        ]
        return (self._updates.ordered(query, hits, 1.0) if self._updates else hits)[:k]

    def scores(self, query: str) -> Floats:
        """Return the score of every entry for the query's topic, before the reordering of updates;
        shape (entries,).
        """
        query = topic_of(query)
        total = self._prior + self._speaker * self._speakers.speaks(query)
        for weight, part in self._parts:
            total = total + weight * standardised(part(query))
        if self._sessions is not None:
            total = total + self._session * self._sessions.scores(query)
        if asks_for_help(query):
            total = total + self._standing
        total = total + CONTINUED * np.maximum(total[self._previous] - total, 0)
        return np.round(total, DECIMALS)


class _SessionScores:
    """Standardised scores of sessions, for the turns in them.

    Args:
        corpus: the entries.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._sessions = Sessions(corpus)
        self._index = STEM_SEARCH(self._sessions.corpus)
        self._share = min(1.0, self._sessions.count / FEW_SESSIONS)

    def scores(self, query: str) -> Floats:
        """Return the score of each entry's session, by BM25 and cosine; shape (entries,)."""
        scores = standardised(self._index.scores(query)) + standardised(
            _cosines(self._sessions.corpus, query)
        )
        return np.asarray(self._share * scores[self._sessions.of], np.float64)


def standardised(scores: Scores) -> Floats:
    """Return the scores as standard deviations from their mean; all 0 if they are equal."""
    values = np.asarray(scores, np.float64)
    spread = float(values.std()) if len(values) else 0.0
    return np.zeros(len(values)) if spread < 10.0**-DECIMALS else (values - values.mean()) / spread


def statement_prior(entries: Sequence[Entry]) -> Floats:
    """Return a prior for turns that state something, in weighted deviations; shape (entries,)."""
    prior = np.zeros(len(entries))
    for position, entry in enumerate(entries):
        text = utterance(entry.text)
        length = len([stem for stem in stems(entry.text) if stem not in CHAT_WORDS])
        size = (np.log1p(min(length, FULL_LENGTH)) - np.log1p(MEDIAN_LENGTH)) / LENGTH_SPREAD
        persons = sum(word in _PERSONAL for word in _WORD.findall(text.lower()))
        prior[position] = LENGTH * size - QUESTION * ("?" in text) + PERSON * min(2, persons)
    return prior


def _word_scores(corpus: Corpus) -> Callable[[str], Floats]:
    index = BM25(corpus, tokens="stems", stop_words=CHAT_WORDS, k1=1.2, b=0.6)
    return lambda query: index.scores(query).astype(np.float64)


def _cosines(corpus: Corpus, query: str) -> Floats:
    """Return the cosine of every entry.

    If the vectors are not in memory, entries that are not among the 1000 nearest get the lowest
    cosine of these.
    """
    if isinstance(corpus, ExactCorpus):
        return corpus.cosines(query)
    entries = corpus.entries()
    hits = {hit.entry.id: hit.score for hit in corpus.nearest(query, min(len(entries), 1000))}
    floor = min(hits.values(), default=0.0)
    return np.array([hits.get(entry.id, floor) for entry in entries])
