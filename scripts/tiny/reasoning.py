"""Training documents that reason: two-hop chains in MeLLo's wording, yes/no, verdicts and contradictions; the mix."""

import random
from collections.abc import Callable
from typing import Literal

from emend.agents.tiny.world import World, WorldChain, WorldFact, coin, relations, two_hop_question
from scripts.tiny.corpus import (
    FACT_HEADERS,
    QUESTION_FORMS,
    Basics,
    Document,
    FactSampler,
    TextSpan,
    Writer,
)
from scripts.tiny.negatives import Negatives

CONTRADICTS = ("contradicts", "to generated answer, so the intermediate answer is:")
AGREES = ("does", "not contradict to generated answer, so the intermediate answer is:")
"""MeLLo's two sentences after "Retrieved fact"; the first word carries the decision (Zhong et al. 2023, appendix)."""
NOTHING = "None."
"""The retrieved fact if no edit is in scope."""
STEP_BY_STEP = "Think step by step.\n"
"""First line of a chain without retrieval, which distinguishes it from one with."""
SAME_SUBJECT = 0.4
"""Share of the drill's distractors that are drawn from the facts about the same subject."""
Part = Literal["whole", "drill", "examples"]
"""The parts of the training, in order."""
JUDGED_KINDS = ("person", "city", "country", "club", "company", "language")


class Reasoning:
    """Documents whose answers need several steps."""

    def __init__(self, writer: Writer) -> None:
        self.writer, self.facts, self.rng = writer, writer.facts, writer.rng
        held = self.facts.world.held
        self.chains = [
            chain
            for chain in self.facts.world.chains
            if chain.first.subject not in held and chain.second.subject not in held
        ]

    def _carrying(self, fact: WorldFact, following: str) -> WorldFact:
        """The fact with an object that has the following relation, so that the chain can go on."""
        while True:
            changed = self.facts.altered(fact)
            if any(f.relation == following for f in self.facts.by_subject.get(changed.object, [])):
                return changed

    def _breaks(self, chain: WorldChain, fact: WorldFact) -> bool:
        """True if the fact replaces the first object by one that lacks the second relation."""
        hop = (fact.subject, fact.relation) == (chain.first.subject, chain.first.relation)
        return hop and (fact.object, chain.second.relation) not in self.facts.world.objects

    def _truth(self, subject: str, relation: str) -> WorldFact:
        return WorldFact(subject, relation, self.facts.world.objects[subject, relation])

    def chain(self) -> Document:
        """Subquestion, own answer, retrieved fact, decision; twice; final answer."""
        chain = self.rng.choice(self.chains)
        document = [self._opening(chain, "")]
        current = chain.first.subject
        for hop, relation in enumerate((chain.first.relation, chain.second.relation)):
            fact = self._truth(current, relation)
            document += self._subquestion(fact)
            text, fact = self._retrieved(fact, chain.second.relation if hop == 0 else None)
            changed = fact.object != self._truth(current, relation).object
            document += [TextSpan("Retrieved fact:", 0.1), TextSpan(f" {text}\n", 0.0)]
            document += self._decision(changed, fact.object, "\n")
            current = fact.object
        return [*document, TextSpan("Final answer:", 0.5), TextSpan(f" {current}", 1.0)]

    def _opening(self, chain: WorldChain, before: str) -> TextSpan:
        question = two_hop_question(
            chain.first.subject, chain.first.relation, chain.second.relation, self.rng.random() < 0.3
        )
        return TextSpan(f"{before}Question: {question}\n", 0.0)

    def _subquestion(self, fact: WorldFact) -> Document:
        return [
            TextSpan("Subquestion:", 0.2),
            TextSpan(f" {self.writer.question(fact)}\n", 0.7),
            TextSpan("Generated answer:", 0.1),
            TextSpan(f" {self.writer.cloze(fact)}", 0.3),
            TextSpan(f" {fact.object}", 1.0),
            TextSpan(".\n", 0.3),
        ]

    def _retrieved(self, fact: WorldFact, following: str | None) -> tuple[str, WorldFact]:
        draw = self.rng.random()
        if draw < 0.45:
            edit = self._carrying(fact, following) if following else self.facts.altered(fact)
            return self.writer.news(edit), edit
        if draw < 0.55:
            return self.writer.news(fact), fact
        if draw < 0.65:
            return NOTHING, fact
        return self.writer.news(self.facts.distractor(fact.subject, fact.relation)), fact

    @staticmethod
    def _decision(changed: bool, answer: str, end: str) -> Document:
        verdict, rest = CONTRADICTS if changed else AGREES
        return [
            TextSpan("Retrieved fact", 0.1),
            TextSpan(f" {verdict}", 1.0),
            TextSpan(f" {rest}", 0.1),
            TextSpan(f" {answer}", 1.0),
            TextSpan(end, 0.3),
        ]

    def thoughts(self) -> Document:
        """A chain without retrieval; half the time with edits in the context that are relevant for one of its hops."""
        chain = self.rng.choice(self.chains)
        current, relation_of = chain.first.subject, (chain.first.relation, chain.second.relation)
        facts: list[WorldFact] = []
        if self.rng.random() < 0.6:
            hop = self.rng.randint(0, 1)
            edit = self._carrying(chain.first, chain.second.relation) if hop == 0 else self.facts.altered(chain.second)
            facts = [edit, *(self.facts.distractor(edit.subject, edit.relation) for _ in range(self.rng.randint(0, 2)))]
            facts = [fact for fact in facts if not self._breaks(chain, fact)]
            self.rng.shuffle(facts)
        known = {(fact.subject, fact.relation): fact for fact in facts}
        context = self.writer.context(facts, self.rng.choice(FACT_HEADERS[:-1])) if facts else ""
        document = [self._opening(chain, context + STEP_BY_STEP)]
        for relation in relation_of:
            fact = known.get((current, relation)) or self._truth(current, relation)
            document += self._subquestion(fact)
            current = fact.object
        return [*document, TextSpan("Final answer:", 0.5), TextSpan(f" {current}", 1.0)]

    def yes_no(self) -> Document:
        """Is it true that ...? Under a context that changes the fact, one that does not, or none."""
        fact, head = self.facts.known_fact(), ""
        truth, draw = fact, self.rng.random()
        if draw < 0.2:
            truth = self.facts.altered(fact)
            head = f"New Fact: {self.writer.news(truth)}\n"
        elif draw < 0.35:
            head = f"New Fact: {self.writer.news(self.facts.distractor(fact.subject, fact.relation))}\n"
        yes = self.rng.random() < 0.5
        wrong = fact if truth != fact and self.rng.random() < 0.5 else self.facts.altered(truth)
        claim = truth if yes else wrong
        before, after = self.rng.choice(QUESTION_FORMS)
        question = f"{head}{before}Is it true that {self.writer.claim(claim)}?{after}"
        return [TextSpan(question, 0.0), TextSpan(" Yes" if yes else " No", 1.0)]

    def many_yes_no(self) -> Document:
        """Three to five yes/no questions in a row."""
        return self._joined([self.yes_no() for _ in range(self.rng.randint(3, 5))])

    def verdict(self) -> Document:
        """A question, its reference answer, an answer, and whether it is correct."""
        relation = relations()[self.rng.choice(self.facts.relations)]
        reference, candidate = self._compared(relation.object)
        subject = self.rng.choice(self.facts.world.names[relation.subject])
        answer = WorldFact(subject, relation.name, candidate)
        form = self.rng.choice((candidate, f"{candidate}.", f"It is {candidate}.", self.writer.statement(answer)))
        question = self.writer.question(answer)
        return [
            TextSpan(f"Question: {question}\nReference: {reference}\nAnswer: {form}\nVerdict:", 0.0),
            TextSpan(" correct" if candidate == reference else " incorrect", 1.0),
        ]

    def comparisons(self) -> Document:
        """Four to eight bare comparisons of an answer with its reference."""
        rows: list[Document] = []
        for _ in range(self.rng.randint(4, 8)):
            reference, candidate = self._compared(self.rng.choice(JUDGED_KINDS))
            form = candidate if self.rng.random() < 0.7 else f"It is {candidate}."
            rows.append(
                [
                    TextSpan(f"Reference: {reference}\nAnswer: {form}\nVerdict:", 0.0),
                    TextSpan(" correct" if candidate == reference else " incorrect", 1.0),
                ]
            )
        return self._joined(rows)

    def _compared(self, kind: str) -> tuple[str, str]:
        def name() -> str:
            if self.rng.random() < 0.25:
                return coin(self.rng, kind)
            return self.rng.choice(self.facts.world.names[kind])

        reference = name()
        return reference, reference if self.rng.random() < 0.5 else name()

    def decisions(self) -> Document:
        """Two to four answers beside a retrieved fact: does it contradict the answer, and what is the answer then."""
        rows: list[Document] = []
        for _ in range(self.rng.randint(2, 4)):
            truth = self.facts.known_fact()
            text, fact = self._retrieved(truth, None)
            rows.append(
                [
                    TextSpan(f"Generated answer: {self.writer.cloze(truth)}", 0.0),
                    TextSpan(f" {truth.object}", 0.5),
                    TextSpan(f".\nRetrieved fact: {text}\n", 0.0),
                    *self._decision(fact != truth, fact.object, ""),
                ]
            )
        return self._joined(rows)

    @staticmethod
    def _joined(rows: list[Document]) -> Document:
        document: Document = []
        for place, row in enumerate(rows):
            document += ([TextSpan("\n", 0.3)] if place else []) + [span for span in row if span.text]
        return document


class TrainingCorpus:
    """An endless, seeded stream of training documents in the measured mix of a part of the training.

    `drill` has more chains and decisions, distractors that are mostly other facts about the same subject (a retriever's
    hits when the correct fact is missing), and the drilled questions; `examples` also has
    demonstrations in the form of `ike`.
    """

    def __init__(self, world: World, seed: int, negatives: Negatives | None = None, part: Part = "whole") -> None:
        self.rng = random.Random(seed)
        drill = part != "whole"
        facts = FactSampler(world, self.rng, negatives, SAME_SUBJECT if drill else 0.0)
        writer = Writer(facts, drill)
        basics, reasoning = Basics(writer), Reasoning(writer)
        self.mix: list[tuple[Callable[[], Document], float]] = [
            (basics.statement, 0.22 if part == "examples" else 0.17),
            (basics.question, 0.18),
            (basics.in_context, 0.20),
            (basics.many_questions, 0.09),
            (basics.demonstrations, 0.025),
            (reasoning.chain, {"whole": 0.05, "drill": 0.12, "examples": 0.15}[part]),
            (reasoning.thoughts, 0.05 if part == "examples" else 0.025),
            (reasoning.yes_no, 0.03),
            (reasoning.many_yes_no, 0.06),
            (reasoning.verdict, 0.03),
            (reasoning.comparisons, 0.06),
            (reasoning.decisions, 0.12 if drill else 0.08),
            (basics.examples, 0.25 if part == "examples" else 0.0),
        ]

    def document(self) -> Document:
        """The next document."""
        kinds, weights = zip(*self.mix, strict=True)
        make: Callable[[], Document] = self.rng.choices(kinds, weights)[0]
        return make()
