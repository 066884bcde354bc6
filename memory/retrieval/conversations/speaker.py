"""Preference for turns of the speaker whom the query names."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever
from emend.memory.retrieval.conversations.instructions import ADDRESS
from emend.memory.retrieval.conversations.turns import ASSISTANT, USER, speaker_of
from emend.memory.retrieval.default import Default
from emend.memory.retrieval.exact import DECIMALS
from emend.memory.retrieval.tokens import whole

DEPTH = 100
# Roles instead of names, which a query may contain for other reasons.
GENERAL = frozenset({USER, ASSISTANT, "system", "document"})
# Factor for turns of the asking user, compared with those of a named speaker; chosen on BEAM.
ASKER = 5.0
_ABOUT_ASKER = re.compile(r"\b(?:I|I'm|I've|my|mine|me|we|our)\b")
_ABOUT_REPLIES = re.compile(r"\b(?:you|your)\b", re.IGNORECASE)


class SpeakerIndex:
    """Index of the speakers of a memory's entries.

    Args:
        entries: turns that begin with their speaker.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._speakers = np.array([speaker_of(entry.text) for entry in entries], object)
        self._names = sorted({name for name in self._speakers if name and name not in GENERAL})
        self._has_user = {USER, ASSISTANT} <= {*self._speakers}

    def speaks(self, query: str) -> NDArray[np.float64]:
        """Return 1 for turns of the speaker whom the query names, else 0; shape (entries,).

        All are 0 if the query names several speakers. In a chat with an assistant, a query about
        the asker ("my deadline") names the user, whose turns get `ASKER`, unless it mentions what
        the assistant said ("you recommended", not "can you").
        """
        named = [name for name in self._names if _is_named(name, query)]
        if (
            not named
            and self._has_user
            and _ABOUT_ASKER.search(query)
            and not _ABOUT_REPLIES.search(ADDRESS.sub("", query))
        ):
            named = [USER]
        if len(named) != 1:
            return np.zeros(len(self._speakers))
        return np.asarray(self._speakers == named[0], np.float64) * (
            ASKER if named == [USER] else 1.0
        )


def _is_named(name: str, query: str) -> bool:
    first = re.split(r"\s", name)[0]
    return bool(whole(first, any_case=True).search(query))


class Speaker:
    """Another strategy's hits, with a bonus for turns of the speaker whom the query names.

    Args:
        corpus: the entries to search.
        inner: the factory of the strategy that searches.
        bonus: added to the scores of such turns, in standard deviations of the scores.
    """

    def __init__(
        self,
        corpus: Corpus,
        inner: Callable[[Corpus], Retriever] = Default,
        bonus: Annotated[float, Field(ge=0)] = 0.5,
    ) -> None:
        entries = corpus.entries()
        self._positions = {entry.id: position for position, entry in enumerate(entries)}
        self._index = SpeakerIndex(entries)
        self._inner, self._bonus = inner(corpus), bonus

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k hits, best first."""
        hits = self._inner.search(query, max(k, DEPTH)) if k > 0 else []
        if not hits:
            return []
        speaks = self._index.speaks(query)
        unit = self._bonus * float(np.std([hit.score for hit in hits]))
        moved = [
            Hit(
                entry=hit.entry,
                score=round(hit.score + unit * speaks[self._positions[hit.entry.id]], DECIMALS),
            )
            for hit in hits
        ]
        return sorted(moved, key=lambda hit: -hit.score)[:k]
