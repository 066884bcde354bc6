"""The story of a generated stream so far: its facts, what changed, and what follows from it."""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from emend.agents.tiny.world import World, relations
from emend.evals.build.sources.fact_graph import TemplateBook, read_fact_table
from emend.evals.stream.gold import FactKey, GoldState
from emend.evals.stream.turn import StreamRule, Turn
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


TRIES = 20


class KeyPool:
    """Keys from which one is drawn, each in constant time."""

    def __init__(self) -> None:
        self._keys: list[FactKey] = []
        self._places: dict[FactKey, int] = {}

    def add(self, key: FactKey) -> None:
        """Add a key, once."""
        if key not in self._places:
            self._places[key] = len(self._keys)
            self._keys.append(key)

    def discard(self, key: FactKey) -> None:
        """Remove a key, if it is there."""
        if (place := self._places.pop(key, None)) is not None:
            last = self._keys.pop()
            if last != key:
                self._keys[place], self._places[last] = last, place

    def draw(self, rng: random.Random) -> FactKey | None:
        """One of the keys; None if there is none."""
        return rng.choice(self._keys) if self._keys else None

    def __contains__(self, key: object) -> bool:
        return key in self._places


class Story:
    """The state after the turns so far, and pools of what questions can be asked about."""

    def __init__(self) -> None:
        self.state = GoldState()
        self.numbers: dict[str, int] = {}
        """Number of each turn by its id."""
        self.past: dict[FactKey, set[str]] = defaultdict(set)
        """All objects that a fact ever had, stated or derived."""
        self.known, self.updated, self.deleted, self.historic = KeyPool(), KeyPool(), KeyPool(), KeyPool()
        self.derived, self.cascades, self.absent, self.upstream = KeyPool(), KeyPool(), KeyPool(), KeyPool()
        self._relations: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._dependents: dict[FactKey, set[FactKey]] = defaultdict(set)
        self._values: dict[FactKey, str | None] = {}
        self._users: dict[tuple[str, str], set[str]] = defaultdict(set)

    def add(self, turn: Turn) -> None:
        """Take one turn into account."""
        self.state.apply(turn)
        self.numbers[turn.id] = self.state.turns
        for rule in turn.rules:
            self._add_rule(FactKey(turn.user, rule.subject, rule.relation), rule)
        for claim in turn.claims:
            key = FactKey(turn.user, claim.subject, claim.relation)
            if claim.object is None:
                self._forget(key)
            else:
                self._learn(key, claim.object)
            self._update_dependents(key)

    def _learn(self, key: FactKey, value: str) -> None:
        self.known.add(key)
        self.deleted.discard(key)
        self._users[key.subject, key.relation].add(key.user)
        self._relations[key.user, key.subject].add(key.relation)
        if self.past[key] - {value}:
            self.updated.add(key)
        self.past[key].add(value)
        if len({entry.since for entry in self.state.histories[key]}) > 1:
            self.historic.add(key)

    def _forget(self, key: FactKey) -> None:
        for pool in (self.known, self.updated, self.historic, self.upstream):
            pool.discard(key)
        self.deleted.add(key)
        self._relations[key.user, key.subject].discard(key.relation)

    def _add_rule(self, key: FactKey, rule: StreamRule) -> None:
        self.derived.add(key)
        value = self._values[key] = self.state.value(key)
        self.past[key].update({value} if value else ())
        self._watch(key, rule)

    def _watch(self, key: FactKey, rule: StreamRule) -> None:
        """Note the facts on which a derived one depends now."""
        subject: str | None = rule.subject
        for relation in rule.path:
            if subject is None:
                return
            step = FactKey(key.user, subject, relation)
            self._dependents[step].add(key)
            if step in self.known:
                self.upstream.add(step)
            subject = self.state.value(step)

    def _update_dependents(self, key: FactKey, depth: int = 0) -> None:
        for derived in sorted(self._dependents.get(key, ())):
            before, value = self._values[derived], self.state.value(derived)
            self._watch(derived, self.state.rules[derived][0])
            if value != before and depth < TRIES:
                self._values[derived] = value
                self.past[derived].update({value} if value else ())
                (self.absent.discard if value else self.absent.add)(derived)
                (self.cascades.add if value else self.cascades.discard)(derived)
                self._update_dependents(derived, depth + 1)

    def is_known(self, user: str, subject: str, relation: str) -> bool:
        """True if the user has ever told the fact, or a rule for it."""
        key = FactKey(user, subject, relation)
        return key in self.past or key in self.state.rules

    def random_key(
        self, rng: random.Random, user: str = "", *, upstream: bool = False, derived: bool = False
    ) -> FactKey | None:
        """A fact that holds, of the user if one is named; one that a rule needs, or a derived one, if asked for."""
        pools = [self.derived] if derived else [self.upstream, self.known] if upstream else [self.known]
        for pool in pools:
            for _ in range(TRIES):
                key = pool.draw(rng)
                if key is not None and user in ("", key.user):
                    return key
        return None

    def relations_of(self, user: str, subject: str) -> list[str]:
        """The relations of a subject that the user has told and not taken back, sorted."""
        return sorted(self._relations.get((user, subject), ()))

    def values_of_others(self, key: FactKey) -> list[str]:
        """The objects that a fact has for other users, sorted."""
        users = self._users.get((key.subject, key.relation), set()) - {key.user}
        return sorted({value for user in users if (value := self.state.value(key._replace(user=user)))})

    def continues(self, user: str, key: FactKey, value: str) -> bool:
        """True if each rule that needs the fact can be followed on from the value."""
        rules = [self.state.rules[derived][0] for derived in self._dependents.get(key, ())]
        along = [rule.path[1] for rule in rules if rule.condition is None and rule.path[0] == key.relation]
        return bool(along) and set(along) <= set(self.relations_of(user, value))

    def age(self, evidence: Iterable[str]) -> int:
        """Number of turns since the last of these; 0 without any."""
        return self.state.turns - max((self.numbers[turn] for turn in evidence), default=self.state.turns)
