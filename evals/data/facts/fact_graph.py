"""Facts of a table as a graph, with one object for each subject and relation."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from emend.evals.data.facts.fact_formats import is_fact_file, read_facts
from emend.evals.data.facts.fact_rows import FactRow
from emend.evals.data.facts.templates import GivenTemplates, default_templates
from emend.evals.metrics.text.exact import normalise
from emend.memory.errors import BadData, BadSettings


class FactHop(NamedTuple):
    """A fact as one hop of a chain; subject and object are keys of the graph."""

    subject: str
    relation: str
    object: str


class FactGraph:
    """Facts with one object for each subject and relation; facts with several objects are left out
    and counted.

    Args:
        facts: facts whose subjects and objects are keys of entities.
        names: label and aliases of each entity by key; a key without an entry is used as the name.
    """

    def __init__(
        self, facts: Iterable[FactHop], names: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        objects: dict[tuple[str, str], set[str]] = defaultdict(set)
        for subject, relation, target in facts:
            objects[subject, relation].add(target)
        self._names = names or {}
        self._objects = {
            key: next(iter(values)) for key, values in objects.items() if len(values) == 1
        }
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
        """Return the relations of a subject, in the order of the facts."""
        return self._relations.get(subject, ())

    def objects_of(self, subject: str) -> list[str]:
        """Return the objects of all facts of a subject."""
        return [self._objects[subject, relation] for relation in self.relations_of(subject)]

    def object_of(self, subject: str, relation: str) -> str | None:
        """Return the object of a fact; None if the fact does not exist."""
        return self._objects.get((subject, relation))

    def choices(self, relation: str, following: str = "") -> Sequence[str]:
        """Return the objects of a relation, sorted; if `following` is given, only those that are
        subjects of that relation.
        """
        if not following:
            return self._choices.get(relation, ())
        key = relation, following
        if key not in self._continued:
            objects = self._choices.get(relation, ())
            self._continued[key] = [each for each in objects if (each, following) in self._objects]
        return self._continued[key]

    def label(self, entity: str) -> str:
        """Return the first name of an entity."""
        return self.names(entity)[0]

    def names(self, entity: str) -> Sequence[str]:
        """Return label and aliases of an entity."""
        return self._names.get(entity) or (entity,)

    def same_name(self, one_entity: str, other: str) -> bool:
        """Return True if two entities share a name, so that an answer could mean either."""
        folded = {normalise(name) for name in self.names(one_entity)}
        return any(normalise(name) in folded for name in self.names(other))

    def follow(
        self, start: str, relations: Sequence[str], edits: Iterable[FactHop] = ()
    ) -> tuple[FactHop, ...] | None:
        """Return the chain from a subject along relations with edits applied; None if a fact is
        missing.
        """
        edited = {(edit.subject, edit.relation): edit.object for edit in edits}
        hops: list[FactHop] = []
        for relation in relations:
            target = edited.get((start, relation)) or self.object_of(start, relation)
            if target is None:
                return None
            hops.append(FactHop(start, relation, target))
            start = target
        return tuple(hops)


class FactTable(NamedTuple):
    """Facts as a graph, templates from the table by relation, and counts of facts left out, by
    reason.
    """

    graph: FactGraph
    templates: dict[str, GivenTemplates]
    left_out: dict[str, int]


def read_fact_table(source: str) -> FactTable:
    """Read a fact file as a graph.

    Raises:
        BadSettings: the source is not a fact file.
        BadData: a row is malformed (the error names line and field), or no row is a fact.
    """
    if not is_fact_file(source):
        raise BadSettings(
            f"chains need a table of facts, but '{source}' is not one: give --from a .csv, .tsv, "
            ".jsonl, .json or .yaml file with the columns subject, relation and object; emend "
            "build facts makes one from documents."
        )
    rows = read_facts(source)
    facts = [row for row in rows if row.subject and row.relation and row.object]
    if not facts:
        raise BadData(f"'{source}' has no row with subject, relation and object: chains need them.")
    left_out = dict[str, int]()
    hops = [FactHop(str(row.subject), str(row.relation), str(row.object)) for row in facts]
    graph = FactGraph(hops, _names(facts))
    if len(facts) < len(rows):
        left_out["rows without subject, relation and object"] = len(rows) - len(facts)
    if graph.ambiguous:
        left_out["subjects with several objects of one relation"] = graph.ambiguous
    return FactTable(graph, _templates(facts), left_out)


def _names(facts: Iterable[FactRow]) -> dict[str, tuple[str, ...]]:
    """Return label and aliases of each object; an object of several rows gets the aliases of
    all.
    """
    names: dict[str, dict[str, None]] = {}
    for row in facts:
        label = str(row.object)
        names.setdefault(label, {label: None}).update(dict.fromkeys(row.aliases))
    return {label: tuple(each) for label, each in names.items()}


def _templates(facts: Iterable[FactRow]) -> dict[str, GivenTemplates]:
    """Return, by relation, the first cloze and question given in a row, except clozes made from the
    relation's name.
    """
    templates: dict[str, dict[str, str]] = defaultdict(dict)
    for row in facts:
        relation, subject = str(row.relation), str(row.subject)
        if (
            row.prompt
            and row.prompt != default_templates(relation)["cloze"]
            and row.prompt.count("{}") == 1
        ):
            templates[relation].setdefault("cloze", row.prompt)
        if row.question and row.question.count(subject) == 1:
            templates[relation].setdefault("question", row.question.replace(subject, "{}"))
    return {relation: GivenTemplates(**each) for relation, each in templates.items()}
