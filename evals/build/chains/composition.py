"""Composition of chains whose answer changes by edits, balanced over their numbers of hops and edits."""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice
from typing import NamedTuple

from emend.evals.build.chains.fact_graph import Chain, FactGraph, FactHop
from emend.evals.build.composed.turns import take_turns

TRIES = 8
"""Ways of editing a chain that are tried for each choice of edited hops."""
CHOICES = 20
"""Objects that are tried for an edit."""


class ChainRequest(NamedTuple):
    """Numbers of hops and of edits, the number of chains, a seed, and whether edits of two chains may conflict."""

    hops: tuple[int, ...]
    edits: tuple[int, ...]
    cases: int
    seed: int = 0
    allow_conflicts: bool = False

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Pairs of numbers of hops and of edits, an edit for each hop at most; the rarest chains come first."""
        pairs = ((hops, edits) for hops in self.hops for edits in self.edits if edits <= hops)
        return sorted(pairs, reverse=True)


class EditedWorld:
    """The facts of all chosen chains after their edits; with all edits applied, each chain must still hold."""

    def __init__(self, allow_conflicts: bool) -> None:
        self._allow_conflicts = allow_conflicts
        self._objects: dict[tuple[str, str], str] = {}
        self._chains: set[object] = set()

    def admits(self, chain: Chain) -> bool:
        """True if the chain asks something new, and no edit of another chain changes one of its hops."""
        if self._key(chain) in self._chains:
            return False
        return self._allow_conflicts or all(
            self._objects.get((hop.subject, hop.relation), hop.object) == hop.object for hop in chain.new
        )

    def add(self, chain: Chain) -> None:
        """Apply the edits of a chain."""
        self._chains.add(self._key(chain))
        self._objects |= {(hop.subject, hop.relation): hop.object for hop in chain.new}

    def _key(self, chain: Chain) -> object:
        """Chains with the same key ask the same; where edits may conflict, with another answer."""
        return chain.new if self._allow_conflicts else (chain.start, chain.relations)


def compose_chains(graph: FactGraph, request: ChainRequest, accepts: Callable[[Chain], bool]) -> list[Chain]:
    """Chains in turn from each pair of numbers of hops and edits; where facts give no more, from the others.

    Args:
        graph: the facts.
        request: what to compose; the same request gives the same chains.
        accepts: a further condition on a chain.
    """
    world = EditedWorld(request.allow_conflicts)

    def admitted(cell: tuple[int, int]) -> Iterator[Chain]:
        for chain in _candidates(graph, *cell, request.seed):
            if world.admits(chain) and accepts(chain):
                world.add(chain)
                yield chain

    return take_turns(map(admitted, request.cells), request.cases)


def _candidates(graph: FactGraph, hops: int, edits: int, seed: int) -> Iterator[Chain]:
    """Chains with these numbers of hops and edits, in an order that depends on the seed."""
    rng = random.Random(f"{seed} {hops} {edits}")
    for old in _old_chains(graph, hops, rng):
        places = list(combinations(range(hops), edits))
        rng.shuffle(places)
        for edited in places:
            for new in islice(_edited_chains(graph, old, edited, rng), TRIES):
                chain = Chain(old, new, edited)
                if changes_answer(graph, chain):
                    yield chain


def _old_chains(graph: FactGraph, hops: int, rng: random.Random) -> Iterator[tuple[FactHop, ...]]:
    """All chains of the graph, one of each subject before a second one of any."""
    subjects = graph.subjects
    rng.shuffle(subjects)
    pending = deque[Iterator[tuple[FactHop, ...]]]()
    for subject in subjects:
        chains = _extended(graph, (), subject, hops, rng)
        if (first := next(chains, None)) is not None:
            pending.append(chains)
            yield first
    while pending:
        chains = pending.popleft()
        if (following := next(chains, None)) is not None:
            pending.append(chains)
            yield following


def _extended(
    graph: FactGraph, chain: tuple[FactHop, ...], subject: str, hops: int, rng: random.Random
) -> Iterator[tuple[FactHop, ...]]:
    """The chains that go on from a subject without coming back to an entity."""
    if len(chain) == hops:
        yield chain
        return
    relations = list(graph.relations_of(subject))
    rng.shuffle(relations)
    for relation in relations:
        target = graph.object_of(subject, relation)
        if target is not None and target not in _entities(chain, subject):
            yield from _extended(graph, (*chain, FactHop(subject, relation, target)), target, hops, rng)


def _entities(chain: Sequence[FactHop], start: str) -> set[str]:
    return {start, *(hop.subject for hop in chain)}


def _edited_chains(
    graph: FactGraph, old: tuple[FactHop, ...], edited: tuple[int, ...], rng: random.Random
) -> Iterator[tuple[FactHop, ...]]:
    """The chains along the same relations in which the hops at these places have other objects."""
    relations = [hop.relation for hop in old]

    def extended(chain: tuple[FactHop, ...], subject: str) -> Iterator[tuple[FactHop, ...]]:
        place = len(chain)
        if place == len(relations):
            yield chain
            return
        true = graph.object_of(subject, relations[place])
        if true is None:
            return
        following = relations[place + 1] if place + 1 < len(relations) else ""
        targets = _other_objects(graph, relations[place], following, true, rng) if place in edited else [true]
        for target in targets:
            if target not in _entities(chain, subject):
                yield from extended((*chain, FactHop(subject, relations[place], target)), target)

    return extended((), old[0].subject)


def _other_objects(graph: FactGraph, relation: str, following: str, true: str, rng: random.Random) -> list[str]:
    """Some objects of a relation that share no name with the true one."""
    choices = graph.choices(relation, following)
    drawn = rng.sample(choices, min(CHOICES, len(choices)))
    return [each for each in drawn if not graph.same_name(each, true)]


def changes_answer(graph: FactGraph, chain: Chain) -> bool:
    """True if the edits change the answer to one that shares no name with the old one, and none could be left out."""
    if graph.same_name(chain.old[-1].object, chain.new[-1].object):
        return False
    for edit in chain.edits:
        others = [each for each in chain.edits if each != edit]
        without = graph.follow(chain.start, chain.relations, others)
        if without and graph.same_name(without[-1].object, chain.new[-1].object):
            return False
    return True
