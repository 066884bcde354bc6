"""A table of facts as a graph of chains: rows of subject, relation and object, with aliases and templates."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.build.chains.fact_graph import FactGraph, FactHop
from emend.evals.build.chains.templates import GivenTemplates, default_templates
from emend.evals.build.source_items import SourceNotes
from emend.evals.data.benchmarks.fact_file.read import HUB, is_fact_file, read_facts
from emend.evals.data.benchmarks.fact_file.rows import FactRow
from emend.evals.data.benchmarks.files import sha256
from emend.memory.errors import BadData, BadSettings


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
    rows = read_facts(source, _with_prompt)
    facts = [row for row in rows if row.subject and row.relation and row.object]
    if not facts:
        raise BadData(f"'{source}' has no row with subject, relation and object: chains are made of these.")
    notes = SourceNotes(source)
    if not source.startswith(HUB):
        notes.files[Path(source).name] = sha256(Path(source).expanduser())
    hops = [FactHop(str(row.subject), str(row.relation), str(row.object)) for row in facts]
    graph = FactGraph(hops, _names(facts))
    if len(facts) < len(rows):
        notes.left_out["rows without subject, relation and object"] = len(rows) - len(facts)
    if graph.ambiguous:
        notes.left_out["subjects with several objects of one relation"] = graph.ambiguous
    return FactTable(graph, _templates(facts), notes)


def _with_prompt(fields: dict[str, Any]) -> dict[str, Any]:
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
    clozes, questions = dict[str, str](), dict[str, str]()
    for row in facts:
        relation, subject = str(row.relation), str(row.subject)
        if row.prompt and row.prompt != default_templates(relation)["cloze"] and row.prompt.count("{}") == 1:
            clozes.setdefault(relation, row.prompt)
        if row.question and row.question.count(subject) == 1:
            questions.setdefault(relation, row.question.replace(subject, "{}"))
    return {
        relation: GivenTemplates(cloze=clozes.get(relation), question=questions.get(relation))
        for relation in clozes.keys() | questions.keys()
    }
