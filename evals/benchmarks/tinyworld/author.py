"""Author of tinyworld's cases: an edit in the form of the setting and its probes."""

import random
from collections.abc import Collection

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
            *self._yes_no(edit, relation, prompt),
            *self._two_hop(edit, fact, relation, target),
            *self._out_of_scope(fact),
        ]
        return Case(
            edits=(_as_given(edit),),
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
        return Probe(
            kind=kind,
            prompt=template.format(edit.subject),
            style=style,
            gold=(edit.target_new,),
            rival=edit.target_true,
            edit_ids=(edit.id,),
            scorers=BOTH,
            subject=edit.subject,
        )

    def _neighborhood(self, fact: WorldFact, relation: WorldRelation, target: str) -> list[Probe]:
        """Other subjects under the same relation, those with the same old object first (CounterFact's neighborhood)."""
        free = [
            f
            for f in self.world.by_relation[relation.name]
            if f.subject != fact.subject and f.object != target and (f.subject, f.relation) not in self.edited
        ]
        self.rng.shuffle(free)
        free.sort(key=lambda f: f.object != fact.object)
        return [
            Probe(
                kind="neighborhood",
                prompt=self.rng.choice(self.statements(relation)).format(f.subject),
                gold=(f.object,),
                rival=target,
                in_scope=False,
                scorers=BOTH,
                subject=f.subject,
            )
            for f in free[:NEIGHBORS]
        ]

    def _yes_no(self, edit: Edit, relation: WorldRelation, prompt: str) -> list[Probe]:
        claim = prompt.replace("The ", "the ", 1).format(edit.subject)
        return [
            Probe(
                kind="reasoning",
                prompt=f"Is it true that {claim} {claimed}?",
                style="question",
                gold=(verdict,),
                choices=("Yes", "No"),
                edit_ids=(edit.id,),
                scorers=("choice",),
                subject=edit.subject,
            )
            for claimed, verdict in ((edit.target_new, "Yes"), (edit.target_true, "No"))
        ]

    def _two_hop(self, edit: Edit, fact: WorldFact, relation: WorldRelation, target: str) -> list[Probe]:
        """At most one question whose first hop is the edit and whose second hop no edit touches."""
        seconds = [
            (second, old)
            for second in self.world.by_subject.get(target, [])
            if (second.subject, second.relation) not in self.edited
            and (old := self.world.objects.get((fact.object, second.relation))) not in (None, second.object)
            and second.object != fact.subject
        ]
        if not seconds:
            return []
        second, old = self.rng.choice(seconds)
        return [
            Probe(
                kind="multihop",
                prompt=two_hop_question(fact.subject, relation.name, second.relation),
                style="question",
                gold=(second.object,),
                rival=old,
                edit_ids=(edit.id,),
                scorers=("exact_match",),
                subject=fact.subject,
                tags={"hops": 2},
            )
        ]

    def _out_of_scope(self, fact: WorldFact) -> list[Probe]:
        """Another relation of the same subject, and a fact that has nothing to do with the edit."""
        same = [f for f in self.world.by_subject[fact.subject] if (f.subject, f.relation) not in self.edited]
        far = [
            f
            for f in self.world.facts
            if f.subject != fact.subject and f.relation != fact.relation and (f.subject, f.relation) not in self.edited
        ]
        chosen = [self.rng.choice(pool) for pool in (same, far) if pool]
        return [
            Probe(
                kind="out_of_scope",
                prompt=self.rng.choice(self.questions(relations()[f.relation])).format(f.subject),
                style="question",
                gold=(f.object,),
                in_scope=False,
                scorers=("exact_match", "agreement"),
                subject=f.subject,
            )
            for f in chosen
        ]


def demonstrated(
    world: World, fact: WorldFact, target: str, rng: random.Random, edited: Collection[tuple[str, str]]
) -> list[Demonstration]:
    """Copy, update and retain demonstrations of one counterfactual fact; no `edited` fact is retained."""
    relation = relations()[fact.relation]
    first, second = rng.sample(relation.statements, 2)
    text = f"{first.format(fact.subject)} {target}."
    others = (f for f in world.by_relation[fact.relation] if (f.subject, f.relation) not in edited)
    other = rng.choice([f for f in others if f.subject not in ({fact.subject} | world.held)])
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


def _as_given(edit: Edit) -> Edit:
    """The edit for an editor: a text comes without subject and target, which the editor has to find in it."""
    return edit if edit.form == "triplet" else Edit(id=edit.id, form=edit.form, text=edit.text)
