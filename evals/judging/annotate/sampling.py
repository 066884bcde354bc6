"""From runs to the items of a study: what can be labelled, and a seeded sample in equal numbers of each stratum."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from emend.agents.judging.base import Item
from emend.editors.built_item import BuiltItem
from emend.evals.case import Record
from emend.evals.data.benchmarks.triples import EXTRACTED
from emend.evals.judging.annotate.study import Study
from emend.evals.judging.judged_run import open_run
from emend.evals.judging.panel import load_judge
from emend.evals.judging.store import plan
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.metrics.construction import KEPT
from emend.evals.metrics.papers.akew import EDITED, error_of
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadSettings

Parts = dict[str, tuple[str, ...]]


class AnnotationItem(FrozenModel):
    """An item as annotators see it (`parts`), and what they must not: its stratum and the rule's label.

    Items of one `group` stand together on the sheet; `judged` are the parts that a judge is shown.
    """

    id: str
    group: str
    case: str
    stratum: str
    parts: Parts
    judged: Parts = {}
    rule: str = ""


class Sample(NamedTuple):
    """The drawn items, in the order of their groups, and by stratum the number of groups there and drawn."""

    items: list[AnnotationItem]
    strata: dict[str, tuple[int, int]]


def draw(folders: Sequence[Path], study: Study, editors: Sequence[str] = (), seed: int = 0) -> Sample:
    """Draw a study's sample from runs; the same items give the same sample, in whatever order they were recorded.

    Args:
        folders: of the runs.
        study: says what is taken.
        editors: names of the editors whose answers are taken; all when empty.
        seed: of the sample.

    Raises:
        BadSettings: the runs have nothing to label, or a stratum is no field of a record.
        BadData: a run cannot be read.
    """
    strata: dict[str, dict[str, list[AnnotationItem]]] = {}
    for folder in folders:
        Manifest.read(folder)  # whose absence is said best here
        for record, items in SOURCES[study.source](folder, study):
            if editors and record.editor not in editors:
                continue
            stratum = ", ".join(_stratum(record, name) for name in study.strata)
            for item in items:
                group = strata.setdefault(stratum, {}).setdefault(item.group, [])
                group.append(item.model_copy(update={"stratum": stratum}))
    if not strata:
        of = f" of {', '.join(editors)}" if editors else ""
        raise BadSettings(f"{' and '.join(map(str, folders))}: no {NOTHING[study.source].format(of=of, study=study)}")
    return _sample(strata, study.size, seed)


def _sample(strata: dict[str, dict[str, list[AnnotationItem]]], size: int, seed: int) -> Sample:
    """Take groups of each stratum in turn; one that is in several strata is drawn once."""
    order = {name: sorted(groups) for name, groups in sorted(strata.items())}
    for name, groups in order.items():
        Random(f"{seed} {name}").shuffle(groups)
    drawn: dict[str, str] = {}
    while len(drawn) < size and any(order.values()):
        for name, groups in order.items():
            while groups and groups[-1] in drawn:
                groups.pop()
            if groups and len(drawn) < size:
                drawn[groups.pop()] = name
    items = [item for group, name in drawn.items() for item in {item.id: item for item in strata[name][group]}.values()]
    counts = Counter(drawn.values())
    return Sample(items, {name: (len(groups), counts[name]) for name, groups in sorted(strata.items())})


def _stratum(record: Record, name: str) -> str:
    values = record.model_dump(include={"editor", "model", "setting", "mode", "kind"}) | record.tags
    if name not in values:
        raise BadSettings(f"--by {name}: the records have {', '.join(sorted(values))}.")
    return str(values[name])


def _judge_items(folder: Path, study: Study) -> Iterator[tuple[Record, list[AnnotationItem]]]:
    """The items that a judge would be shown; with `split`, one for each sentence of that part."""
    for record, items in plan(folder, {study.judge: load_judge(study.judge)}):
        item = items.get(study.judge)
        if not isinstance(item, Item) or record.checkpoint:
            continue
        sentences = split_sentences(item.text_of(study.split)) if study.split else []
        statements: list[Parts] = [{"statement": (text,)} for text in dict.fromkeys(sentences)]
        yield (
            record,
            [
                _item(item.parts | part, record.case, item.id, judged=item.parts)
                for part in (statements if study.split else [{}])
            ],
        )


def _failed_edits(folder: Path, study: Study) -> Iterator[tuple[Record, list[AnnotationItem]]]:
    """Edits by extracted triplets whose own question is answered wrongly."""
    run = open_run(folder, "none")
    for record in run.records():
        failed = record.setting == "extract" and record.kind in EDITED and record.values.get("em") == 0.0
        if failed and record.editor != "unedited":
            edits = run.case(record).edits
            parts = {
                "question": (record.prompt,),
                "new answer": record.gold[:1],
                "old answer": (record.rival or "",),
                "triplets": tuple(str(edit["text"]) for edit in edits),
                "reply": (record.answer or "",),
            }
            yield record, [_item(parts, record.case, rule=error_of(record, edits))]


def _triplets(folder: Path, study: Study) -> Iterator[tuple[Record, list[AnnotationItem]]]:
    """The triplets of each document beside the fact that it conveys."""
    run = open_run(folder, "none")
    for record in run.records():
        if record.kind not in EDITED or record.setting not in EXTRACTED:
            continue
        fact, items = f"{record.prompt} {record.gold[0]}", []
        for edit in run.case(record).edits:
            text, subject, target = (str(edit.get(name, "")) for name in ("text", "subject", "target_new"))
            relation = text.removeprefix(subject).removesuffix(".").removesuffix(target).strip()
            items.append(_item({"fact": (fact,), "triplet": (subject, relation, target)}, record.case, record.case))
        yield record, items


def _built_items(folder: Path, study: Study) -> Iterator[tuple[Record, list[AnnotationItem]]]:
    """The items of a construction that passed its filters: the source's line, and the texts that were written."""
    for record in read_records(folder):
        if record.values.get(KEPT) != 1.0 or record.answer is None:
            continue
        result = BuiltItem.model_validate_json(record.answer).result or {}
        texts: Parts = {name: (text,) for name, value in result.items() if (text := _written(value))}
        yield record, [_item({"about": (record.prompt,)} | texts, record.case, record.case)]


def _written(value: Any) -> str:
    """A text, texts in lines, or texts with their names; empty for any other part of a result."""
    if isinstance(value, dict):
        value = [f"{name}: {text}" for name, text in value.items() if isinstance(text, str)]
    if isinstance(value, list):
        return "\n".join(value) if all(isinstance(each, str) for each in value) else ""
    return value if isinstance(value, str) else ""


def _item(parts: Parts, case: str, group: str = "", **fields: str | Parts) -> AnnotationItem:
    name = content_id("annotation", parts)
    return AnnotationItem.model_validate(
        {"id": name, "group": group or name, "case": case, "stratum": "", "parts": parts} | fields
    )


SOURCES = {"judge": _judge_items, "failed edits": _failed_edits, "triplets": _triplets, "built items": _built_items}
NOTHING = {
    "judge": "answer{of} for the judge {study.judge}: see docs/how-to/judges.md for the runs that it judges.",
    "failed edits": "edit{of} failed in setting extract: run AKEW with --setting extract.",
    "triplets": "extracted triplet{of}: run with --benchmark-option triples=FILE and --setting tool, llm or extract.",
    "built items": "built item: give the folder `run` of a benchmark that emend build made.",
}
"""What a run lacks, and how to get it."""
