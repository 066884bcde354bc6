"""Baseline systems that keep the turns unchanged and recall all, some or none of them."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from emend.evals.streams.system import ContextItem, StoreSize, SystemContext, item_of
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Corpus, Entry
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.retrieval.tokens import FUNCTION_WORDS, words

# Maximum number of turns that `grep` and `bm25_newest` recall, before the budget.
TOP = 40


class TurnList:
    """Base class of systems that keep the turns in order, without repetition."""

    def __init__(self, context: SystemContext) -> None:
        self.context = context
        self.turns: dict[str, Turn] = {}

    def observe(self, turn: Turn) -> None:
        """Keep the turn."""
        self.turns.setdefault(turn.id, turn)

    def size(self) -> StoreSize:
        """Return the number of turns and the size of their texts in bytes."""
        return StoreSize(
            len(self.turns), sum(len(turn.text.encode()) for turn in self.turns.values())
        )


class Empty(TurnList):
    """Baseline that recalls nothing."""

    def observe(self, turn: Turn) -> None:
        """Do nothing."""

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return no items."""
        return ()


class Oracle(TurnList):
    """Baseline that recalls the turns which decide the answer."""

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the evidence of the question that has been observed."""
        return [item_of(turn) for turn in self.context.evidence(question) if turn.id in self.turns]


class FullContext(TurnList):
    """Baseline that recalls all turns."""

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return all turns, newest first."""
        return [item_of(turn) for turn in reversed(self.turns.values())]


class Grep(TurnList):
    """Baseline that keeps turns as lines of one file per session, searched like `grep -i`."""

    def __init__(self, context: SystemContext) -> None:
        super().__init__(context)
        self._lines: dict[str, set[int]] = defaultdict(set)
        """Numbers of the lines that contain each word."""
        self._order: list[str] = []

    def observe(self, turn: Turn) -> None:
        """Append the turn as a line."""
        if turn.id not in self.turns:
            super().observe(turn)
            for word in {*words(turn.text)}:
                self._lines[word].add(len(self._order))
            self._order.append(turn.id)

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the lines that share most words with the question, newer ones first."""
        asked_for = {*words(re.sub(r"\d{4}-\d\d-\d\d", "", question.text), FUNCTION_WORDS)}
        counts = Counter(number for word in asked_for for number in self._lines.get(word, ()))
        best = sorted(counts, key=lambda number: (-counts[number], -number))[:TOP]
        return [item_of(self.turns[self._order[number]]) for number in best]


class Bm25Newest(TurnList):
    """Baseline that recalls the best turns by BM25, newest first."""

    def __init__(self, context: SystemContext) -> None:
        super().__init__(context)
        self._index: BM25 | None = None

    def observe(self, turn: Turn) -> None:
        """Keep the turn; the index is rebuilt at the next question."""
        super().observe(turn)
        self._index = None

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Return the best turns, newest first."""
        if self._index is None:
            self._index = BM25(_corpus(list(self.turns.values())), tokens="stems")
        best = {hit.entry.id for hit in self._index.search(question.text, TOP)}
        return [item_of(turn) for turn in reversed(self.turns.values()) if turn.id in best]


def _corpus(turns: Sequence[Turn]) -> Corpus:
    """Return the turns as a corpus that is searched by words only."""
    entries = [Entry(id=turn.id, edit_id=turn.id, text=turn.text or " ") for turn in turns]
    return ExactCorpus(
        entries, np.zeros((len(entries), 1), np.float32), QueryVectors(LexicalEmbedding(1))
    )
