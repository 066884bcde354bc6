"""Counterfactual edits of the invented world that the embedded model knows, with every kind of
probe.

A shortened case:

    edit          The capital of Vouna is Meburg.                      (in the world it is
      Kravigrad)
    efficacy      The capital of Vouna is                              Meburg, against Kravigrad
    paraphrase    Which city serves as the capital of Vouna?           Meburg, against Kravigrad
    neighborhood  The capital of Soor is                               Kaville, against Meburg
    reasoning     Is it true that the capital of Vouna is Kravigrad?   No
    multihop      What is the country of the capital of Vouna?         Tornoria, against Vouna
    out_of_scope  The currency of Vouna is the                         Tiek, as before the edit

Settings are forms of the edit: a `triplet` in one sentence, a short `document`, or an `event`.
Splits (option `split`): `unseen` has subjects that were never edited in context during the model's
training, in templates that the model never read; `seen` has the others. No probe asks about a fact
that another case's edit changes.
"""

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from emend.agents.tiny.world import World, WorldFact, WorldRelation, relations, two_hop_question
from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, check_request, known_options, one_of
from emend.memory.edit import Edit, Triplet
from emend.memory.probe import Probe, Style

NEIGHBORS = 3
BOTH = ("exact_match", "likelihood")


class Author:
    """Generator of cases; `edited` has the (subject, relation) pairs that are edited by any drawn
    case.
    """

    def __init__(
        self, world: World, split: str, edited: frozenset[tuple[str, str]], rng: random.Random
    ) -> None:
        self.world, self.unseen, self.edited, self.rng = world, split == "unseen", edited, rng

    def statements(self, relation: WorldRelation) -> tuple[str, ...]:
        """Return the statement templates of the split."""
        if self.unseen:
            return relation.unseen_statements
        return relation.statements

    def questions(self, relation: WorldRelation) -> tuple[str, ...]:
        """Return the question templates of the split."""
        if self.unseen:
            return relation.unseen_questions
        return relation.questions

    def case(self, fact: WorldFact, target: str, setting: str) -> Case:
        """Return the edit of `fact` to `target`, in the form of the setting, and its probes."""
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
        # Documents and events have no subject and target fields; the editor has to find them in the
        # text.
        return Case(
            edits=(
                edit if setting == "triplet" else Edit(id=edit.id, form=edit.form, text=edit.text),
            ),
            probes=tuple(probes),
            tags={"relation": relation.name, "split": "unseen" if self.unseen else "seen"},
        )

    def _edit(
        self, fact: WorldFact, relation: WorldRelation, target: str, prompt: str, setting: str
    ) -> Edit:
        text = f"{prompt.format(fact.subject)} {target}."
        if setting != "triplet":
            if self.unseen:
                events = relation.unseen_events
            else:
                events = relation.events
            text = f"{self.rng.choice(events).format(fact.subject)} {target}."
        if setting == "document":
            text = self._document(fact, text)
        return Edit(
            form="triplet"
            if setting == "triplet"
            else "document"
            if setting == "document"
            else "event",
            text=text,
            subject=fact.subject,
            prompt=prompt,
            question=self.questions(relation)[0].format(fact.subject),
            target_new=target,
            target_true=fact.object,
            triplets=(Triplet(subject=fact.subject, relation=relation.noun, object=target),),
        )

    def _document(self, fact: WorldFact, news: str) -> str:
        """Return the news mixed with true sentences about the same subject."""
        around = [f for f in self.world.by_subject[fact.subject] if f.relation != fact.relation]
        sentences = [news]
        for other in self.rng.sample(around, min(3, len(around))):
            template = self.rng.choice(relations()[other.relation].statements)
            sentences.append(f"{template.format(other.subject)} {other.object}.")
        self.rng.shuffle(sentences)
        return " ".join(sentences)

    def _about(self, edit: Edit, kind: str, template: str, style: Style) -> Probe:
        return _in_scope(
            edit,
            kind,
            template.format(edit.subject),
            edit.target_new,
            BOTH,
            style,
            rival=edit.target_true,
        )

    def _neighborhood(self, fact: WorldFact, relation: WorldRelation, target: str) -> list[Probe]:
        """Return probes about other subjects of the same relation, first those with the same old
        object (CounterFact's neighborhood).
        """
        facts = self._unedited(self.world.by_relation[relation.name])
        free = [f for f in facts if f.subject != fact.subject and f.object != target]
        self.rng.shuffle(free)
        free.sort(key=lambda f: f.object != fact.object)
        return [
            _out_of_scope(
                f, "neighborhood", self.rng.choice(self.statements(relation)), BOTH, rival=target
            )
            for f in free[:NEIGHBORS]
        ]

    def _yes_no(self, edit: Edit, prompt: str) -> list[Probe]:
        claim = prompt.replace("The ", "the ", 1).format(edit.subject)
        claims = (
            (f"Is it true that {claim} {edit.target_new}?", "Yes"),
            (f"Is it true that {claim} {edit.target_true}?", "No"),
        )
        return [
            _in_scope(
                edit, "reasoning", question, verdict, ("choice",), "question", choices=("Yes", "No")
            )
            for question, verdict in claims
        ]

    def _two_hop(
        self, edit: Edit, fact: WorldFact, relation: WorldRelation, target: str
    ) -> list[Probe]:
        """Return at most one question whose first hop is the edit and whose second hop is not
        changed by any edit.
        """
        seconds = [
            (second, old)
            for second in self._unedited(self.world.by_subject.get(target, []))
            if (old := self.world.objects.get((fact.object, second.relation)))
            not in (None, second.object)
            and second.object != fact.subject
        ]
        if not seconds:
            return []
        second, old = self.rng.choice(seconds)
        question = two_hop_question(fact.subject, relation.name, second.relation)
        scorers = ("exact_match",)
        return [
            _in_scope(
                edit,
                "multihop",
                question,
                second.object,
                scorers,
                "question",
                rival=old,
                tags={"hops": 2},
            )
        ]

    def _elsewhere(self, fact: WorldFact) -> list[Probe]:
        """Return probes about another relation of the same subject, and about a fact unrelated to
        the edit.
        """
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
    edit: Edit,
    kind: str,
    prompt: str,
    gold: str,
    scorers: tuple[str, ...],
    style: Style,
    **fields: Any,
) -> Probe:
    about: dict[str, Any] = {"edit_ids": (edit.id,), "subject": edit.subject}
    return Probe(
        kind=kind, prompt=prompt, style=style, gold=(gold,), scorers=scorers, **about, **fields
    )


def _out_of_scope(
    fact: WorldFact, kind: str, template: str, scorers: tuple[str, ...], **fields: Any
) -> Probe:
    about: dict[str, Any] = {
        "prompt": template.format(fact.subject),
        "gold": (fact.object,),
        "subject": fact.subject,
    }
    return Probe(kind=kind, in_scope=False, scorers=scorers, **about, **fields)


def demonstrated(
    world: World,
    fact: WorldFact,
    target: str,
    rng: random.Random,
    edited: Collection[tuple[str, str]],
) -> list[Demonstration]:
    """Return copy, update and retain demonstrations of one counterfactual fact; `edited` facts are
    not used for retain.
    """
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
        Demonstration(
            kind="update",
            fact=text,
            prompt=question.format(fact.subject),
            style="question",
            target=target,
        ),
        Demonstration(
            kind="retain", fact=text, prompt=second.format(other.subject), target=other.object
        ),
        Demonstration(
            kind="retain",
            fact=text,
            prompt=question.format(other.subject),
            style="question",
            target=other.object,
        ),
    ]


SPLITS = ("unseen", "seen")
HELD_OUT = 40
DEFINITION = Definition.beside(__file__)


class TinyWorld:
    """Edits to the invented world; no data folder is needed.

    Args:
        data: ignored, since the world is generated.
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
        """Yield one case per subject in seeded order; a smaller limit gives the first of the same
        cases.
        """
        check_request(self.name, setting, self.settings, limit, texts=True)
        plan = self._plan(seed)
        edited = frozenset((fact.subject, fact.relation) for fact, _ in plan)
        for place, (fact, target) in enumerate(plan[:limit]):
            yield Author(self.world, self.split, edited, random.Random(seed * 10_007 + place)).case(
                fact, target, setting
            )

    def _plan(self, seed: int) -> list[tuple[WorldFact, str]]:
        """Return the edited facts and their new targets; all relations occur about equally
        often.
        """
        rng = random.Random(seed)
        subjects = sorted(
            s for s in self.world.by_subject if (s in self.world.held) == (self.split == "unseen")
        )
        rng.shuffle(subjects)
        plan = []
        for subject in subjects:
            fact = rng.choice(self.world.by_subject[subject])
            plan.append((fact, self._other_target(rng, fact)))
        return plan

    def _other_target(self, rng: random.Random, fact: WorldFact) -> str:
        """Return another target of the same type."""
        kind = relations()[fact.relation].object
        return rng.choice(
            [name for name in self.world.names[kind] if name not in (fact.object, fact.subject)]
        )

    def metrics(self) -> Sequence[Metric]:
        """Return exact match of generated answers first, then likelihood scores under their usual
        names.
        """
        return DEFINITION.metrics

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Return copy, update and retain demonstrations about facts of the `seen` split that no
        case edits.

        If the cases come from the other split, no fact of the demonstrated subjects is edited at
        all.
        """
        rng = random.Random(seed + 1)
        edited = {(fact.subject, fact.relation) for fact, _ in self._plan(seed)}
        subjects = {subject for subject, _ in edited}
        known = [fact for fact in self.world.facts if fact.subject not in self.world.held]
        free = [fact for fact in known if fact.subject not in subjects]
        if not free:  # the seen split edits one fact per subject; use the others
            free = [fact for fact in known if (fact.subject, fact.relation) not in edited]
        return [
            demonstration
            for fact in rng.sample(free, min(96, len(free)))
            for demonstration in demonstrated(
                self.world, fact, self._other_target(rng, fact), rng, edited
            )
        ]

    def held_out(self, seed: int = 0) -> Sequence[str]:
        """Return facts that name no edited subject, in sentences that the model has read."""
        rng, edited = random.Random(seed + 2), {fact.subject for fact, _ in self._plan(seed)}
        texts: list[str] = []
        for fact in rng.sample(self.world.facts, len(self.world.facts)):
            statement = rng.choice(relations()[fact.relation].statements)
            text = f"{statement.replace('{}', fact.subject)} {fact.object}."
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
