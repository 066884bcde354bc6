"""Retrieval strategies for the toy benchmark whose ranks are known beforehand."""

from emend.memory.retrieval.base import Corpus, Hit

RIGHT = "tests.evals.toy_strategies:Right"
THIRD = "tests.evals.toy_strategies:Third"


class Right:
    """The entry whose country the query names first, the others after it, whatever is asked."""

    shift = 0

    def __init__(self, corpus: Corpus) -> None:
        self.found = corpus.entries()

    def search(self, query: str, k: int) -> list[Hit]:
        country = query.split(" of ")[1].split()[0].strip(",")
        right = [entry for entry in self.found if f" {country} " in entry.text]
        others = [entry for entry in self.found if entry not in right]
        ranked = others[: self.shift] + right + others[self.shift :]
        return [Hit(entry=entry, score=-float(rank)) for rank, entry in enumerate(ranked[:k])]


class Third(Right):
    """The right entry at rank 3."""

    shift = 2
