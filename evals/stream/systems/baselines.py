"""Systems that keep the turns as they are: all of them, searched by words, chosen by gold, or none."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from emend.evals.stream.system import ContextItem, StoreSize, SystemContext, item_of
from emend.evals.stream.turn import StreamQuestion, Turn
from emend.memory.embeddings.embed import FUNCTION_WORDS, LexicalEmbedding
from emend.memory.retrieval.base import Corpus, Entry
from emend.memory.retrieval.bm25 import BM25
from emend.memory.retrieval.exact import ExactCorpus, QueryVectors
from emend.memory.retrieval.tokens import words

TOP = 40
"""Number of turns that `grep` and `bm25_newest` recall at most, before the budget."""


class TurnList:
    """Base class: the turns in their order, each once."""

    def __init__(self, context: SystemContext) -> None:
        self.context = context
        self.turns: dict[str, Turn] = {}

    def observe(self, turn: Turn) -> None:
        """Keep the turn."""
        self.turns.setdefault(turn.id, turn)

    def size(self) -> StoreSize:
        """Number of turns, and the bytes of their texts."""
        return StoreSize(len(self.turns), sum(len(turn.text.encode()) for turn in self.turns.values()))


class Empty(TurnList):
    """Recalls nothing."""

    def observe(self, turn: Turn) -> None:
        """Do nothing."""

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Nothing."""
        return ()


class Oracle(TurnList):
    """Recalls the turns that decide the answer."""

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """The evidence of the question, as far as it has been observed."""
        return [item_of(turn) for turn in self.context.evidence(question) if turn.id in self.turns]


class FullContext(TurnList):
    """Recalls all turns."""

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """All turns, newest first."""
        return [item_of(turn) for turn in reversed(self.turns.values())]


class Grep(TurnList):
    """Keeps the turns as lines of files, one for each session, and searches them as `grep -i` does."""

    def __init__(self, context: SystemContext) -> None:
        super().__init__(context)
        self._lines: dict[str, set[int]] = defaultdict(set)
        """By word, the numbers of the lines that have it."""
        self._order: list[str] = []

    def observe(self, turn: Turn) -> None:
        """Append the turn as a line."""
        if turn.id not in self.turns:
            super().observe(turn)
            for word in {*words(turn.text)}:
                self._lines[word].add(len(self._order))
            self._order.append(turn.id)

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """Lines by the number of the question's words that they have, newest first among equals."""
        asked_for = {*words(re.sub(r"\d{4}-\d\d-\d\d", "", question.text), FUNCTION_WORDS)}
        counts = Counter(number for word in asked_for for number in self._lines.get(word, ()))
        best = sorted(counts, key=lambda number: (-counts[number], -number))[:TOP]
        return [item_of(self.turns[self._order[number]]) for number in best]


class Bm25Newest(TurnList):
    """Recalls the best turns by BM25, newest first."""

    def __init__(self, context: SystemContext) -> None:
        super().__init__(context)
        self._index: BM25 | None = None

    def observe(self, turn: Turn) -> None:
        """Keep the turn; the index is made anew at the next question."""
        super().observe(turn)
        self._index = None

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        """The best turns, newest first."""
        if self._index is None:
            self._index = BM25(_corpus(list(self.turns.values())), tokens="stems")
        best = {hit.entry.id for hit in self._index.search(question.text, TOP)}
        return [item_of(turn) for turn in reversed(self.turns.values()) if turn.id in best]


def _corpus(turns: Sequence[Turn]) -> Corpus:
    """The turns as a corpus that is searched by words alone."""
    entries = [Entry(id=turn.id, edit_id=turn.id, text=turn.text or " ") for turn in turns]
    return ExactCorpus(entries, np.zeros((len(entries), 1), np.float32), QueryVectors(LexicalEmbedding(1)))
