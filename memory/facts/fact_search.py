"""Search for facts that hold.

The words of a query find statements and rules, which are then resolved to the facts that hold now.
A search therefore never returns an outdated statement, but the one that has replaced it.
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

# Least number of facts that are ranked by similarity (`k` if that is larger).
CANDIDATES = 12

# Number of texts that are read from the store at once.
BATCH = 6


@dataclass(frozen=True)
class FactSearch:
    """Ranking of facts by rare words in common with a query and, optionally, similarity.

    Attributes:
        reader: resolves the facts that hold.
        embedding: adds the similarity to the score; None ranks by words alone.
    """

    reader: FactReader
    embedding: Embedding | None

    def search(self, query: str, k: int, view: View) -> tuple[FactHit, ...]:
        """Return at most k facts that hold, best first."""
        if self.embedding is None:
            hits = self._hits_by_words(query, view, k, k)
        else:
            hits = _with_similarity(
                query, self._hits_by_words(query, view, k, max(k, CANDIDATES)), self.embedding
            )
        return tuple(sorted(hits, key=lambda hit: -hit.score)[:k])

    def _hits_by_words(self, query: str, view: View, k: int, limit: int) -> list[FactHit]:
        """Return the facts that the query's words find, with scores from 0 to 1.

        Stops at `limit` facts, or after k if the scores have fallen below half of the best.
        """
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
        """Return the subject and relation of the statements and rules with these numbers."""
        places = {
            each.number: (each.subject, each.relation)
            for each in self.reader.store.numbered(numbers)
        }
        rules = self.reader.store.rules_numbered(numbers)
        places |= {
            rule.number: (rule.dependency.subject, rule.dependency.relation) for rule in rules
        }
        return {number: places[number] for number in numbers if number in places}


def _with_similarity(query: str, hits: Sequence[FactHit], embedding: Embedding) -> list[FactHit]:
    """Return the hits with the similarity between fact and query added to each score."""
    if not hits:
        return []
    vectors = embedding.documents([hit.fact.text for hit in hits])
    similar = np.asarray(vectors @ embedding.queries([query])[0])
    pairs = zip(hits, similar, strict=True)
    return [
        FactHit(fact=hit.fact, score=round(hit.score + float(near), DECIMALS))
        for hit, near in pairs
    ]


def _batched(items: Iterable[int], size: int) -> Iterator[list[int]]:
    """Yield the items in lists of at most `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
