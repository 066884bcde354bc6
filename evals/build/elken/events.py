"""Events of a type over a graph of facts, and the answers that follow from them."""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from emend.evals.build.chains.fact_graph import FactGraph
from emend.evals.build.elken.event_types import STEP, UNKNOWN, EventImpact, EventRole, EventType

MOST = 300
"""Cap on the frequency of an entity, by which it is drawn (appendix A.1)."""
OUT_OF_SCOPE = 5
"""Questions about facts that the event leaves alone (appendix A.1)."""
TRIES = 40
"""Draws for each event that is asked for."""


@dataclass(frozen=True)
class DerivedAnswer:
    """A fact after the event: by keys of the graph, with an object that may be `unknown`.

    `needs_background` says that the object or the subject is not named by the event and has to be looked up.
    """

    subject: str
    impact: EventImpact
    object: str
    needs_background: bool


@dataclass(frozen=True)
class BuiltEvent:
    """An event: its type, the entities in its roles, and what it changes."""

    type: str
    players: Mapping[str, str]
    answers: tuple[DerivedAnswer, ...]


class EventBuilder:
    """Draws events of a type; no two of them change one fact, and none a fact from which an answer of another follows.

    Args:
        graph: the facts before any event.
        rng: of the draws.
    """

    def __init__(self, graph: FactGraph, rng: random.Random) -> None:
        self._graph, self._rng = graph, rng
        self.changed: set[tuple[str, str]] = set()
        """Subjects and relations that the events so far have changed."""
        self._consulted: set[tuple[str, str]] = set()
        self._frequency = Counter(
            entity for subject in graph.subjects for target in graph.objects_of(subject) for entity in (subject, target)
        )

    def events(self, name: str, event_type: EventType, count: int) -> Iterator[BuiltEvent]:
        """Up to so many events of a type; fewer where the facts give no more."""
        candidates = {role: self._candidates(each) for role, each in event_type.roles.items() if not each.path}
        if not all(candidates.values()):
            return
        for _ in range(TRIES * count):
            players = self._cast(event_type, candidates)
            if players is None:
                continue
            answers = tuple(derive_answers(self._graph, event_type, players))
            changed = {(answer.subject, answer.impact.relation) for answer in answers}
            consulted = {fact for path in _paths(event_type) for fact in facts_on_path(self._graph, path, players)}
            if not _has_news(answers) or changed & (self.changed | self._consulted) or consulted & self.changed:
                continue
            self.changed |= changed
            self._consulted |= consulted
            yield BuiltEvent(name, players, answers)
            count -= 1
            if count == 0:
                return

    def _candidates(self, role: EventRole) -> list[str]:
        if role.names:
            return [name for name in role.names if name not in self._frequency]
        if role.object_of:
            entities = list(self._graph.choices(role.object_of))
        else:
            entities = [each for each in self._graph.subjects if self._graph.object_of(each, role.subject_of)]
        return [each for each in entities if not any(self._graph.object_of(each, name) for name in role.without)]

    def _cast(self, event_type: EventType, candidates: Mapping[str, Sequence[str]]) -> dict[str, str] | None:
        """Different entities for all roles, drawn by frequency; None where a path leads nowhere."""
        players: dict[str, str] = {}
        for role, entities in candidates.items():
            weights = [min(MOST, max(1, self._frequency[entity])) for entity in entities]
            players[role] = self._rng.choices(entities, weights)[0]
        for role, each in event_type.roles.items():
            if each.path:
                target = follow_path(self._graph, each.path, players)
                if not target:
                    return None
                players[role] = target
        return players if len(set(players.values())) == len(players) else None


def derive_answers(graph: FactGraph, event_type: EventType, players: Mapping[str, str]) -> Iterator[DerivedAnswer]:
    """The facts that the event changes; an impact whose facts are missing, or that changes nothing, is left out."""
    for impact in event_type.impacts:
        subject = players[impact.subject]
        target = UNKNOWN if impact.object == UNKNOWN else follow_path(graph, impact.object, players)
        if not target or target == graph.object_of(subject, impact.relation) or target == subject:
            continue
        is_named = impact.subject in event_type.named_roles
        is_direct = impact.object == UNKNOWN or impact.object in event_type.named_roles
        yield DerivedAnswer(subject, impact, target, not (is_named and is_direct))


def follow_path(graph: FactGraph, path: str, players: Mapping[str, str]) -> str:
    """The entity to which a path from a role leads; empty where a fact is missing."""
    role, *relations = path.split(STEP)
    entity = players.get(role, "")
    for relation in relations:
        entity = graph.object_of(entity, relation) or ""
    return entity


def facts_on_path(graph: FactGraph, path: str, players: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Subjects and relations of the facts along a path."""
    role, *relations = path.split(STEP)
    for place, relation in enumerate(relations):
        yield follow_path(graph, STEP.join([role, *relations[:place]]), players), relation


def _paths(event_type: EventType) -> Iterator[str]:
    """The paths from which roles and answers of a type follow."""
    yield from (impact.object for impact in event_type.impacts)
    yield from (role.path for role in event_type.roles.values() if role.path)


def facts_left_alone(
    graph: FactGraph, entities: Sequence[str], changed: Collection[tuple[str, str]], rng: random.Random
) -> list[tuple[str, str]]:
    """Some subjects and relations of entities that no event has changed."""
    facts = [(entity, relation) for entity in entities for relation in graph.relations_of(entity)]
    facts = [fact for fact in facts if fact not in changed]
    return rng.sample(facts, min(OUT_OF_SCOPE, len(facts)))


def _has_news(answers: Sequence[DerivedAnswer]) -> bool:
    """True if the event gives some fact a new object, or makes one unknown, without anything to look up."""
    return any(not answer.needs_background for answer in answers)
