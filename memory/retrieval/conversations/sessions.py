"""Search over whole sessions, which returns the turns of the best ones."""

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from emend.memory.embeddings.embed import Vectors
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.conversations.dates import day_words, parse_day
from emend.memory.retrieval.conversations.turns import TurnOrder
from emend.memory.retrieval.conversations.vocabulary import CHAT_WORDS
from emend.memory.retrieval.conversations.window import ReplacedTexts
from emend.memory.retrieval.exact import DECIMALS, ExactCorpus, best
from emend.memory.retrieval.tokens import words

TITLE_WORDS = 8
STEM_SEARCH = partial(BM25, tokens="stems", stop_words=CHAT_WORDS, k1=1.2, b=0.6)


class Sessions:
    """The sessions of a memory as entries, each with the mean of its turns' vectors.

    Long sessions are split into stretches, which count as sessions here.

    Args:
        corpus: the entries.
        titled: index only the session's date and title (its most characteristic words) instead of
            its whole text.
    """

    def __init__(self, corpus: Corpus, titled: bool = False) -> None:
        turns = TurnOrder(corpus.entries())
        numbers: dict[str, int] = {}
        self.of = np.array(
            [numbers.setdefault(name, len(numbers)) for name in turns.stretches], np.intp
        )
        """Session number of each entry; shape (entries,)."""
        self.count = len(numbers)
        members: list[list[int]] = [[] for _ in numbers]
        for position in turns.order:
            members[self.of[position]].append(position)
        texts = [" ".join(turns.entries[each].text for each in positions) for positions in members]
        texts = session_titles(texts) if titled else texts
        self.entries = [
            _session_entry(number, turns.entries[positions[0]], text)
            for number, (positions, text) in enumerate(zip(members, texts, strict=True))
        ]
        self.corpus: Corpus = ReplacedTexts(corpus, self.entries)
        if isinstance(corpus, ExactCorpus) and members:
            self.corpus = corpus.replaced(self.entries, _means(corpus.vectors, members))


def session_titles(texts: list[str]) -> list[str]:
    """Return a title for each text: its words with the highest tf-idf weights."""
    counts = [Counter(words(text, CHAT_WORDS)) for text in texts]
    spread = Counter(word for count in counts for word in count)
    titles = []
    for count in counts:
        weights = {
            word: n * math.log(1 + len(texts) / spread[word])
            for word, n in count.items()
            if len(word) > 2
        }
        titles.append(
            " ".join(sorted(weights, key=lambda word: (-weights[word], word))[:TITLE_WORDS])
        )
    return titles


def _session_entry(number: int, first: Entry, text: str) -> Entry:
    day = parse_day(first.time)
    return first.model_copy(
        update={"id": f"{number:06d}", "text": f"{day_words(day)} {text}" if day else text}
    )


def _means(vectors: Vectors, members: list[list[int]]) -> Vectors:
    means = np.stack([vectors[positions].mean(axis=0) for positions in members])
    return np.asarray(
        means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9), np.float32
    )


class SessionSearch:
    """Search over sessions by another strategy; turns within a session are ranked by BM25.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches the sessions.
        titled: search the titles and dates of the sessions instead of their whole texts.
        count: number of sessions whose turns are hits.
    """

    def __init__(
        self,
        corpus: Corpus,
        inner: Callable[[Corpus], Retriever] = STEM_SEARCH,
        titled: bool = False,
        count: Annotated[int, Field(ge=1)] = 3,
    ) -> None:
        self._entries = corpus.entries()
        self._sessions = Sessions(corpus, titled)
        self._inner, self._count = inner(self._sessions.corpus), count
        self._turns = STEM_SEARCH(corpus)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k turns: those of the best session, then of the next, and so on."""
        scores = np.full(len(self._entries), -np.inf)
        turn_scores = self._turns.scores(query).astype(np.float64)
        turn_scores = turn_scores / (1 + turn_scores.max(initial=0.0))
        for rank, hit in enumerate(self._inner.search(query, self._count)):
            is_member = self._sessions.of == int(hit.entry.id)
            scores[is_member] = np.round(turn_scores[is_member] - rank, DECIMALS)
        return [
            Hit(entry=self._entries[i], score=float(scores[i]))
            for i in best(scores, k)
            if np.isfinite(scores[i])
        ]
