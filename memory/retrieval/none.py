"""A strategy without hits, as a baseline: a retrieving editor without its memory."""

from emend.memory.retrieval.base import Corpus, Hit


class NoRetrieval:
    """A strategy without hits: every query is out of scope."""

    def __init__(self, corpus: Corpus | None = None) -> None:
        del corpus  # none of its entries is ever a hit

    def search(self, query: str, k: int) -> list[Hit]:
        """Always empty."""
        del query, k
        return []
