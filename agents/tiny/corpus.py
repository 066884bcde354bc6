"""Training documents about the invented world: facts, questions, and the skills that editors need of a model.

A document is a list of `Span(text, weight)`: the weight says how much the loss of its tokens counts, so that answers
teach and prompts do not. Documents with many answers teach the skills far faster than documents with one.
"""

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from emend.agents.tiny.negatives import Negatives
from emend.agents.tiny.world import Fact, World, coin, relations


class Span(NamedTuple):
    """A stretch of text and the weight of its tokens in the loss."""

    text: str
    weight: float


Document = list[Span]

QUESTION_FORMS = (("Q: ", "\nA:"), ("Q: ", "\nA:"), ("Question: ", "\nAnswer:"))
FACT_HEADERS = ("New Fact: ", "New Fact: ", "New Fact: ", "Fact: ", "Context: ", "wrapped")
WRAP = ("Here are some new facts: ", " Based on the facts above,")


class Facts:
    """Draws facts, counterfactual facts and distractors; held subjects never appear in what it draws."""

    def __init__(
        self, world: World, rng: random.Random, negatives: Negatives | None, same_subject: float = 0.0
    ) -> None:
        self.world, self.rng, self.negatives, self.same_subject = world, rng, negatives, same_subject
        self.known = [fact for fact in world.facts if fact.subject not in world.held]
        self.by_relation: dict[str, list[Fact]] = defaultdict(list)
        self.by_subject: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.known:
            self.by_relation[fact.relation].append(fact)
            self.by_subject[fact.subject].append(fact)
        self.relations = list(relations())

    def known_fact(self) -> Fact:
        """A fact of the world whose subject may be talked about."""
        return self.rng.choice(self.known)

    def other(self, relation: str, but: str) -> str:
        """Another object of the type that the relation asks for."""
        kind = relations()[relation].object
        while (name := self.rng.choice(self.world.names[kind])) == but:
            pass
        return name

    def altered(self, fact: Fact) -> Fact:
        """The same subject and relation with another object."""
        return Fact(fact.subject, fact.relation, self.other(fact.relation, fact.object))

    def invented(self) -> Fact:
        """A fact about names that the world does not have; half the time the subject is of the world."""
        relation = relations()[self.rng.choice(self.relations)]
        if self.rng.random() < 0.6:
            subject = coin(self.rng, relation.subject)
        else:
            subject = self.rng.choice(self.by_relation[relation.name]).subject
        return Fact(subject, relation.name, coin(self.rng, relation.object))

    def distractor(self, subject: str, relation: str) -> Fact:
        """A fact that does not bear on (subject, relation), mostly with an altered object.

        A third comes from what the shipped retrievers find for that question in a memory without the right fact.
        """
        while True:
            fact = self._near(subject, relation)
            if (fact.subject, fact.relation) != (subject, relation):
                return self.altered(fact) if self.rng.random() < 0.7 else fact

    def _near(self, subject: str, relation: str) -> Fact:
        if self.same_subject and subject in self.by_subject and self.rng.random() < self.same_subject:
            return self.rng.choice(self.by_subject[subject])
        draw = self.rng.random()
        if draw < 0.33 and self.negatives is not None:
            found = self.negatives.draw(self.rng, subject, relation)
            if found is not None and found.subject in self.by_subject:
                return found
        if draw < 0.6 and self.by_relation[relation]:
            return self.rng.choice(self.by_relation[relation])
        if draw < 0.8 and subject in self.by_subject:
            return self.rng.choice(self.by_subject[subject])
        return self.known_fact() if draw < 0.92 else self.invented()


class Writer:
    """Puts facts into the words of the seen templates; the drilled ones are for the last part of the training."""

    def __init__(self, facts: Facts, drilled: bool = False) -> None:
        self.facts, self.rng, self.drilled = facts, facts.rng, drilled

    def cloze(self, fact: Fact) -> str:
        """A statement up to, not including, its object."""
        return self.rng.choice(relations()[fact.relation].statements).format(fact.subject)

    def claim(self, fact: Fact) -> str:
        """A statement that can follow "that"."""
        template = self.rng.choice(relations()[fact.relation].statements)
        return f"{template.replace('The ', 'the ', 1)}".format(fact.subject) + f" {fact.object}"

    def statement(self, fact: Fact) -> str:
        """A statement with its object."""
        return f"{self.cloze(fact)} {fact.object}."

    def event(self, fact: Fact) -> str:
        """The fact as something that has happened."""
        return f"{self.rng.choice(relations()[fact.relation].events).format(fact.subject)} {fact.object}."

    def question(self, fact: Fact) -> str:
        """A question whose answer is the object."""
        asked = relations()[fact.relation]
        return self.rng.choice(asked.questions + asked.drilled_questions * self.drilled).format(fact.subject)

    def news(self, fact: Fact) -> str:
        """The fact as an editor may receive it: a statement, an event, or a short document around it."""
        draw = self.rng.random()
        if draw < 0.68:
            return self.statement(fact)
        if draw < 0.82:
            return self.event(fact)
        told = self.event(fact) if self.rng.random() < 0.4 else self.statement(fact)
        around = [f for f in self.facts.by_subject.get(fact.subject, []) if f.relation != fact.relation]
        some = self.rng.sample(around, min(len(around), self.rng.randint(1, 3)))
        sentences = [told, *(self.statement(f) for f in some)]
        self.rng.shuffle(sentences)
        return " ".join(sentences)

    def context(self, facts: Iterable[Fact], header: str) -> str:
        """What stands before a question; a wrapped context runs on into it, the others end their line."""
        told = [self.news(fact) for fact in facts]
        if header == "wrapped":
            return WRAP[0] + " ".join(told) + WRAP[1]
        if header == "Context: ":
            return header + " ".join(told) + "\n"
        return "".join(f"{header}{text}\n" for text in told)

    def asked(self, fact: Fact, header: str = "", clozes: float = 0.3) -> Document:
        """A prompt for the object, as question or cloze, and the answer."""
        if self.rng.random() < clozes or (header == "wrapped" and self.rng.random() < 0.5):
            label = " " if header == "wrapped" else "Prompt: "
            return [Span(label + self.cloze(fact), 0.0), Span(f" {fact.object}", 1.0), Span(".", 0.5)]
        before, after = self.rng.choice(QUESTION_FORMS)
        before = " " if header == "wrapped" else before
        return [Span(before + self.question(fact) + after, 0.0), Span(f" {fact.object}", 1.0)]


class Basics:
    """Documents that teach the facts, and documents that teach to use or to ignore what stands in the context."""

    def __init__(self, writer: Writer) -> None:
        self.writer, self.facts, self.rng = writer, writer.facts, writer.rng

    def statement(self) -> Document:
        """Plain statements of true facts, held subjects included."""
        document: Document = []
        for place in range(self.rng.choice((1, 1, 2, 3))):
            fact = self.rng.choice(self.facts.world.facts)
            lead = " " if place else ""
            document += [Span(lead + self.writer.cloze(fact), 0.0), Span(f" {fact.object}", 1.0), Span(".", 0.5)]
        return document

    def question(self) -> Document:
        """Plain questions about true facts, held subjects included."""
        document: Document = []
        for place in range(self.rng.choice((1, 1, 2, 3))):
            fact = self.rng.choice(self.facts.world.facts)
            before, after = self.rng.choice(QUESTION_FORMS)
            lead = "\n" if place else ""
            document += [
                Span(lead + before + self.writer.question(fact) + after, 0.0),
                Span(f" {fact.object}", 1.0),
            ]
        return document

    def in_context(self) -> Document:
        """One question under one to seven facts, half the time with the one that answers it."""
        if self.rng.random() < 0.25:
            target, relevant = self.facts.invented(), True
        else:
            target, relevant = self.facts.known_fact(), self.rng.random() < 0.5
            if relevant and self.rng.random() < 0.9:
                target = self.facts.altered(target)
        draw = self.rng.random()
        size = 1 if draw < 0.55 else self.rng.randint(2, 3) if draw < 0.9 else self.rng.randint(4, 7)
        told = [self.facts.distractor(target.subject, target.relation) for _ in range(size - int(relevant))]
        if relevant:
            told.insert(self.rng.randint(0, len(told)), target)
        header = self.rng.choice(FACT_HEADERS)
        return [Span(self.writer.context(told, header), 0.0), *self.writer.asked(target, header)]

    def many_questions(self) -> Document:
        """Several facts, then several questions, some of which none of the facts answers."""
        told: dict[tuple[str, str], Fact] = {}
        size = self.rng.randint(2, 5)
        while len(told) < size:
            fact = self._another(list(told.values()))
            told.setdefault((fact.subject, fact.relation), fact)
        header = self.rng.choice(FACT_HEADERS[:-1])
        document = [Span(self.writer.context(told.values(), header), 0.0)]
        before, after = self.rng.choice(QUESTION_FORMS)
        for place in range(self.rng.randint(2, size + 1)):
            asked = self._asked_of(list(told.values()))
            asked = told.get((asked.subject, asked.relation), asked)
            lead = "\n" if place else ""
            document += [
                Span(lead + before + self.writer.question(asked) + after, 0.0),
                Span(f" {asked.object}", 1.0),
            ]
        return document

    def _another(self, told: list[Fact]) -> Fact:
        if self.rng.random() < 0.45:
            return self.facts.invented()
        if told and told[-1].subject in self.facts.by_subject and self.rng.random() < 0.4:
            return self.facts.altered(self.rng.choice(self.facts.by_subject[told[-1].subject]))
        return self.facts.altered(self.facts.known_fact())

    def _asked_of(self, told: list[Fact]) -> Fact:
        near = self.rng.choice(told)
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
                document.append(Span("\n\n", 0.2))
        return document

    def examples(self) -> Document:
        """Three to seven solved examples of one fact each, as `ike` shows them: half use the fact, half leave it alone.

        Half the documents keep to one relation, as examples do that were chosen by their likeness.
        """
        document: Document = []
        relation = self.rng.choice(self.facts.relations) if self.rng.random() < 0.5 else None
        for place in range(self.rng.randint(3, 7)):
            known = self.rng.choice(self.facts.by_relation[relation]) if relation else self.facts.known_fact()
            if self.rng.random() < 0.5:
                known = told = self.facts.altered(known)
            else:
                told = self._unrelated(known)
            end = [Span("\n\n", 0.2)] if place else []
            asked = self.writer.asked(known, clozes=0.6)
            if self.rng.random() < 0.5:
                asked = [span for span in asked if span.text != "."]
            document += [*end, Span(f"New Fact: {self.writer.news(told)}\n", 0.0), *asked]
        return document

    def _unrelated(self, known: Fact) -> Fact:
        """A distractor; half the time a new object for another subject of the same relation."""
        others = [fact for fact in self.facts.by_relation[known.relation] if fact.subject != known.subject]
        if others and self.rng.random() < 0.5:
            return self.facts.altered(self.rng.choice(others))
        return self.facts.distractor(known.subject, known.relation)
