"""Facts that generated streams tell: of the invented world, or of a table."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from emend.agents.tiny.world import World, relations
from emend.evals.build.sources.fact_graph import TemplateBook, read_fact_table
from emend.evals.stream.wordings import DERIVED, read_turn, state
from emend.memory.errors import BadData, BadSettings

MAX_WORLDS = 100
"""Number of worlds that are made at most, each of about 2,000 facts."""


class SourceFact(NamedTuple):
    """A fact that may be told."""

    subject: str
    relation: str
    object: str


class FactSource:
    """Facts, each subject and relation once, with the objects of each relation.

    Args:
        facts: in a fixed order.
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

    def other_object(self, relation: str, rng: random.Random, *, without: Sequence[str]) -> str | None:
        """An object of the relation that is none of the given ones; None if there is none."""
        values = self.objects.get(relation, ())
        for _ in range(20):
            value = rng.choice(values) if values else ""
            if value and value not in without:
                return value
        return next((value for value in values if value not in without), None)


def read_source(table: str, count: int, seed: int) -> FactSource:
    """Facts of a table of subject, relation and object, or of invented worlds with at least `count` facts.

    Raises:
        BadSettings: more facts are asked for than a hundred worlds have.
        BadData: the table cannot be read, or too few of its facts can be put into sentences and read back.
    """
    facts = list(_table_facts(table) if table else _world_facts(count, seed))
    source = FactSource([fact for fact in facts if _is_readable(fact)])
    if len(source.facts) < 2:
        raise BadData(
            f"'{table}' has {len(source.facts)} facts whose relation is a noun, such as 'capital': a stream needs two "
            "or more."
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
    raise BadSettings(f"--turns asks for {count:,} facts: {MAX_WORLDS} invented worlds have {len(known):,}.")


def _table_facts(table: str) -> Iterator[SourceFact]:
    graph, templates, _ = read_fact_table(table)
    book = TemplateBook(from_table=templates)
    for subject in graph.subjects:
        for relation, value in zip(graph.relations_of(subject), graph.objects_of(subject), strict=True):
            if noun := _noun(book, relation):
                yield SourceFact(subject, noun, value)


def _noun(book: TemplateBook, relation: str) -> str:
    """The noun of a relation; empty where it is none, as of `{} was born in`."""
    try:
        phrase = book.templates(relation).phrase
    except BadData:
        return ""
    noun = phrase.removeprefix("the ").removesuffix(" of {}")
    return noun if phrase == f"the {noun} of {{}}" else ""


def _is_readable(fact: SourceFact) -> bool:
    """True if each wording of the fact reads back as the fact, so that its gold can be checked."""
    if fact.relation in DERIVED:
        return False
    for wording in range(3):
        claims = read_turn(state(fact.relation, fact.subject, fact.object, wording))
        if [(each.subject, each.relation, each.object) for each in claims] != [tuple(fact)]:
            return False
    return True
