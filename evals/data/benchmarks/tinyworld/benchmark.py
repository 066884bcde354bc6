"""Counterfactual edits of the invented world that the embedded model knows, with every kind of probe.

One case, shortened:

    edit          The capital of Vouna is Meburg.                      (in the world it is Kravigrad)
    efficacy      The capital of Vouna is                              Meburg, against Kravigrad
    paraphrase    Which city serves as the capital of Vouna?           Meburg, against Kravigrad
    neighborhood  The capital of Soor is                               Kaville, against Meburg
    reasoning     Is it true that the capital of Vouna is Kravigrad?   No
    multihop      What is the country of the capital of Vouna?         Tornoria, against Vouna
    out_of_scope  The currency of Vouna is the                         Tiek, as before the edit

Settings: the form of the edit, a `triplet` in one sentence, a short `document`, or an `event`. Splits (option
`split`): `unseen` has subjects that the model's training never edited in context, in templates that it never read;
`seen` has the others. No probe asks for anything that another case's edit changes.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from emend.agents.tiny.world import World, WorldFact, relations
from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition
from emend.evals.data.benchmarks.options import check_request, known_options, one_of
from emend.evals.data.benchmarks.tinyworld.author import Author, demonstrated

SPLITS = ("unseen", "seen")
HELD_OUT = 40
DEFINITION = Definition.beside(__file__)


class TinyWorld:
    """Edits to the invented world; needs no data folder.

    Args:
        data: ignored, the world is made, not read.
        options: `split` = `unseen` (default) or `seen`.

    Raises:
        BadSettings: unknown option or split.
    """

    name: ClassVar[str] = "tinyworld"
    settings: ClassVar[tuple[str, ...]] = ("triplet", "document", "event")
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "all"

    def __init__(self, data: Path | None = None, options: dict[str, str] | None = None) -> None:
        split = known_options(self.name, options, ["split"]).get("split", SPLITS[0])
        self.split = one_of(self.name, "split", split, SPLITS)
        self.world = World()

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """One case per subject, in seeded order; a smaller limit gives the first of the same cases."""
        check_request(self.name, setting, self.settings, limit, texts=True)
        plan = self._plan(seed)
        edited = frozenset((fact.subject, fact.relation) for fact, _ in plan)
        for place, (fact, target) in enumerate(plan[:limit]):
            yield Author(self.world, self.split, edited, random.Random(seed * 10_007 + place)).case(
                fact, target, setting
            )

    def _plan(self, seed: int) -> list[tuple[WorldFact, str]]:
        """The edited facts and their new targets; all relations occur about equally often."""
        rng = random.Random(seed)
        subjects = sorted(s for s in self.world.by_subject if (s in self.world.held) == (self.split == "unseen"))
        rng.shuffle(subjects)
        plan = []
        for subject in subjects:
            fact = rng.choice(self.world.by_subject[subject])
            plan.append((fact, self._other_target(rng, fact)))
        return plan

    def _other_target(self, rng: random.Random, fact: WorldFact) -> str:
        """A target of the same type."""
        kind = relations()[fact.relation].object
        return rng.choice([name for name in self.world.names[kind] if name not in (fact.object, fact.subject)])

    def metrics(self) -> Sequence[Metric]:
        """Exact match of what is generated first, then the likelihood scores under their usual names."""
        return DEFINITION.metrics

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Copy, update and retain examples about facts of the `seen` split that no case edits.

        Where the cases are of the other split, their subjects are edited in none of their facts either.
        """
        rng = random.Random(seed + 1)
        edited = {(fact.subject, fact.relation) for fact, _ in self._plan(seed)}
        subjects = {subject for subject, _ in edited}
        known = [fact for fact in self.world.facts if fact.subject not in self.world.held]
        free = [fact for fact in known if fact.subject not in subjects]
        if not free:  # the seen split edits every such subject once; its other facts remain
            free = [fact for fact in known if (fact.subject, fact.relation) not in edited]
        return [
            demonstration
            for fact in rng.sample(free, min(96, len(free)))
            for demonstration in demonstrated(self.world, fact, self._other_target(rng, fact), rng, edited)
        ]

    def held_out(self, seed: int = 0) -> Sequence[str]:
        """Facts that name no edited subject, in sentences that the model has read."""
        rng, edited = random.Random(seed + 2), {fact.subject for fact, _ in self._plan(seed)}
        texts: list[str] = []
        for fact in rng.sample(self.world.facts, len(self.world.facts)):
            text = f"{rng.choice(relations()[fact.relation].statements).replace('{}', fact.subject)} {fact.object}."
            if len(texts) < HELD_OUT and not any(subject in text for subject in edited):
                texts.append(text)
        return texts

    @property
    def provenance(self) -> dict[str, Any]:
        """Origin and size of the world."""
        return {
            "source": "emend.agents.tiny.world",
            "world_seed": 0,
            "split": self.split,
            "facts": len(self.world.facts),
        }
