"""Facts that a stream states, from invented worlds or from a table."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from emend.agents.tiny.world import World, relations
from emend.evals.data.facts.fact_graph import read_fact_table
from emend.evals.data.facts.templates import TemplateBook
from emend.evals.streams.sentences.templates import SentenceTemplates
from emend.evals.streams.sentences.wordings import DERIVED, fill_statement, read_turn
from emend.memory.errors import BadData, BadSettings

# Maximum number of worlds, each of about 2,000 facts.
MAX_WORLDS = 100


class SourceFact(NamedTuple):
    """A fact that a stream may state."""

    subject: str
    relation: str
    object: str


class FactSource:
    """Facts without repeated subject-relation pairs, and the objects of each relation.

    Args:
        facts: the facts, in a fixed order.
    """

    def __init__(self, facts: Sequence[SourceFact]) -> None:
        self.facts = list({(each.subject, each.relation): each for each in facts}.values())
        self.by_subject: dict[str, list[SourceFact]] = defaultdict(list)
        self.by_relation: dict[str, list[SourceFact]] = defaultdict(list)
        objects: dict[str, dict[str, None]] = defaultdict(dict)
        for fact in self.facts:
            self.by_subject[fact.subject].append(fact)
            self.by_relation[fact.relation].append(fact)
            objects[fact.relation][fact.object] = None
        self.objects = {relation: list(values) for relation, values in objects.items()}

    def other_object(
        self, relation: str, rng: random.Random, *, without: Sequence[str]
    ) -> str | None:
        """Return an object of the relation that is not in `without`; None if there is none."""
        values = self.objects.get(relation, ())
        for _ in range(20):
            value = rng.choice(values) if values else ""
            if value and value not in without:
                return value
        return next((value for value in values if value not in without), None)


def read_source(table: str, count: int, seed: int, templates: SentenceTemplates) -> FactSource:
    """Read facts from a table of subject, relation and object, or from invented worlds.

    Worlds are added until they have at least `count` facts.

    Raises:
        BadSettings: `count` exceeds the facts of `MAX_WORLDS` worlds.
        BadData: the table cannot be read, or too few of its facts can be put into sentences and
            parsed back.
    """
    facts = list(_table_facts(table) if table else _world_facts(count, seed))
    source = FactSource([fact for fact in facts if _is_readable(fact, templates)])
    if len(source.facts) < 2:
        raise BadData(
            f"'{table}' has {len(source.facts)} facts with a noun as relation, such as 'capital': "
            "a stream needs two or more."
        )
    return source


def _world_facts(count: int, seed: int) -> Iterator[SourceFact]:
    nouns = {name: each.noun for name, each in relations().items()}
    known: set[tuple[str, str]] = set()
    for number in range(MAX_WORLDS):
        for fact in World(seed * MAX_WORLDS + number).facts:
            if (fact.subject, fact.relation) not in known:
                known.add((fact.subject, fact.relation))
                yield SourceFact(fact.subject, nouns[fact.relation], fact.object)
        if len(known) >= count:
            return
    raise BadSettings(
        f"--turns needs {count:,} facts: {MAX_WORLDS} invented worlds have {len(known):,}."
    )


def _table_facts(table: str) -> Iterator[SourceFact]:
    graph, templates, _ = read_fact_table(table)
    book = TemplateBook(from_table=templates)
    for subject in graph.subjects:
        for relation, value in zip(
            graph.relations_of(subject), graph.objects_of(subject), strict=True
        ):
            if noun := _noun(book, relation):
                yield SourceFact(subject, noun, value)


def _noun(book: TemplateBook, relation: str) -> str:
    """Return the noun of a relation; empty if it has none, such as `{} was born in`."""
    try:
        phrase = book.templates(relation).phrase
    except BadData:
        return ""
    noun = phrase.removeprefix("the ").removesuffix(" of {}")
    return noun if phrase == f"the {noun} of {{}}" else ""


def _is_readable(fact: SourceFact, templates: SentenceTemplates) -> bool:
    """Return whether every wording of the fact parses back to it, so that it can be checked."""
    if fact.relation in DERIVED:
        return False
    for wording in templates.statements_of(fact.relation):
        claims = read_turn(fill_statement(wording, fact.subject, fact.object))
        if [(each.subject, each.relation, each.object) for each in claims] != [tuple(fact)]:
            return False
    return True
