"""Search for facts: the words of a query lead to statements and rules, and what holds of these is the result.

A statement that no longer holds leads to the one that does, so that no search returns what is out of date.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from emend.memory.embeddings.embed import Embedding
from emend.memory.facts.fact import SHARED, FactHit
from emend.memory.facts.fact_reader import FactReader, View
from emend.memory.retrieval.exact import DECIMALS
from emend.memory.store.superseding import fact_id

CANDIDATES = 12
"""Number of facts that are compared by similarity, or `k` if that is more."""

BATCH = 6
"""Number of texts that are read at once."""


@dataclass(frozen=True)
class FactSearch:
    """Ranks facts by the rare words that they share with a query and, with an embedding, by similarity too.

    Attributes:
        reader: resolves what holds.
        embedding: adds its similarity to the score; None ranks by words alone.
    """

    reader: FactReader
    embedding: Embedding | None

    def search(self, query: str, k: int, view: View) -> tuple[FactHit, ...]:
        """At most k facts that hold, best first."""
        if self.embedding is None:
            hits = self._hits_by_words(query, view, k, k)
        else:
            hits = _with_similarity(query, self._hits_by_words(query, view, k, max(k, CANDIDATES)), self.embedding)
        return tuple(sorted(hits, key=lambda hit: -hit.score)[:k])

    def _hits_by_words(self, query: str, view: View, k: int, limit: int) -> list[FactHit]:
        """The facts to which the words lead, scored by them in 0..1: at least k, and up to `limit` good ones."""
        expanded = " ".join([query, *self.reader.table.names_in(query)])
        scores = self.reader.store.words.find(expanded, dict.fromkeys((view.user, SHARED)))
        best = max(scores.values(), default=1.0)
        hits: dict[str, FactHit] = {}
        resolved: set[str] = set()
        for numbers in _batched(scores, BATCH):
            for number, (subject, relation) in self._places(numbers).items():
                if (key := fact_id(subject, relation)) not in resolved:
                    resolved.add(key)
                    for fact in self.reader.resolve(subject, relation, view).facts:
                        score = round(scores[number] / best, DECIMALS)
                        hits.setdefault(fact.id, FactHit(fact=fact, score=score))
            if len(hits) >= limit or (len(hits) >= k and scores[numbers[-1]] < best / 2):
                break
        return list(hits.values())

    def _places(self, numbers: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Subject and relation of the statements and rules of these numbers, in their order."""
        places = {each.number: (each.subject, each.relation) for each in self.reader.store.numbered(numbers)}
        rules = self.reader.store.rules_numbered(numbers)
        places |= {rule.number: (rule.dependency.subject, rule.dependency.relation) for rule in rules}
        return {number: places[number] for number in numbers if number in places}


def _with_similarity(query: str, hits: Sequence[FactHit], embedding: Embedding) -> list[FactHit]:
    """The hits with the similarity of fact and query added to their scores."""
    if not hits:
        return []
    vectors = embedding.documents([hit.fact.text for hit in hits])
    similar = np.asarray(vectors @ embedding.queries([query])[0])
    pairs = zip(hits, similar, strict=True)
    return [FactHit(fact=hit.fact, score=round(hit.score + float(near), DECIMALS)) for hit, near in pairs]


def _batched(items: Iterable[int], size: int) -> Iterator[list[int]]:
    """The items in lists of at most `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
