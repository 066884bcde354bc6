"""The items of the embedded model's evaluation card: prompts about the invented world and their correct answers."""

import random
from collections.abc import Callable, Iterator

from emend.agents.roles.answer import build_prompt
from emend.agents.tiny.world import World, WorldFact, coin, relations, two_hop_question
from emend.evals.data.benchmarks.tinyworld import TinyWorld
from emend.memory.probe import Probe, Style

Item = tuple[str, str]
"""A prompt and the answer that is right."""
SIZE = 400


class Questions:
    """Draws the items of each measure; held subjects only, where the measure is of a skill and not of memory."""

    def __init__(self, world: World, seed: int, size: int | None = None) -> None:
        self.world, self.rng = world, random.Random(seed)
        held = [fact for fact in world.facts if fact.subject in world.held]
        self.held = self.rng.sample(held, min(size or SIZE, len(held)))
        self.facts = self.rng.sample(world.facts, size or len(world.facts))

    def _ask(self, fact: WorldFact, unseen: bool = False) -> str:
        relation = relations()[fact.relation]
        return self.rng.choice(relation.unseen_questions if unseen else relation.questions).format(fact.subject)

    def _cloze(self, fact: WorldFact) -> str:
        return self.rng.choice(relations()[fact.relation].statements).format(fact.subject)

    def _say(self, fact: WorldFact, target: str, unseen: bool = False) -> str:
        relation = relations()[fact.relation]
        template = self.rng.choice(relation.unseen_statements if unseen else relation.statements)
        return f"{template.format(fact.subject)} {target}."

    def _new(self, fact: WorldFact) -> str:
        names = self.world.names[relations()[fact.relation].object]
        return self.rng.choice([name for name in names if name != fact.object])

    @staticmethod
    def _prompt(question: str, *facts: str, style: str = "question") -> str:
        probe = Probe.model_validate({"kind": "card", "prompt": question, "style": style, "gold": ("",)})
        return build_prompt(probe, facts, (), "new_fact")

    def recall(self, unseen: bool, style: str) -> Iterator[Item]:
        """Every fact of the world, from memory; unseen templates all, seen ones one each."""
        for fact in self.facts:
            relation = relations()[fact.relation]
            trained = relation.statements if style == "cloze" else relation.questions
            new = relation.unseen_statements if style == "cloze" else relation.unseen_questions
            for template in new if unseen else (self.rng.choice(trained),):
                yield self._prompt(template.format(fact.subject), style=style), fact.object

    def override(self, unseen: bool) -> Iterator[Item]:
        """A counterfactual fact in the context, and a question about it."""
        for fact in self.held:
            target = self._new(fact)
            yield self._prompt(self._ask(fact, unseen), self._say(fact, target, unseen)), target

    def retain(self, hard: bool) -> Iterator[Item]:
        """An altered fact that is irrelevant for the question; hard: same relation or same subject."""
        for fact in self.held:
            yield self._prompt(self._ask(fact), self._altered(self._irrelevant(fact, hard))), fact.object

    def _irrelevant(self, fact: WorldFact, hard: bool) -> WorldFact:
        same_subject = [f for f in self.world.by_subject[fact.subject] if f.relation != fact.relation]
        if hard and same_subject and self.rng.random() < 0.5:
            return self.rng.choice(same_subject)
        if hard:
            return self.rng.choice([f for f in self.world.by_relation[fact.relation] if f.subject != fact.subject])
        return self.rng.choice(
            [f for f in self.world.facts if f.subject != fact.subject and f.relation != fact.relation]
        )

    def _altered(self, fact: WorldFact) -> str:
        return self._say(fact, self._new(fact))

    def invented(self) -> Iterator[Item]:
        """Subject and object that the world does not have: the answer can only come from the context."""
        for fact in self.held:
            relation = relations()[fact.relation]
            invented = WorldFact(coin(self.rng, relation.subject), fact.relation, coin(self.rng, relation.object))
            yield self._prompt(self._ask(invented), self._say(invented, invented.object)), invented.object

    def demonstrated(self, shots: int, style: Style = "question", hard: bool = False) -> Iterator[Item]:
        """An IKE prompt: `shots` demonstrations, a counterfactual fact, the probe; hard: the fact is another's."""
        pool = list(TinyWorld().demonstrations("triplet"))
        for fact in self.held:
            target = fact.object if hard else self._new(fact)
            prompt = self._ask(fact) if style == "question" else self._cloze(fact)
            probe = Probe(kind="card", prompt=prompt, style=style, gold=(target,))
            demonstrations = self.rng.sample(pool, shots)
            text = self._altered(self._irrelevant(fact, hard=True)) if hard else self._say(fact, target)
            yield build_prompt(probe, (text,), demonstrations, "new_fact"), target

    def yes_no(self) -> Iterator[Item]:
        """Closed-book yes/no, half of them true."""
        for place, fact in enumerate(self.held):
            target = fact.object if place % 2 else self._new(fact)
            claim = self._say(fact, target).replace("The ", "the ", 1)[:-1]
            yield self._prompt(f"Is it true that {claim}?"), "Yes" if place % 2 else "No"

    def two_hops(self) -> Iterator[Item]:
        """Two hops asked at once, without any edit."""
        for chain in self.rng.sample(self.world.chains, len(self.held)):
            question = two_hop_question(chain.first.subject, chain.first.relation, chain.second.relation)
            yield self._prompt(question), chain.second.object

    def measures(self) -> dict[str, Callable[[], Iterator[Item]]]:
        """The items of each measure that one generation per item decides, by the measure's name."""
        return {
            "recall, cloze": lambda: self.recall(unseen=False, style="cloze"),
            "recall, question": lambda: self.recall(unseen=False, style="question"),
            "recall, unseen question templates": lambda: self.recall(unseen=True, style="question"),
            "recall, unseen cloze templates": lambda: self.recall(unseen=True, style="cloze"),
            "override, held subjects": lambda: self.override(unseen=False),
            "override, held subjects, unseen templates": lambda: self.override(unseen=True),
            "retain, random fact": lambda: self.retain(hard=False),
            "retain, hard fact": lambda: self.retain(hard=True),
            "copy, invented names": self.invented,
            "IKE, 3 demonstrations": lambda: self.demonstrated(3),
            "IKE, 6 demonstrations": lambda: self.demonstrated(6),
            "yes/no, closed book": self.yes_no,
            "two hops, asked directly": self.two_hops,
            "IKE, 6 demonstrations, cloze": lambda: self.demonstrated(6, "cloze"),
            "IKE, 6 demonstrations, hard fact": lambda: self.demonstrated(6, hard=True),
            "IKE, 6 demonstrations, hard fact, cloze": lambda: self.demonstrated(6, "cloze", hard=True),
        }
