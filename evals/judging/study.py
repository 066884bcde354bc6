"""Annotation studies: items and questions shown to annotators, sampled from the answers of runs."""

import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pydantic import Field, ValidationError, model_validator

from emend.agents.judging.base import Item, Scale
from emend.evals.case import Record
from emend.evals.data.benchmarks.triples import EXTRACTED
from emend.evals.judging.items import plan
from emend.evals.judging.judged_run import open_run
from emend.evals.judging.panel import load_judge
from emend.evals.judging.scorings.search import find_scoring
from emend.evals.judging.scorings.verdicts import open_disputes
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.evals.metrics.published.akew import EDITED, akew_error
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, BadSettings, field_problem, reason_of
from emend.memory.files import read_file
from emend.memory.registry import Registry, nearest

OPTIONS: dict[Scale, tuple[str, ...]] = {
    "yes or no": ("yes", "no"),
    "1 to 5": ("1", "2", "3", "4", "5"),
}


class SheetQuestion(FrozenModel):
    """Question about an item: its column in the sheet, its wording, and its labels with their
    meanings.
    """

    name: str = Field(pattern=r"^[a-z][a-z_]{0,39}$")
    question: str
    options: dict[str, str] = Field(min_length=2)

    @property
    def ordered(self) -> bool:
        """True if the labels are numeric marks."""
        return all(label.isdecimal() for label in self.options)

    def number(self, label: str) -> float:
        """Return the mark, or the index of a label that is not a mark."""
        if self.ordered:
            return float(label)
        return float(list(self.options).index(label))


class Study(FrozenModel):
    """Study with its source of items, and the instructions and questions for annotators.

    The `source` is a judge's items (`judge`), failed edits (`failed edits`), extracted triplets
    (`triplets`) or an installed source (`built_items` of `emend build`). `split` names a part whose
    sentences become separate items. `strata` are fields of records; the sample has equal numbers
    for all combinations of their values. `label` names the question whose labels calibrate a judge;
    with `counted`, the calibration label is the share of an item's sentences with that label.
    `correct` is the label of items without an error; the shares of the other labels are shares of
    the errors.
    """

    name: str
    title: str
    source: str
    judge: str = ""
    split: str = ""
    size: int = Field(
        ge=1, description="number of items, texts (with `split`) or documents (for triplets)"
    )
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
            raise ValueError(
                f"label '{self.label}' is not one of the questions: {', '.join(names)}"
            )
        if len({*names}) < len(names) or {*names} & {"item", "comment"}:
            raise ValueError(
                "each question needs a name of its own, and neither 'item' nor 'comment'"
            )
        if (self.source == "judge") != bool(self.judge):
            raise ValueError(
                "'judge' names the judge whose items are taken, with source = \"judge\" alone"
            )
        return self


@cache
def shipped_studies() -> dict[str, Study]:
    """Return the papers' studies by name."""
    return _read(Path(__file__).with_name("studies.toml"))


def load_study(name: str) -> Study:
    """Load a study: a paper's by name, one from a TOML file, or one that asks a judge's question.

    Raises:
        BadSettings: there is no study of that name, or the judge's scale has no fixed labels.
        BadData: the file cannot be read or is invalid.
    """
    if name.endswith(".toml"):
        studies = _read(Path(name))
        if len(studies) != 1:
            raise BadData(f"'{name}' has {len(studies)} studies: leave one [[study]] in it.")
        return next(iter(studies.values()))
    return shipped_studies().get(name) or _of_judge(name)


def _read(path: Path) -> dict[str, Study]:
    try:
        text = read_file(path, links=True, is_small=True).decode("utf-8-sig")
        tables = tomllib.loads(text).get("study", [])
        studies = [Study.model_validate(table) for table in tables]
    except ValidationError as error:
        problem = field_problem(error, whole="study")
        raise BadData(f"'{path}', {problem}. See docs/how-to/judges.md, Annotate.") from error
    except (BadData, OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise BadData(
            f"cannot read the study '{path}': {reason_of(error)}. See "
            "docs/how-to/judges.md, Annotate."
        ) from error
    return {study.name: study for study in studies}


def _of_judge(name: str) -> Study:
    """Return a study that asks people a judge's question."""
    try:
        role = load_judge(name).role
    except BadSettings as error:
        known = list(shipped_studies())
        raise BadSettings(
            f"no study '{name}': {nearest(name, known)} A judge's name, or a .toml file, is one "
            "too."
        ) from error
    if role.scale not in OPTIONS:
        raise BadSettings(
            f"judge '{name}' gives a {role.scale}, which cannot be chosen from options: use the "
            "study recoe-recall."
        )
    values: dict[str, Any] = {
        "name": role.output,
        "question": role.output.replace("_", " ").capitalize() + "?",
    }
    question = SheetQuestion(**values, options=dict.fromkeys(OPTIONS[role.scale], ""))
    return Study(
        name=name,
        title=role.name.capitalize(),
        source="judge",
        judge=name,
        size=100,
        instructions=role.instructions or role.task,
        questions=(question,),
        label=question.name,
    )


Parts = dict[str, tuple[str, ...]]


class AnnotationItem(FrozenModel):
    """Item as shown to annotators (`parts`), with its hidden stratum and the rule's label.

    Items of one `group` are next to each other on the sheet; `judged` are the parts shown to a
    judge.
    """

    id: str
    group: str
    case: str
    stratum: str
    parts: Parts
    judged: Parts = {}
    rule: str = ""


# Attributes of an item's record, such as editor, model and setting, by which samples can be
# stratified.
Labels = Mapping[str, Any]


class LabelSource(NamedTuple):
    """Source of items for studies.

    Attributes:
        items: function that yields the items of a run, with the attributes for the strata.
        nothing: end of the error message for a run without items: what it lacks, and the remedy.
    """

    items: Callable[[Path, Study], Iterator[tuple[Labels, list[AnnotationItem]]]]
    nothing: str


SOURCES: Registry[LabelSource] = Registry(
    kind="source of items to label",
    group="emend.label_sources",
    builtin={
        "judge": ("emend.evals.judging.study:JUDGED", "Items of a judge."),
        "failed edits": (
            "emend.evals.judging.study:FAILED_EDITS",
            "Failed edits by extracted triplets.",
        ),
        "triplets": ("emend.evals.judging.study:TRIPLETS", "Extracted triplets."),
    },
    interfaces=(("items", "nothing"),),
)


def load_source(study: Study) -> LabelSource:
    """Load the source of a study's items.

    Raises:
        BadSettings: the source is unknown, not trusted, or not a `LabelSource`.
    """
    source = SOURCES.load(study.source)
    if not isinstance(source, LabelSource):
        raise BadSettings(
            f"{SOURCES.kind} '{study.source}' is not an emend.extend.LabelSource: see "
            "docs/how-to/extend.md for what it needs."
        )
    return source


class Sample(NamedTuple):
    """Sampled items in the order of their groups, and the numbers of existing and sampled groups by
    stratum.
    """

    items: list[AnnotationItem]
    strata: dict[str, tuple[int, int]]


def draw(
    folders: Sequence[Path],
    study: Study,
    editors: Sequence[str] = (),
    seed: int = 0,
    disputed: bool = False,
) -> Sample:
    """Draw a study's sample from runs; the same items give the same sample, regardless of their
    order.

    Args:
        folders: run folders.
        study: the study.
        editors: names of the editors whose answers are used; empty uses all.
        seed: seed of the sample.
        disputed: use only items whose verdicts are disputed in the newest scoring of a run.

    Raises:
        BadSettings: the runs have nothing to label, or a stratum is not a field of the records.
        BadData: a run cannot be read.
    """
    strata: dict[str, dict[str, list[AnnotationItem]]] = {}
    source = load_source(study)
    for folder in folders:
        if not (folder / MANIFEST).exists():
            Manifest.read(folder)  # raises the error that describes the folder
        allowed = _disputed_ids(folder, study) if disputed else None
        for labels, items in source.items(folder, study):
            if editors and labels.get("editor") not in editors:
                continue
            if allowed is not None:
                items = [item for item in items if item.group in allowed]
            stratum = ", ".join(_stratum(labels, name) for name in study.strata)
            groups = strata.setdefault(stratum, {}) if items else {}
            for item in items:
                group = groups.setdefault(item.group, [])
                group.append(item.model_copy(update={"stratum": stratum}))
    if not any(strata.values()):
        if disputed:
            raise BadSettings(
                f"{' and '.join(map(str, folders))}: no verdict of {study.judge} is disputed."
            )
        of = f" of {', '.join(editors)}" if editors else ""
        raise BadSettings(
            f"{' and '.join(map(str, folders))}: no {source.nothing.format(of=of, study=study)}"
        )
    return _sample(strata, study.size, seed)


def _disputed_ids(folder: Path, study: Study) -> set[str]:
    """Return the ids of items with disputed verdicts in the newest scoring of a run.

    Raises:
        BadSettings: the study has no judge, or the newest scoring lacks this judge.
    """
    scoring = find_scoring(folder)
    if not study.judge or scoring is None or study.judge not in scoring.kinds:
        judged = study.judge or "equivalence"
        raise BadSettings(
            f"'{folder}' has no verdicts for '{study.name}' that could be disputed: give --study "
            f"{judged}, after emend judge run {folder} --kind {judged} --judge MODEL"
        )
    return {*open_disputes(folder, scoring, study.judge)}


def _sample(strata: dict[str, dict[str, list[AnnotationItem]]], size: int, seed: int) -> Sample:
    """Sample groups from each stratum in turn; a group in several strata is sampled once."""
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
    items: list[AnnotationItem] = []
    for group, name in drawn.items():
        items.extend({item.id: item for item in strata[name][group]}.values())
    counts = Counter(drawn.values())
    return Sample(
        items, {name: (len(groups), counts[name]) for name, groups in sorted(strata.items())}
    )


def _stratum(labels: Labels, name: str) -> str:
    if name not in labels:
        raise BadSettings(f"--by {name}: the records have {', '.join(sorted(labels))}.")
    return str(labels[name])


def _labels(record: Record) -> Labels:
    """Return the fields of a record by which a sample may be stratified, including its tags."""
    return record.model_dump(include={"editor", "model", "setting", "mode", "kind"}) | record.tags


def _judge_items(folder: Path, study: Study) -> Iterator[tuple[Labels, list[AnnotationItem]]]:
    """Yield the items for a judge; with `split`, one for each sentence of that part."""
    judge = load_judge(study.judge)
    for record, items in plan(folder, {study.judge: judge}):
        item = items.get(study.judge)
        if not isinstance(item, Item) or record.checkpoint:
            continue
        if study.split:
            sentences = split_sentences(item.text_of(study.split))
        else:
            sentences = []
        statements: list[Parts] = [{"statement": (text,)} for text in dict.fromkeys(sentences)]
        yield (
            _labels(record),
            [
                annotation_item(
                    judge.role.shown(item, False) | part, record.case, item.id, judged=item.parts
                )
                for part in (statements if study.split else [{}])
            ],
        )


def _failed_edits(folder: Path, study: Study) -> Iterator[tuple[Labels, list[AnnotationItem]]]:
    """Yield the items of edits by extracted triplets whose own question is answered wrongly."""
    run = open_run(folder, "none")
    for record in run.records():
        failed = (
            record.setting == "extract" and record.kind in EDITED and record.values.get("em") == 0.0
        )
        if failed and record.editor != "unedited":
            edits = run.case(record).edits
            parts = {
                "question": (record.prompt,),
                "new answer": record.gold[:1],
                "old answer": (record.rival or "",),
                "triplets": tuple(str(edit["text"]) for edit in edits),
                "reply": (record.answer or "",),
            }
            yield (
                _labels(record),
                [annotation_item(parts, record.case, rule=akew_error(record, edits))],
            )


def _triplets(folder: Path, study: Study) -> Iterator[tuple[Labels, list[AnnotationItem]]]:
    """Yield the items of each document's triplets, with the fact that the document conveys."""
    run = open_run(folder, "none")
    for record in run.records():
        if record.kind not in EDITED or record.setting not in EXTRACTED:
            continue
        fact, items = f"{record.prompt} {record.gold[0]}", []
        for edit in run.case(record).edits:
            text, subject, target = (
                str(edit.get(name, "")) for name in ("text", "subject", "target_new")
            )
            relation = text.removeprefix(subject).removesuffix(".").removesuffix(target).strip()
            items.append(
                annotation_item(
                    {"fact": (fact,), "triplet": (subject, relation, target)},
                    record.case,
                    record.case,
                )
            )
        yield _labels(record), items


def annotation_item(
    parts: Parts, case: str, group: str = "", **fields: str | Parts
) -> AnnotationItem:
    """Return an item with these parts, which determine its id; without `group` it is in a separate
    group.
    """
    name = content_id("annotation", parts)
    return AnnotationItem.model_validate(
        {"id": name, "group": group or name, "case": case, "stratum": "", "parts": parts} | fields
    )


JUDGED = LabelSource(
    _judge_items,
    "answer{of} for the judge {study.judge}: see docs/how-to/judges.md for the runs "
    "that it judges.",
)
FAILED_EDITS = LabelSource(
    _failed_edits, "edit{of} failed in setting extract: run AKEW with --setting extract."
)
TRIPLETS = LabelSource(
    _triplets,
    "extracted triplet{of}: run with --benchmark-option triples=FILE and --setting tool, llm or "
    "extract.",
)
