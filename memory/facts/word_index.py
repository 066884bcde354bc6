"""Search by words: which stored texts share the rarest words with a query. Words are stored as digests alone."""

import hashlib
from collections.abc import Iterable

from emend.memory.facts.database import FactDatabase
from emend.memory.retrieval.tokens import stems

FREQUENT = 300
"""A word of more texts than this is frequent: it ranks what rarer words find, and by itself finds the latest texts."""


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

        The score is the sum of the rarity of the shared words, which is less than 1 for a frequent one.
        """
        scores: dict[int, float] = {}
        terms = dict.fromkeys(stems(query))
        for codes in ([self._code(user, term) for term in terms] for user in dict.fromkeys(users)):
            postings = {code: self._latest(code) for code in codes}
            frequent = {code for code in codes if len(postings[code]) > FREQUENT}
            rare = [postings[code] for code in codes if code not in frequent]
            for numbers in rare:
                for number in numbers:
                    scores[number] = scores.get(number, 0.0) + 1 + 1 / len(numbers)
            candidates = {number for numbers in rare for number in numbers}
            for code in frequent:
                for number in self._among(code, candidates) if candidates else postings[code]:
                    scores[number] = scores.get(number, 0.0) + 0.5
        return dict(sorted(scores.items(), key=lambda item: (-item[1], -item[0])))

    def find_whole(self, query: str, user: str) -> list[int]:
        """The numbers of a user's texts that have all words of a query, oldest first."""
        codes = [self._code(user, term) for term in dict.fromkeys(stems(query))]
        select = " INTERSECT ".join(["SELECT number FROM postings WHERE term = ?"] * len(codes))
        return [number for (number,) in self._database.rows(f"{select} ORDER BY number", *codes)] if codes else []

    def _latest(self, code: int) -> list[int]:
        """The latest texts with a word, one more than `FREQUENT` at most."""
        select = "SELECT number FROM postings WHERE term = ? ORDER BY number DESC LIMIT ?"
        return [number for (number,) in self._database.rows(select, code, FREQUENT + 1)]

    def _among(self, code: int, numbers: Iterable[int]) -> list[int]:
        """Those of the texts that have a word."""
        chosen = sorted(numbers)
        select = f"SELECT number FROM postings WHERE term = ? AND number IN ({', '.join('?' * len(chosen))})"
        return [number for (number,) in self._database.rows(select, code, *chosen)]

    def _code(self, user: str, term: str) -> int:
        """A digest of a user's word, which tells neither to those who lack the file's salt."""
        digest = hashlib.blake2b(f"{user}\0{term}".encode(), digest_size=8, key=self._database.salt).digest()
        return int.from_bytes(digest, "big", signed=True)
