"""Rule-based composition of ELKEN events over a graph of facts, from event types with roles and
impacts.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.sources.fact_graph import notes_on_table
from emend.evals.construction.sources.stored_items import (
    KeptItem,
    store_items,
    take_turns,
    write_json,
)
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.facts.fact_graph import FactGraph, read_fact_table
from emend.evals.data.facts.relation_tables import Template, read_tables
from emend.evals.data.facts.templates import TemplateBook, fill
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData

SHIPPED = Path(__file__).with_name("event_types.toml")
# Object of a fact that is unknown after an event.
UNKNOWN = "unknown"
STEP = " / "


class EventRole(FrozenModel):
    """Candidates for a role: subjects or objects of a relation, the end of a path, or new names.

    Entities that have one of the relations in `without` are excluded.
    """

    subject_of: str = ""
    object_of: str = ""
    path: str = ""
    names: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    without: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(map(bool, (self.subject_of, self.object_of, self.path, self.names))) != 1:
            raise ValueError("exactly one of subject_of, object_of, path and names expected")
        return self


class EventImpact(FrozenModel):
    """Relation of a role that gets a new object by an event: a role, a path from a role, or
    `unknown`.
    """

    subject: str
    relation: Annotated[str, Field(min_length=1)]
    object: str
    question: Template


class EventType(FrozenModel):
    """Event type with its template, roles and impacts."""

    split: Literal["train", "test"]
    template: str
    roles: dict[str, EventRole]
    impacts: Annotated[tuple[EventImpact, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        heads = [impact.subject for impact in self.impacts]
        heads += [
            impact.object.partition(STEP)[0] for impact in self.impacts if impact.object != UNKNOWN
        ]
        heads += [role.path.partition(STEP)[0] for role in self.roles.values() if role.path]
        if missing := sorted({*heads} - self.roles.keys()):
            raise ValueError(f"there is no role '{missing[0]}'")
        if not self.named_roles:
            raise ValueError("the template has no role in braces, such as {A}")
        return self

    @property
    def named_roles(self) -> tuple[str, ...]:
        """Roles that occur in the template."""
        return tuple(role for role in self.roles if f"{{{role}}}" in self.template)


def read_event_types(path: Path = SHIPPED) -> dict[str, EventType]:
    """Read a TOML file of event types.

    Raises:
        BadData: the file is unreadable, not TOML, or has an invalid type; the message names type
            and field.
    """
    remedy = f"Use {SHIPPED.name} of Emend as a template."
    types: dict[str, EventType] = read_tables(path, dict[str, EventType], "the event types", remedy)
    return types


# Cap on an entity's frequency as its sampling weight (appendix A.1).
MOST = 300
# Number of questions per event about facts that it does not change (appendix A.1).
OUT_OF_SCOPE = 5
# Number of draws per requested event.
TRIES = 40


@dataclass(frozen=True)
class DerivedAnswer:
    """Fact after an event, with graph keys as subject and object; the object may be `unknown`.

    `needs_background` is True if subject or object are not named in the event, so that they must be
    looked up.
    """

    subject: str
    impact: EventImpact
    object: str
    needs_background: bool


@dataclass(frozen=True)
class BuiltEvent:
    """Event with its type, the entities in its roles, and the changed facts."""

    type: str
    players: Mapping[str, str]
    answers: tuple[DerivedAnswer, ...]


class EventBuilder:
    """Sampler of events that do not conflict: no event changes a fact that another event changes or
    whose answers depend on it.

    Args:
        graph: facts before all events.
        rng: random number generator.
    """

    def __init__(self, graph: FactGraph, rng: random.Random) -> None:
        self._graph, self._rng = graph, rng
        self.changed: set[tuple[str, str]] = set()
        """Subjects and relations changed by the events so far."""
        self._consulted: set[tuple[str, str]] = set()
        self._frequency = Counter(
            entity
            for subject in graph.subjects
            for target in graph.objects_of(subject)
            for entity in (subject, target)
        )

    def events(self, name: str, event_type: EventType, count: int) -> Iterator[BuiltEvent]:
        """Yield up to `count` events of a type, fewer if the facts do not yield more."""
        candidates = {
            role: self._candidates(each) for role, each in event_type.roles.items() if not each.path
        }
        if not all(candidates.values()):
            return
        for _ in range(TRIES * count):
            players = self._cast(event_type, candidates)
            if players is None:
                continue
            answers = tuple(derive_answers(self._graph, event_type, players))
            changed = {(answer.subject, answer.impact.relation) for answer in answers}
            consulted = {
                fact
                for path in _paths(event_type)
                for fact in facts_on_path(self._graph, path, players)
            }
            if (
                not _has_news(answers)
                or changed & (self.changed | self._consulted)
                or consulted & self.changed
            ):
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
            entities = [
                each
                for each in self._graph.subjects
                if self._graph.object_of(each, role.subject_of)
            ]
        return [entity for entity in entities if not self._has_any(entity, role.without)]

    def _has_any(self, entity: str, relations: Iterable[str]) -> bool:
        """Return whether an entity has an object of one of the relations."""
        return any(self._graph.object_of(entity, name) for name in relations)

    def _cast(
        self, event_type: EventType, candidates: Mapping[str, Sequence[str]]
    ) -> dict[str, str] | None:
        """Return distinct entities for all roles, sampled by frequency.

        None if a path leads nowhere or two roles get the same entity.
        """
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


def derive_answers(
    graph: FactGraph, event_type: EventType, players: Mapping[str, str]
) -> Iterator[DerivedAnswer]:
    """Yield the facts that an event changes; impacts with missing facts or without a change are
    skipped.
    """
    for impact in event_type.impacts:
        subject = players[impact.subject]
        target = UNKNOWN if impact.object == UNKNOWN else follow_path(graph, impact.object, players)
        if not target or target == graph.object_of(subject, impact.relation) or target == subject:
            continue
        is_named = impact.subject in event_type.named_roles
        is_direct = impact.object == UNKNOWN or impact.object in event_type.named_roles
        yield DerivedAnswer(subject, impact, target, not (is_named and is_direct))


def follow_path(graph: FactGraph, path: str, players: Mapping[str, str]) -> str:
    """Return the entity at the end of a path from a role; empty if a fact is missing."""
    role, *relations = path.split(STEP)
    entity = players.get(role, "")
    for relation in relations:
        entity = graph.object_of(entity, relation) or ""
    return entity


def facts_on_path(
    graph: FactGraph, path: str, players: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield subject and relation of each fact along a path."""
    role, *relations = path.split(STEP)
    for place, relation in enumerate(relations):
        yield follow_path(graph, STEP.join([role, *relations[:place]]), players), relation


def _paths(event_type: EventType) -> Iterator[str]:
    """Yield the paths that determine roles and answers of an event type."""
    yield from (impact.object for impact in event_type.impacts)
    yield from (role.path for role in event_type.roles.values() if role.path)


def facts_left_alone(
    graph: FactGraph,
    entities: Sequence[str],
    changed: Collection[tuple[str, str]],
    rng: random.Random,
) -> list[tuple[str, str]]:
    """Return a sample of the entities' facts that no event has changed, as subject and relation."""
    facts = [(entity, relation) for entity in entities for relation in graph.relations_of(entity)]
    facts = [fact for fact in facts if fact not in changed]
    return rng.sample(facts, min(OUT_OF_SCOPE, len(facts)))


def _has_news(answers: Sequence[DerivedAnswer]) -> bool:
    """Return whether at least one answer follows from the event without background knowledge."""
    return any(not answer.needs_background for answer in answers)


TEST, TRAIN = "test.json", "train.json"


def event_item(
    event: BuiltEvent,
    event_type: EventType,
    graph: FactGraph,
    book: TemplateBook,
    left_alone: Iterable[tuple[str, str]],
) -> dict[str, Any]:
    """Return an event as an item: its text, the names in it, and its row, including questions about
    unchanged facts.
    """
    labels = {role: graph.label(entity) for role, entity in event.players.items()}
    local = [
        _question(
            graph,
            entity,
            relation,
            book.templates(relation).question,
            str(graph.object_of(entity, relation)),
        )
        for entity, relation in left_alone
    ]
    return {
        "text": _with_names(event_type.template, labels),
        "names": [labels[role] for role in event_type.named_roles],
        "split": event_type.split,
        "row": {
            "event_type": event.type,
            "fact": {
                "qas": [_derived(graph, answer) for answer in event.answers],
                "local_qas": local,
            },
            "tendency": {"qas": [], "local_qas": []},
        },
    }


def _with_names(template: str, labels: Mapping[str, str]) -> str:
    for role, label in labels.items():
        template = template.replace(f"{{{role}}}", label)
    return template


def _derived(graph: FactGraph, answer: DerivedAnswer) -> dict[str, Any]:
    impact = answer.impact
    question = _question(graph, answer.subject, impact.relation, impact.question, answer.object)
    return {**question, "type": int(answer.needs_background)}


def _question(
    graph: FactGraph, subject: str, relation: str, template: str, target: str
) -> dict[str, Any]:
    label = graph.label(subject)
    name, *aliases = graph.names(target) if target != UNKNOWN else (UNKNOWN,)
    return {
        "question": fill(template, label),
        "subject": {"id": subject, "name": label},
        "answer": {"id": "NA" if target == UNKNOWN else target, "name": name, "alias": aliases},
        "rel_id": relation,
    }


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write ELKEN's test file and training file, if there are events of their types."""
    rows = [
        (each.fields["split"], {"event": each.result["event"], **each.fields["row"]})
        for each in items
    ]
    return write_splits(folder, rows, "fact")


def write_splits(
    folder: Path, rows: Sequence[tuple[str, dict[str, Any]]], blocks: str
) -> BenchmarkFiles:
    """Write ELKEN's files from pairs of split and row; splits without rows have no file."""
    files = []
    for file in (TEST, TRAIN):
        of_file = [row for split, row in rows if f"{split}.json" == file]
        if of_file:
            write_json(folder / file, of_file)
            files.append(file)
    options = {"blocks": blocks, "split": files[0].removesuffix(".json")}
    return BenchmarkFiles(benchmark="elken", options=options, files=tuple(files))


def prepare_events(config: BuildConfig, out: Path) -> Path:
    """Compose the events, store them in the benchmark folder, and return their file; idempotent.

    Raises:
        BadSettings: the source is not a file of facts.
        BadData: a row or an event type is invalid, or no event can be composed from the facts.
        RunRefused: the folder holds other events.
    """
    path = Path(config.relations).expanduser() if config.relations else SHIPPED
    types = read_event_types(path)
    table = read_fact_table(config.source)
    rng = random.Random(config.seed)
    book, builder = TemplateBook(from_table=table.templates), EventBuilder(table.graph, rng)
    count = config.cases if config.limit is None else min(config.cases, config.limit)
    events = take_turns((builder.events(name, each, count) for name, each in types.items()), count)
    if not events:
        roles = [role for each in types.values() for role in each.roles.values()]
        relations = sorted({role.subject_of or role.object_of for role in roles} - {""})
        raise BadData(
            f"the {len(table.graph)} facts of '{config.source}' form no event of "
            f"{', '.join(types)}: their roles need the relations {', '.join(relations)}; or give "
            "event types of your own with --relations."
        )
    items = []
    for event in events:
        entities = [event.players[role] for role in types[event.type].named_roles]
        left_alone = facts_left_alone(table.graph, entities, builder.changed, rng)
        items.append(event_item(event, types[event.type], table.graph, book, left_alone))
    types_drawn = Counter(event.type for event in events)
    counts = ", ".join(f"{name} {number}" for name, number in types_drawn.items())
    return store_items(
        items,
        replace(
            notes_on_table(config.source, table),
            name=f"{config.source}: {len(table.graph)} facts, {counts}",
        ),
        out,
    )
