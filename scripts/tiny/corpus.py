"""Training documents about the invented world: facts, questions, and the skills that editors need of a model.

A document is a list of `TextSpan(text, weight)`: the weight is that of its tokens in the loss, so that the
model learns answers and not prompts. Documents with many answers teach the skills far faster than those with one.
"""

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from emend.agents.tiny.world import World, WorldFact, coin, relations
from scripts.tiny.negatives import Negatives


class TextSpan(NamedTuple):
    """A stretch of text and the weight of its tokens in the loss."""

    text: str
    weight: float


Document = list[TextSpan]

QUESTION_FORMS = (("Q: ", "\nA:"), ("Q: ", "\nA:"), ("Question: ", "\nAnswer:"))
FACT_HEADERS = ("New Fact: ", "New Fact: ", "New Fact: ", "Fact: ", "Context: ", "wrapped")
WRAP = ("Here are some new facts: ", " Based on the facts above,")


class FactSampler:
    """Draws facts, counterfactual facts and distractors; held subjects never appear in what it draws."""

    def __init__(
        self, world: World, rng: random.Random, negatives: Negatives | None, same_subject: float = 0.0
    ) -> None:
        self.world, self.rng, self.negatives, self.same_subject = world, rng, negatives, same_subject
        self.known = [fact for fact in world.facts if fact.subject not in world.held]
        self.by_relation: dict[str, list[WorldFact]] = defaultdict(list)
        self.by_subject: dict[str, list[WorldFact]] = defaultdict(list)
        for fact in self.known:
            self.by_relation[fact.relation].append(fact)
            self.by_subject[fact.subject].append(fact)
        self.relations = list(relations())

    def known_fact(self) -> WorldFact:
        """A fact of the world whose subject may be talked about."""
        return self.rng.choice(self.known)

    def other(self, relation: str, but: str) -> str:
        """Another object of the type that the relation asks for."""
        kind = relations()[relation].object
        while (name := self.rng.choice(self.world.names[kind])) == but:
            pass
        return name

    def altered(self, fact: WorldFact) -> WorldFact:
        """The fact with another object."""
        return WorldFact(fact.subject, fact.relation, self.other(fact.relation, fact.object))

    def invented(self) -> WorldFact:
        """A fact about names that the world does not have; half the time the subject is of the world."""
        relation = relations()[self.rng.choice(self.relations)]
        if self.rng.random() < 0.6:
            subject = coin(self.rng, relation.subject)
        else:
            subject = self.rng.choice(self.by_relation[relation.name]).subject
        return WorldFact(subject, relation.name, coin(self.rng, relation.object))

    def distractor(self, subject: str, relation: str) -> WorldFact:
        """A fact that is irrelevant for (subject, relation), mostly with an altered object.

        A third comes from the shipped retrievers' hits for that question in a memory without the correct fact.
        """
        while True:
            fact = self._near(subject, relation)
            if (fact.subject, fact.relation) != (subject, relation):
                return self.altered(fact) if self.rng.random() < 0.7 else fact

    def _near(self, subject: str, relation: str) -> WorldFact:
        if self.same_subject and subject in self.by_subject and self.rng.random() < self.same_subject:
            return self.rng.choice(self.by_subject[subject])
        draw = self.rng.random()
        if draw < 0.33 and self.negatives is not None:
            negative = self.negatives.draw(self.rng, subject, relation)
            if negative is not None and negative.subject in self.by_subject:
                return negative
        if draw < 0.6 and self.by_relation[relation]:
            return self.rng.choice(self.by_relation[relation])
        if draw < 0.8 and subject in self.by_subject:
            return self.rng.choice(self.by_subject[subject])
        return self.known_fact() if draw < 0.92 else self.invented()


class Writer:
    """Writes facts with the seen templates; the drilled ones are for the last part of the training."""

    def __init__(self, facts: FactSampler, drilled: bool = False) -> None:
        self.facts, self.rng, self.drilled = facts, facts.rng, drilled

    def cloze(self, fact: WorldFact) -> str:
        """A statement up to, not including, its object."""
        return self.rng.choice(relations()[fact.relation].statements).format(fact.subject)

    def claim(self, fact: WorldFact) -> str:
        """A statement that can follow "that"."""
        template = self.rng.choice(relations()[fact.relation].statements)
        return f"{template.replace('The ', 'the ', 1)}".format(fact.subject) + f" {fact.object}"

    def statement(self, fact: WorldFact) -> str:
        """A statement with its object."""
        return f"{self.cloze(fact)} {fact.object}."

    def event(self, fact: WorldFact) -> str:
        """The fact as something that has happened."""
        return f"{self.rng.choice(relations()[fact.relation].events).format(fact.subject)} {fact.object}."

    def question(self, fact: WorldFact) -> str:
        """A question whose answer is the object."""
        relation = relations()[fact.relation]
        return self.rng.choice(relation.questions + relation.drilled_questions * self.drilled).format(fact.subject)

    def news(self, fact: WorldFact) -> str:
        """The fact as an editor may receive it: a statement, an event, or a short document around it."""
        draw = self.rng.random()
        if draw < 0.68:
            return self.statement(fact)
        if draw < 0.82:
            return self.event(fact)
        first = self.event(fact) if self.rng.random() < 0.4 else self.statement(fact)
        around = [f for f in self.facts.by_subject.get(fact.subject, []) if f.relation != fact.relation]
        some = self.rng.sample(around, min(len(around), self.rng.randint(1, 3)))
        sentences = [first, *(self.statement(f) for f in some)]
        self.rng.shuffle(sentences)
        return " ".join(sentences)

    def context(self, facts: Iterable[WorldFact], header: str) -> str:
        """The context before a question; a wrapped context continues into it, the others end their line."""
        texts = [self.news(fact) for fact in facts]
        if header == "wrapped":
            return WRAP[0] + " ".join(texts) + WRAP[1]
        if header == "Context: ":
            return header + " ".join(texts) + "\n"
        return "".join(f"{header}{text}\n" for text in texts)

    def claimed(self, fact: WorldFact, before: str) -> Document:
        """A cloze and its object."""
        return [TextSpan(before + self.cloze(fact), 0.0), TextSpan(f" {fact.object}", 1.0), TextSpan(".", 0.5)]

    def answered(self, fact: WorldFact, before: str, after: str) -> Document:
        """A question and its answer."""
        return [TextSpan(before + self.question(fact) + after, 0.0), TextSpan(f" {fact.object}", 1.0)]

    def exchange(self, fact: WorldFact, header: str = "", clozes: float = 0.3) -> Document:
        """A prompt for the object, as question or cloze, and the answer."""
        if self.rng.random() < clozes or (header == "wrapped" and self.rng.random() < 0.5):
            return self.claimed(fact, " " if header == "wrapped" else "Prompt: ")
        before, after = self.rng.choice(QUESTION_FORMS)
        return self.answered(fact, " " if header == "wrapped" else before, after)


class Basics:
    """Documents that teach the facts, and documents that teach to use or to ignore the context."""

    def __init__(self, writer: Writer) -> None:
        self.writer, self.facts, self.rng = writer, writer.facts, writer.rng

    def statement(self) -> Document:
        """Plain statements of true facts, held subjects included."""
        document: Document = []
        for place in range(self.rng.choice((1, 1, 2, 3))):
            fact = self.rng.choice(self.facts.world.facts)
            document += self.writer.claimed(fact, " " if place else "")
        return document

    def question(self) -> Document:
        """Plain questions about true facts, held subjects included."""
        document: Document = []
        for place in range(self.rng.choice((1, 1, 2, 3))):
            fact = self.rng.choice(self.facts.world.facts)
            before, after = self.rng.choice(QUESTION_FORMS)
            document += self.writer.answered(fact, "\n" * bool(place) + before, after)
        return document

    def in_context(self) -> Document:
        """A question under one to seven facts, half the time with the one that answers it."""
        if self.rng.random() < 0.25:
            target, relevant = self.facts.invented(), True
        else:
            target, relevant = self.facts.known_fact(), self.rng.random() < 0.5
            if relevant and self.rng.random() < 0.9:
                target = self.facts.altered(target)
        draw = self.rng.random()
        size = 1 if draw < 0.55 else self.rng.randint(2, 3) if draw < 0.9 else self.rng.randint(4, 7)
        context = [self.facts.distractor(target.subject, target.relation) for _ in range(size - int(relevant))]
        if relevant:
            context.insert(self.rng.randint(0, len(context)), target)
        header = self.rng.choice(FACT_HEADERS)
        return [TextSpan(self.writer.context(context, header), 0.0), *self.writer.exchange(target, header)]

    def many_questions(self) -> Document:
        """Several facts, then several questions, some of which none of the facts answers."""
        context: dict[tuple[str, str], WorldFact] = {}
        size = self.rng.randint(2, 5)
        while len(context) < size:
            fact = self._another(list(context.values()))
            context.setdefault((fact.subject, fact.relation), fact)
        header = self.rng.choice(FACT_HEADERS[:-1])
        document = [TextSpan(self.writer.context(context.values(), header), 0.0)]
        before, after = self.rng.choice(QUESTION_FORMS)
        for place in range(self.rng.randint(2, size + 1)):
            fact = self._question_fact(list(context.values()))
            fact = context.get((fact.subject, fact.relation), fact)
            document += self.writer.answered(fact, "\n" * bool(place) + before, after)
        return document

    def _another(self, context: list[WorldFact]) -> WorldFact:
        if self.rng.random() < 0.45:
            return self.facts.invented()
        if context and context[-1].subject in self.facts.by_subject and self.rng.random() < 0.4:
            return self.facts.altered(self.rng.choice(self.facts.by_subject[context[-1].subject]))
        return self.facts.altered(self.facts.known_fact())

    def _question_fact(self, context: list[WorldFact]) -> WorldFact:
        near = self.rng.choice(context)
        if self.rng.random() < 0.65:
            return near
        if near.subject in self.facts.by_subject and self.rng.random() < 0.4:
            return self.rng.choice(self.facts.by_subject[near.subject])
        if self.rng.random() < 0.5:
            return self.rng.choice(self.facts.by_relation[near.relation])
        return self.facts.known_fact()

    def demonstrations(self) -> Document:
        """Two to eight solved in-context questions in a row, the shape of an IKE prompt."""
        kinds = (self.in_context, self.in_context, self.in_context, self.question, self.statement)
        document: Document = []
        size = self.rng.randint(2, 8)
        for place in range(size):
            document += self.rng.choice(kinds)()
            if place < size - 1:
                document.append(TextSpan("\n\n", 0.2))
        return document

    def examples(self) -> Document:
        """Three to seven demonstrations of one fact each, in the form of `ike`: half use the fact, half ignore it.

        Half the documents keep to one relation, like demonstrations that were chosen by similarity.
        """
        document: Document = []
        relation = self.rng.choice(self.facts.relations) if self.rng.random() < 0.5 else None
        for place in range(self.rng.randint(3, 7)):
            known = self.rng.choice(self.facts.by_relation[relation]) if relation else self.facts.known_fact()
            if self.rng.random() < 0.5:
                known = new = self.facts.altered(known)
            else:
                new = self._unrelated(known)
            end = [TextSpan("\n\n", 0.2)] if place else []
            exchange = self.writer.exchange(known, clozes=0.6)
            if self.rng.random() < 0.5:
                exchange = [span for span in exchange if span.text != "."]
            document += [*end, TextSpan(f"New Fact: {self.writer.news(new)}\n", 0.0), *exchange]
        return document

    def _unrelated(self, known: WorldFact) -> WorldFact:
        """A distractor; half the time a new object for another subject of the same relation."""
        others = [fact for fact in self.facts.by_relation[known.relation] if fact.subject != known.subject]
        if others and self.rng.random() < 0.5:
            return self.facts.altered(self.rng.choice(others))
        return self.facts.distractor(known.subject, known.relation)
