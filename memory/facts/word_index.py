"""Word index that finds the stored texts sharing the rarest words with a query.

Words are stored only as digests.
"""

import hashlib
from collections.abc import Iterable

from emend.memory.facts.database import FactDatabase
from emend.memory.retrieval.tokens import stems

# A word in more texts than this is frequent: it only adds to the scores of texts that rarer words
# find; a query of frequent words alone finds the latest texts.
FREQUENT = 300


class WordIndex:
    """Index of word stems by user.

    Args:
        database: the SQLite file.
    """

    def __init__(self, database: FactDatabase) -> None:
        self._database = database

    def add(self, number: int, user: str, text: str) -> None:
        """Index a text."""
        rows = sorted({(self._code(user, term), number) for term in stems(text)})
        self._database.run_many("INSERT OR IGNORE INTO postings VALUES (?, ?)", rows)

    def remove(self, number: int, user: str, text: str) -> None:
        """Remove a text, which must equal the one that was added."""
        rows = sorted({(self._code(user, term), number) for term in stems(text)})
        self._database.run_many("DELETE FROM postings WHERE term = ? AND number = ?", rows)

    def find(self, query: str, users: Iterable[str]) -> dict[int, float]:
        """Return the scores of the texts that share words with a query, by number, best first.

        Each shared word adds 1 + 1/n to the score if it occurs in n texts, and 0.5 if it is
        frequent.
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
        """Return the numbers of a user's texts that contain all words of a query, oldest first."""
        codes = [self._code(user, term) for term in dict.fromkeys(stems(query))]
        select = " INTERSECT ".join(["SELECT number FROM postings WHERE term = ?"] * len(codes))
        return (
            [number for (number,) in self._database.rows(f"{select} ORDER BY number", *codes)]
            if codes
            else []
        )

    def _latest(self, code: int) -> list[int]:
        """Return the latest texts that contain a word, at most `FREQUENT` + 1."""
        select = "SELECT number FROM postings WHERE term = ? ORDER BY number DESC LIMIT ?"
        return [number for (number,) in self._database.rows(select, code, FREQUENT + 1)]

    def _among(self, code: int, numbers: Iterable[int]) -> list[int]:
        """Return those of the given texts that contain a word."""
        chosen = sorted(numbers)
        select = (
            "SELECT number FROM postings WHERE term = ? AND number IN "
            f"({', '.join('?' * len(chosen))})"
        )
        return [number for (number,) in self._database.rows(select, code, *chosen)]

    def _code(self, user: str, term: str) -> int:
        """Return a digest of a user's word that cannot be reversed without the file's salt."""
        digest = hashlib.blake2b(
            f"{user}\0{term}".encode(), digest_size=8, key=self._database.salt
        ).digest()
        return int.from_bytes(digest, "big", signed=True)
