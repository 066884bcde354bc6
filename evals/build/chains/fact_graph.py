"""Facts as a graph: from a subject along its relations to their objects."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from emend.evals.metrics.text import normalise


class FactHop(NamedTuple):
    """A fact as a step of a chain; subject and object are keys of the graph."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True)
class Chain:
    """Hops before and after edits; `edited` are the places of the edited hops in `new`, from 0."""

    old: tuple[FactHop, ...]
    new: tuple[FactHop, ...]
    edited: tuple[int, ...]

    @property
    def start(self) -> str:
        """The entity that questions name."""
        return self.old[0].subject

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations in order."""
        return tuple(hop.relation for hop in self.old)

    @property
    def edits(self) -> tuple[FactHop, ...]:
        """The facts after the edits."""
        return tuple(self.new[place] for place in self.edited)


class FactGraph:
    """Facts with one object for each subject and relation; those with several are left out and counted.

    Args:
        facts: subject, relation and object, by keys of entities.
        names: label and aliases of entities by key; a key without an entry is its own name.
    """

    def __init__(self, facts: Iterable[FactHop], names: Mapping[str, Sequence[str]] | None = None) -> None:
        objects: dict[tuple[str, str], set[str]] = defaultdict(set)
        for subject, relation, target in facts:
            objects[subject, relation].add(target)
        self._names = names or {}
        self._objects = {key: next(iter(values)) for key, values in objects.items() if len(values) == 1}
        self.ambiguous = len(objects) - len(self._objects)
        self._relations: dict[str, list[str]] = defaultdict(list)
        choices: dict[str, set[str]] = defaultdict(set)
        for (subject, relation), target in self._objects.items():
            self._relations[subject].append(relation)
            choices[relation].add(target)
        self._choices = {relation: sorted(targets) for relation, targets in choices.items()}
        self._continued: dict[tuple[str, str], list[str]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def subjects(self) -> list[str]:
        """All subjects, sorted."""
        return sorted(self._relations)

    def relations_of(self, subject: str) -> Sequence[str]:
        """The relations of a subject, in the order of the facts."""
        return self._relations.get(subject, ())

    def objects_of(self, subject: str) -> list[str]:
        """The objects of all facts of a subject."""
        return [self._objects[subject, relation] for relation in self.relations_of(subject)]

    def object_of(self, subject: str, relation: str) -> str | None:
        """The object of a fact; None if there is no such fact."""
        return self._objects.get((subject, relation))

    def choices(self, relation: str, following: str = "") -> Sequence[str]:
        """The objects of a relation, sorted; only subjects of the following relation where one is named."""
        if not following:
            return self._choices.get(relation, ())
        key = relation, following
        if key not in self._continued:
            objects = self._choices.get(relation, ())
            self._continued[key] = [each for each in objects if (each, following) in self._objects]
        return self._continued[key]

    def label(self, entity: str) -> str:
        """The first name of an entity."""
        return self.names(entity)[0]

    def names(self, entity: str) -> Sequence[str]:
        """Label and aliases of an entity."""
        return self._names.get(entity) or (entity,)

    def same_name(self, one_entity: str, other: str) -> bool:
        """True if two entities share a name, so that an answer could be either."""
        folded = {normalise(name) for name in self.names(one_entity)}
        return any(normalise(name) in folded for name in self.names(other))

    def follow(self, start: str, relations: Sequence[str], edits: Iterable[FactHop] = ()) -> tuple[FactHop, ...] | None:
        """The chain from a subject along relations with edits applied; None where a fact is missing."""
        edited = {(edit.subject, edit.relation): edit.object for edit in edits}
        hops: list[FactHop] = []
        for relation in relations:
            target = edited.get((start, relation)) or self.object_of(start, relation)
            if target is None:
                return None
            hops.append(FactHop(start, relation, target))
            start = target
        return tuple(hops)
