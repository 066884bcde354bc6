"""Events as items and as rows of ELKEN's files."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from emend.evals.build.chains.fact_graph import FactGraph
from emend.evals.build.chains.templates import TemplateBook, fill
from emend.evals.build.elken.event_types import UNKNOWN, EventType
from emend.evals.build.elken.events import BuiltEvent, DerivedAnswer
from emend.evals.build.source_items import KeptItem
from emend.evals.data.benchmarks.built import BenchmarkFiles
from emend.memory.files import replace_file

TEST, TRAIN = "test.json", "train.json"
LIMITS = (
    "Answers are as right as the table and the impacts of the types; what an event may change besides is not asked.",
    "There are no tendency questions, which need a model and people.",
)


def event_item(
    event: BuiltEvent,
    event_type: EventType,
    graph: FactGraph,
    book: TemplateBook,
    left_alone: Iterable[tuple[str, str]],
) -> dict[str, Any]:
    """An event as an item: its text, the names in it, and its row, with questions about facts that are left alone."""
    labels = {role: graph.label(entity) for role, entity in event.players.items()}
    local = [
        _question(graph, entity, relation, book.templates(relation).question, str(graph.object_of(entity, relation)))
        for entity, relation in left_alone
    ]
    return {
        "text": _with_names(event_type.template, labels),
        "names": [labels[role] for role in event_type.named_roles],
        "split": event_type.split,
        "row": {
            "event_type": event.type,
            "fact": {"qas": [_derived(graph, answer) for answer in event.answers], "local_qas": local},
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


def _question(graph: FactGraph, subject: str, relation: str, template: str, target: str) -> dict[str, Any]:
    label = graph.label(subject)
    name, *aliases = graph.names(target) if target != UNKNOWN else (UNKNOWN,)
    return {
        "question": fill(template, label),
        "subject": {"id": subject, "name": label},
        "answer": {"id": "NA" if target == UNKNOWN else target, "name": name, "alias": aliases},
        "rel_id": relation,
    }


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write ELKEN's test file, and that for training where there are events of its types."""
    files = []
    for file, split in ((TEST, "test"), (TRAIN, "train")):
        rows = [
            {"event": reported_event(each), **each.fields["row"]} for each in items if each.fields["split"] == split
        ]
        if rows:
            replace_file(folder / file, (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode())
            files.append(file)
    options = {"blocks": "fact", "split": files[0].removesuffix(".json")}
    return BenchmarkFiles(benchmark="elken", options=options, files=tuple(files))


def reported_event(item: KeptItem) -> str:
    """The event in the words of its author, or of its template."""
    return str(item.result["event"])
