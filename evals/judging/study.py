"""Annotation studies: what annotators see and are asked, and the sample of a run's answers; the papers' are data."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError, model_validator

from emend.agents.judging.base import Item, Scale
from emend.editors.built_item import BuiltItem
from emend.evals.case import Record
from emend.evals.data.benchmarks.triples import EXTRACTED
from emend.evals.judging.judged_run import open_run
from emend.evals.judging.panel import load_judge
from emend.evals.judging.store import plan
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.metrics.paper_scores import EDITED, akew_error
from emend.evals.metrics.scores import KEPT
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, BadSettings
from emend.memory.registry import nearest

OPTIONS: dict[Scale, tuple[str, ...]] = {"yes or no": ("yes", "no"), "1 to 5": ("1", "2", "3", "4", "5")}


class SheetQuestion(FrozenModel):
    """A question about an item: its column in the sheet, its wording, and by label what the label means."""

    name: str = Field(pattern=r"^[a-z][a-z_]{0,39}$")
    question: str
    options: dict[str, str] = Field(min_length=2)

    @property
    def ordered(self) -> bool:
        """True if the labels are marks."""
        return all(label.isdecimal() for label in self.options)

    def number(self, label: str) -> float:
        """The mark, or the place of a label that is none."""
        return float(label) if self.ordered else float(list(self.options).index(label))


class Study(FrozenModel):
    """A study: the items it takes from a run, and what annotators are told and asked.

    Items are a judge's (`judge`), failed edits (`failed edits`), extracted triplets (`triplets`), or those that a
    construction keeps (`built items`). `split` names the part of an item of which each sentence is an item of its own.
    `strata` are fields of records that the sample shall have in equal numbers. `label` names the question whose labels
    a judge is calibrated with; with `counted`, it is the share of the item's sentences that have that label. `correct`
    is the label of items without an error: the shares of the other labels are those among errors.
    """

    name: str
    title: str
    source: Literal["judge", "failed edits", "triplets", "built items"]
    judge: str = ""
    split: str = ""
    size: int = Field(ge=1, description="number of items; with `split`, of texts; of triplets, of documents")
    strata: tuple[str, ...] = ("model", "editor")
    instructions: str
    questions: tuple[SheetQuestion, ...] = Field(min_length=1)
    label: str = ""
    counted: str = ""
    correct: str = ""
    published: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> "Study":
        names = [question.name for question in self.questions]
        if self.label not in ("", *names):
            raise ValueError(f"label '{self.label}' is none of the questions: {', '.join(names)}")
        if len({*names}) < len(names) or {*names} & {"item", "comment"}:
            raise ValueError("each question needs a name of its own, and neither 'item' nor 'comment'")
        if (self.source == "judge") != bool(self.judge):
            raise ValueError("'judge' names the judge whose items are taken, with source = \"judge\" alone")
        return self


@cache
def shipped_studies() -> dict[str, Study]:
    """The papers' studies, by name."""
    return _read(Path(__file__).with_name("studies.toml"))


def load_study(name: str) -> Study:
    """Load a study: one of the papers', one of a TOML file, or that of a judge.

    Raises:
        BadSettings: there is none of that name, or the judge's labels are no choice.
        BadData: the file cannot be read, or is not as it must be.
    """
    if name.endswith(".toml"):
        studies = _read(Path(name))
        if len(studies) != 1:
            raise BadData(f"'{name}' has {len(studies)} studies: leave one [[study]] in it.")
        return next(iter(studies.values()))
    return shipped_studies().get(name) or _of_judge(name)


def _read(path: Path) -> dict[str, Study]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("study", [])
        studies = [Study.model_validate(table) for table in tables]
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "study"
        raise BadData(f"'{path}', field '{field}': {first['msg']}. See docs/how-to/judges.md, Annotate.") from error
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise BadData(f"cannot read the study '{path}': {error}. See docs/how-to/judges.md, Annotate.") from error
    return {study.name: study for study in studies}


def _of_judge(name: str) -> Study:
    """The question that the judge is asked, put to people."""
    try:
        role = load_judge(name).role
    except BadSettings as error:
        known = list(shipped_studies())
        raise BadSettings(
            f"no study '{name}': {nearest(name, known)} A judge's name, or a .toml file, is one too."
        ) from error
    if role.scale not in OPTIONS:
        raise BadSettings(f"judge '{name}' gives a {role.scale}, which is no choice: use the study recoe-recall.")
    values: dict[str, Any] = {"name": role.output, "question": role.output.replace("_", " ").capitalize() + "?"}
    question = SheetQuestion(**values, options=dict.fromkeys(OPTIONS[role.scale], ""))
    return Study(
        name=name,
        title=role.name.capitalize(),
        source="judge",
        judge=name,
        size=100,
        instructions=role.task,
        questions=(question,),
        label=question.name,
    )


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
            yield record, [_item(parts, record.case, rule=akew_error(record, edits))]


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
