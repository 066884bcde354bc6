"""The oracle strategy, an upper bound for all others."""

from emend.memory.errors import BadSettings
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Corpus, Hit


class GoldRetriever:
    """The entries of a probe's relevant edits, in the order of the corpus; none for a probe out of
    scope.

    It needs the probe, not only a query, and cannot be part of a chain.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._entries = corpus.entries()

    def search_probe(self, probe: Probe, k: int) -> list[Hit]:
        """At most k entries of the probe's edits, each with score 1."""
        relevant = [entry for entry in self._entries if entry.edit_id in probe.edit_ids]
        return [Hit(entry=entry, score=1.0) for entry in relevant[: max(k, 0)]]

    def search(self, query: str, k: int) -> list[Hit]:
        """Raise an error unless the corpus is empty, since a query does not tell which edit is
        relevant.

        Raises:
            BadSettings: the memory is not empty.
        """
        if not self._entries:
            return []
        raise BadSettings(
            "the retriever 'gold' needs the probe, but got a query as text: use it alone, not in "
            "a chain, and with an editor that retrieves for the probe itself (rag, ike)."
        )
