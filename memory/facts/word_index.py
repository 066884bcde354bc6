"""Search by words: which stored texts share the rarest words with a query. Words are stored as digests alone."""

import hashlib
import math
from collections.abc import Iterable

from emend.memory.facts.database import FactDatabase
from emend.memory.retrieval.tokens import stems

FREQUENT = 2_000
"""A word of more texts than this counts as a word of so many, and finds the latest of them alone."""


class WordIndex:
    """Stems of texts by user.

    Args:
        database: the file.
    """

    def __init__(self, database: FactDatabase) -> None:
        self._database = database

    def add(self, number: int, user: str, text: str) -> None:
        """Index a text."""
        rows = sorted({(self._code(user, term), number) for term in stems(text)})
        self._database.run_many("INSERT OR IGNORE INTO postings VALUES (?, ?)", rows)

    def remove(self, number: int, user: str, text: str) -> None:
        """Remove a text, which is the one that was added."""
        rows = sorted({(self._code(user, term), number) for term in stems(text)})
        self._database.run_many("DELETE FROM postings WHERE term = ? AND number = ?", rows)

    def find(self, query: str, users: Iterable[str]) -> dict[int, float]:
        """The numbers of the texts that share most with a query, best first, each with its score.

        The score is the sum of the rarity of the shared words.
        """
        scores: dict[int, float] = {}
        terms = list(dict.fromkeys(stems(query)))
        for user in users:
            for term in terms:
                numbers = self._numbers(self._code(user, term))
                rarity = math.log1p(FREQUENT / (1 + len(numbers)))
                for number in numbers:
                    scores[number] = scores.get(number, 0.0) + rarity
        return dict(sorted(scores.items(), key=lambda item: (-item[1], -item[0])))

    def _numbers(self, code: int) -> list[int]:
        select = "SELECT number FROM postings WHERE term = ? ORDER BY number DESC LIMIT ?"
        return [number for (number,) in self._database.rows(select, code, FREQUENT)]

    def _code(self, user: str, term: str) -> int:
        """A digest of a user's word, which tells neither to those who lack the file's salt."""
        digest = hashlib.blake2b(f"{user}\0{term}".encode(), digest_size=8, key=self._database.salt).digest()
        return int.from_bytes(digest, "big", signed=True)
