"""Facts as a graph, from a table or from what documents state, with the templates that word its relations."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from emend.evals.build.sources.stored_items import KeptItem, SourceNotes, write_lines
from emend.evals.data.benchmarks.fact_formats import is_fact_file, read_facts
from emend.evals.data.benchmarks.fact_rows import FactRow
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.wikidata.fact_update import Relations, Template, read_tables
from emend.evals.metrics.text import normalise
from emend.graphs.construction.fact_lines import FactLine
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings

EXAMPLE = """["country of citizenship"]
cloze = "{} is a citizen of"
question = "What is the country of citizenship of {}?"
phrase = "the country of citizenship of {}\""""


class GivenTemplates(FrozenModel):
    """Templates of a relation, in which `{}` stands for the subject; empty ones are made of the relation's name."""

    cloze: Template = ""
    """Text that the object continues."""
    question: Template = ""
    phrase: Template = ""
    """Noun phrase for the object, which takes its place in the question about the next hop."""


class TemplateBook:
    """Templates by relation: first the user's, then those of the table of facts, then those of Wikidata's relations.

    Args:
        from_user: by relation, the user's.
        from_table: by relation, those of the table.
    """

    def __init__(
        self,
        from_user: Mapping[str, GivenTemplates] | None = None,
        from_table: Mapping[str, GivenTemplates] | None = None,
    ) -> None:
        wikidata = {
            name: GivenTemplates(cloze=each.cloze, question=each.question, phrase=f"the {each.name} of {{}}")
            for each in Relations.read().relations
            for name in (each.id, each.name)
        }
        self._books = (from_user or {}, from_table or {}, wikidata)

    def templates(self, relation: str) -> GivenTemplates:
        """The templates of a relation; where nobody gives any, those made of its name.

        Raises:
            BadData: the name is a cloze of which no noun phrase can be made, and nobody gives one.
        """
        templates = default_templates(relation)
        for book in reversed(self._books):
            if relation in book:
                templates |= book[relation].model_dump(exclude_defaults=True)
        if not templates["phrase"]:
            raise BadData(
                f"the relation '{relation}' is no noun: give its templates with --relations, such as\n{EXAMPLE}"
            )
        templates["question"] = templates["question"] or f"What is {templates['phrase']}?"
        return GivenTemplates.model_validate(templates)

    def question(self, start: str, relations: Sequence[str]) -> str:
        """The question along relations, such as `What is the climate of the capital of Peru?`."""
        subject = start
        for relation in relations[:-1]:
            subject = fill(self.templates(relation).phrase, subject)
        question = fill(self.templates(relations[-1]).question, subject)
        return question[:1].upper() + question[1:]


def default_templates(relation: str) -> dict[str, str]:
    """Templates made of a relation's name, or of a cloze in its place; the phrase is empty where a cloze has none."""
    if "{}" not in relation:
        phrase, cloze = f"the {relation} of {{}}", f"The {relation} of {{}} is"
    else:
        hit = re.fullmatch(r"[Tt](he .*\{\}) is", relation)
        phrase, cloze = f"t{hit[1]}" if hit else "", relation
    return {"cloze": cloze, "question": f"What is {phrase}?" if phrase else "", "phrase": phrase}


def fill(template: str, subject: str) -> str:
    """The template with the subject in it."""
    return template.replace("{}", subject, 1)


_TABLES = dict[Annotated[str, Field(min_length=1)], GivenTemplates]


def read_templates(path: Path) -> dict[str, GivenTemplates]:
    """Read a TOML file of templates, a table for each relation.

    Raises:
        BadData: the file cannot be read, is no TOML, or has a wrong template; names relation and field.
    """
    tables: dict[str, GivenTemplates] = read_tables(path, _TABLES, "the templates", f"A relation is\n{EXAMPLE}")
    return tables


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


class FactTable(NamedTuple):
    """The facts as a graph, the templates that the table gives by relation, and notes on it."""

    graph: FactGraph
    templates: dict[str, GivenTemplates]
    notes: SourceNotes


def read_fact_table(source: str) -> FactTable:
    """Read a file of facts.

    Raises:
        BadSettings: the source is no file of facts.
        BadData: a row is malformed, names the line and field; or no row is a fact.
    """
    if not is_fact_file(source):
        raise BadSettings(
            f"chains are made of a table of facts, and '{source}' is none: give --from a .csv, .tsv, .jsonl, .json or "
            ".yaml file with the columns subject, relation and object; emend build facts makes one of documents."
        )
    rows = read_facts(source, with_prompt)
    facts = [row for row in rows if row.subject and row.relation and row.object]
    if not facts:
        raise BadData(f"'{source}' has no row with subject, relation and object: chains are made of these.")
    notes = SourceNotes.of_facts(source)
    hops = [FactHop(str(row.subject), str(row.relation), str(row.object)) for row in facts]
    graph = FactGraph(hops, _names(facts))
    if len(facts) < len(rows):
        notes.left_out["rows without subject, relation and object"] = len(rows) - len(facts)
    if graph.ambiguous:
        notes.left_out["subjects with several objects of one relation"] = graph.ambiguous
    return FactTable(graph, _templates(facts), notes)


def with_prompt(fields: dict[str, Any]) -> dict[str, Any]:
    """A row with the cloze that is made of its relation, where it has neither a cloze nor a question."""
    if {"subject", "relation", "object"} <= fields.keys() and not {"prompt", "question"} & fields.keys():
        return fields | {"prompt": default_templates(str(fields["relation"]))["cloze"]}
    return fields


def _names(facts: Iterable[FactRow]) -> dict[str, tuple[str, ...]]:
    """Label and aliases of each object; an object of several rows has the aliases of all."""
    names: dict[str, dict[str, None]] = {}
    for row in facts:
        label = str(row.object)
        names.setdefault(label, {label: None}).update(dict.fromkeys(row.aliases))
    return {label: tuple(each) for label, each in names.items()}


def _templates(facts: Iterable[FactRow]) -> dict[str, GivenTemplates]:
    """By relation, the cloze and the question of the first row that has one, but for clozes made of the relation."""
    templates: dict[str, dict[str, str]] = defaultdict(dict)
    for row in facts:
        relation, subject = str(row.relation), str(row.subject)
        if row.prompt and row.prompt != default_templates(relation)["cloze"] and row.prompt.count("{}") == 1:
            templates[relation].setdefault("cloze", row.prompt)
        if row.question and row.question.count(subject) == 1:
            templates[relation].setdefault("question", row.question.replace(subject, "{}"))
    return {relation: GivenTemplates(**each) for relation, each in templates.items()}


FILE = "facts.jsonl"
LIMITS = (
    "Relations are an author's words; facts of one kind may have several, and are not compared then.",
    "A subject with several objects of one relation is left out where questions are composed.",
)


def stated_lines(item: KeptItem) -> str:
    """The facts of a document, a line each."""
    return "\n".join(f"{fact['subject']} | {fact['relation']} | {fact['object']}" for fact in item.result["facts"])


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write a file of facts, each once, with its document and the sentence that names its object as tags."""
    rows = dict[FactLine, dict[str, Any]]()
    for item in items:
        for fact in item.result["facts"]:
            line = FactLine(fact["subject"], fact["relation"], fact["object"])
            row = {
                **line._asdict(),
                "prompt": default_templates(line.relation)["cloze"],
                "tags": {"document": item.fields["name"], "proof": fact["sentence"]},
            }
            rows.setdefault(line, row)
    write_lines(folder / FILE, rows.values())
    return BenchmarkFiles(benchmark="facts", files=(FILE,))
