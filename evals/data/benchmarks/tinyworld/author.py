"""Author of tinyworld's cases: an edit in the form of the setting and its probes."""

import random
from collections.abc import Collection, Iterable
from typing import Any

from emend.agents.tiny.world import World, WorldFact, WorldRelation, relations, two_hop_question
from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.memory.edit import Edit, Triplet
from emend.memory.probe import Probe, Style

NEIGHBORS = 3
BOTH = ("exact_match", "likelihood")


class Author:
    """Writes one case; `edited` are the (subject, relation) pairs that any case of the draw edits."""

    def __init__(self, world: World, split: str, edited: frozenset[tuple[str, str]], rng: random.Random) -> None:
        self.world, self.unseen, self.edited, self.rng = world, split == "unseen", edited, rng

    def statements(self, relation: WorldRelation) -> tuple[str, ...]:
        """The statement templates of the split."""
        return relation.unseen_statements if self.unseen else relation.statements

    def questions(self, relation: WorldRelation) -> tuple[str, ...]:
        """The question templates of the split."""
        return relation.unseen_questions if self.unseen else relation.questions

    def case(self, fact: WorldFact, target: str, setting: str) -> Case:
        """The edit of `fact` to `target`, in the form of the setting, and its probes."""
        relation = relations()[fact.relation]
        prompt, *others = self.rng.sample(self.statements(relation), 2)
        edit = self._edit(fact, relation, target, prompt, setting)
        probes = [
            self._about(edit, "efficacy", prompt, "cloze"),
            self._about(edit, "paraphrase", others[0], "cloze"),
            self._about(edit, "paraphrase", self.rng.choice(self.questions(relation)), "question"),
            *self._neighborhood(fact, relation, target),
            *self._yes_no(edit, prompt),
            *self._two_hop(edit, fact, relation, target),
            *self._elsewhere(fact),
        ]
        # A text comes without subject and target, which the editor has to find in it.
        return Case(
            edits=(edit if setting == "triplet" else Edit(id=edit.id, form=edit.form, text=edit.text),),
            probes=tuple(probes),
            tags={"relation": relation.name, "split": "unseen" if self.unseen else "seen"},
        )

    def _edit(self, fact: WorldFact, relation: WorldRelation, target: str, prompt: str, setting: str) -> Edit:
        text = f"{prompt.format(fact.subject)} {target}."
        if setting != "triplet":
            events = relation.unseen_events if self.unseen else relation.events
            text = f"{self.rng.choice(events).format(fact.subject)} {target}."
        if setting == "document":
            text = self._document(fact, text)
        return Edit(
            form="triplet" if setting == "triplet" else "document" if setting == "document" else "event",
            text=text,
            subject=fact.subject,
            prompt=prompt,
            question=self.questions(relation)[0].format(fact.subject),
            target_new=target,
            target_true=fact.object,
            triplets=(Triplet(subject=fact.subject, relation=relation.noun, object=target),),
        )

    def _document(self, fact: WorldFact, news: str) -> str:
        """The news among true sentences about the same subject."""
        around = [f for f in self.world.by_subject[fact.subject] if f.relation != fact.relation]
        sentences = [news]
        for other in self.rng.sample(around, min(3, len(around))):
            template = self.rng.choice(relations()[other.relation].statements)
            sentences.append(f"{template.format(other.subject)} {other.object}.")
        self.rng.shuffle(sentences)
        return " ".join(sentences)

    def _about(self, edit: Edit, kind: str, template: str, style: Style) -> Probe:
        return _in_scope(
            edit, kind, template.format(edit.subject), edit.target_new, BOTH, style, rival=edit.target_true
        )

    def _neighborhood(self, fact: WorldFact, relation: WorldRelation, target: str) -> list[Probe]:
        """Other subjects under the same relation, those with the same old object first (CounterFact's neighborhood)."""
        facts = self._unedited(self.world.by_relation[relation.name])
        free = [f for f in facts if f.subject != fact.subject and f.object != target]
        self.rng.shuffle(free)
        free.sort(key=lambda f: f.object != fact.object)
        return [
            _out_of_scope(f, "neighborhood", self.rng.choice(self.statements(relation)), BOTH, rival=target)
            for f in free[:NEIGHBORS]
        ]

    def _yes_no(self, edit: Edit, prompt: str) -> list[Probe]:
        claim = prompt.replace("The ", "the ", 1).format(edit.subject)
        claims = (
            (f"Is it true that {claim} {edit.target_new}?", "Yes"),
            (f"Is it true that {claim} {edit.target_true}?", "No"),
        )
        return [
            _in_scope(edit, "reasoning", question, verdict, ("choice",), "question", choices=("Yes", "No"))
            for question, verdict in claims
        ]

    def _two_hop(self, edit: Edit, fact: WorldFact, relation: WorldRelation, target: str) -> list[Probe]:
        """At most one question whose first hop is the edit and whose second hop no edit touches."""
        seconds = [
            (second, old)
            for second in self._unedited(self.world.by_subject.get(target, []))
            if (old := self.world.objects.get((fact.object, second.relation))) not in (None, second.object)
            and second.object != fact.subject
        ]
        if not seconds:
            return []
        second, old = self.rng.choice(seconds)
        question = two_hop_question(fact.subject, relation.name, second.relation)
        scorers = ("exact_match",)
        return [_in_scope(edit, "multihop", question, second.object, scorers, "question", rival=old, tags={"hops": 2})]

    def _elsewhere(self, fact: WorldFact) -> list[Probe]:
        """Another relation of the same subject, and a fact that has nothing to do with the edit."""
        same = self._unedited(self.world.by_subject[fact.subject])
        others = self._unedited(self.world.facts)
        far = [f for f in others if f.subject != fact.subject and f.relation != fact.relation]
        chosen = [self.rng.choice(pool) for pool in (same, far) if pool]
        return [
            _out_of_scope(
                f,
                "out_of_scope",
                self.rng.choice(self.questions(relations()[f.relation])),
                ("exact_match", "agreement"),
                style="question",
            )
            for f in chosen
        ]

    def _unedited(self, facts: Iterable[WorldFact]) -> list[WorldFact]:
        return [f for f in facts if (f.subject, f.relation) not in self.edited]


def _in_scope(
    edit: Edit, kind: str, prompt: str, gold: str, scorers: tuple[str, ...], style: Style, **fields: Any
) -> Probe:
    about: dict[str, Any] = {"edit_ids": (edit.id,), "subject": edit.subject}
    return Probe(kind=kind, prompt=prompt, style=style, gold=(gold,), scorers=scorers, **about, **fields)


def _out_of_scope(fact: WorldFact, kind: str, template: str, scorers: tuple[str, ...], **fields: Any) -> Probe:
    about: dict[str, Any] = {"prompt": template.format(fact.subject), "gold": (fact.object,), "subject": fact.subject}
    return Probe(kind=kind, in_scope=False, scorers=scorers, **about, **fields)


def demonstrated(
    world: World, fact: WorldFact, target: str, rng: random.Random, edited: Collection[tuple[str, str]]
) -> list[Demonstration]:
    """Copy, update and retain demonstrations of one counterfactual fact; no `edited` fact is retained."""
    relation = relations()[fact.relation]
    first, second = rng.sample(relation.statements, 2)
    text = f"{first.format(fact.subject)} {target}."
    excluded = {fact.subject} | world.held
    others = (f for f in world.by_relation[fact.relation] if (f.subject, f.relation) not in edited)
    other = rng.choice([f for f in others if f.subject not in excluded])
    question = rng.choice(relation.questions)
    return [
        Demonstration(kind="copy", fact=text, prompt=first.format(fact.subject), target=target),
        Demonstration(kind="update", fact=text, prompt=second.format(fact.subject), target=target),
        Demonstration(kind="update", fact=text, prompt=question.format(fact.subject), style="question", target=target),
        Demonstration(kind="retain", fact=text, prompt=second.format(other.subject), target=other.object),
        Demonstration(
            kind="retain", fact=text, prompt=question.format(other.subject), style="question", target=other.object
        ),
    ]
