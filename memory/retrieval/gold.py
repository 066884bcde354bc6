"""The strategy that is told the right answer: an upper bound for all others."""

from emend.memory.errors import BadSettings
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Corpus, Hit


class Gold:
    """The entries of the edits that bear on a probe, in the order of the corpus; nothing for one out of scope.

    It needs the probe, not only its words: it stands alone, and in no chain.

    Args:
        corpus: what may be found.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._entries = corpus.entries()

    def search_probe(self, probe: Probe, k: int) -> list[Hit]:
        """At most k entries of the probe's edits, each with score 1."""
        right = [entry for entry in self._entries if entry.edit_id in probe.edit_ids]
        return [Hit(entry=entry, score=1.0) for entry in right[: max(k, 0)]]

    def search(self, query: str, k: int) -> list[Hit]:
        """Refused where there is something to find: words do not tell which edit is right.

        Raises:
            BadSettings: the memory is not empty.
        """
        if not self._entries:
            return []
        raise BadSettings(
            "the retriever 'gold' must be told the probe, and was asked in words: use it alone, not in a chain, and "
            "with an editor that asks for the probe itself (rag, ike)."
        )
