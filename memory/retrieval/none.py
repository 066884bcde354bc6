"""The strategy that finds nothing: what an editor that retrieves does without its memory."""

from emend.memory.retrieval.base import Corpus, Hit


class Nothing:
    """Every query is out of scope."""

    def __init__(self, corpus: Corpus) -> None:
        del corpus  # nothing of it is ever found

    def search(self, query: str, k: int) -> list[Hit]:
        """Always empty."""
        del query, k
        return []
