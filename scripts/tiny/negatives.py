"""Hard negatives of the training: the shipped retrievers' hits in a memory without the correct fact."""

import math
import random

import numpy as np

from emend.agents.tiny.world import World, WorldFact, relations
from emend.memory.embeddings.embed import LexicalEmbedding

NEIGHBOURS = 96
MEMORY_SIZES = (20, 60, 150, 400)


class Negatives:
    """Ranks every fact of the world against every question once, then draws like a small random memory.

    A memory that contains each fact with probability p returns, for a question whose fact is missing, the best ranked
    of its facts: that rank is geometric in p, so no memory has to be built to draw from it.
    """

    def __init__(self, world: World) -> None:
        self.facts = world.facts
        self.place = {(fact.subject, fact.relation): i for i, fact in enumerate(self.facts)}
        embedding = LexicalEmbedding()
        table = relations()
        statements = embedding.documents([_statement(table[f.relation].statements[2], f) for f in self.facts])
        self.ranks = []
        for form in (0, 3):
            questions = embedding.queries([table[f.relation].questions[form].format(f.subject) for f in self.facts])
            closeness = questions @ statements.T
            np.fill_diagonal(closeness, -1.0)
            self.ranks.append(np.argsort(-closeness, axis=1, kind="stable")[:, :NEIGHBOURS])

    def draw(self, rng: random.Random, subject: str, relation: str) -> WorldFact | None:
        """A fact that a retriever would return for that question; None for a subject outside the world."""
        row = self.place.get((subject, relation))
        if row is None:
            return None
        held = rng.choice(MEMORY_SIZES) / len(self.facts)
        rank = int(math.log(1.0 - rng.random()) / math.log(1.0 - held))
        return self.facts[int(rng.choice(self.ranks)[row, min(rank, NEIGHBOURS - 1)])]


def _statement(template: str, fact: WorldFact) -> str:
    return f"{template.format(fact.subject)} {fact.object}."
