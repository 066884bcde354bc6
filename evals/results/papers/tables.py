"""The result tables of the four papers as they are printed, and which of a run's numbers is beside which figure."""

import csv
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from emend.evals.log.manifest import Manifest
from emend.evals.results.aggregate.columns import MetricRow
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

NAMES = ("akew", "docter", "elken", "recoe")
Dimension = Literal["model", "method", "data", "setting", "metric"]
DIMENSIONS: tuple[Dimension, ...] = ("model", "method", "data", "setting", "metric")
Unit = Literal["percent", "perplexity", "count"]


class Cell(FrozenModel):
    """A printed figure: its dimensions, its text as printed, and the drop in percent printed beside it.

    `setting` is what the editor was given (AKEW, DocTER, ELKEN) or how the model was asked (ReCoE); `data` the data
    set, language pair, kind of question or reasoning scheme; what a table does not name is empty.
    """

    table: int
    model: str
    method: str
    data: str
    setting: str
    metric: str
    printed: str
    unit: Unit
    drop: int | None = None

    @property
    def value(self) -> float:
        """The figure, in its unit."""
        return float(self.printed)

    @property
    def decimals(self) -> int:
        """Number of printed decimals."""
        return len(self.printed.partition(".")[2])

    def as_row(self) -> dict[str, Any]:
        """Dictionary for JSON, with the figure as a number."""
        return self.model_dump(exclude={"table", "printed"}) | {"value": self.value}

    def key(self, dimensions: tuple[Dimension, ...] = DIMENSIONS) -> tuple[str, ...]:
        """Key of the cell in these dimensions."""
        return tuple(str(getattr(self, name)) for name in dimensions)


class Disagreement(FrozenModel):
    """A printed figure that its own table, or another one, contradicts.

    `check` is `drop` (against the two figures), `average`, `weighted` (by numbers of questions), `difference`, `sum`,
    `F1` (of precision and recall) or `repeat` (the same figure in another table); `computed` is from the other figures
    as printed, and `off` is printed minus computed, both to three decimals.
    """

    paper: str
    table: int
    check: str
    model: str
    method: str
    data: str
    setting: str
    metric: str
    printed: float
    computed: float
    off: float


class PaperTable(FrozenModel):
    """A table: `rows` and `columns` are the dimensions that its rows and columns run over, outermost first."""

    paper: str
    number: int
    caption: str
    """Caption in our own words."""
    rows: tuple[Dimension, ...]
    columns: tuple[Dimension, ...]
    dashes: int = 0
    """Number of places where the paper prints a dash: not measured, or not possible."""
    blanks: int = 0
    """Number of places where nothing legible is printed; `not_legible` lists them."""
    not_legible: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cells: tuple[Cell, ...]
    whole: tuple[Cell, ...] = ()
    """All cells, where `cells` are some of them."""

    @property
    def id(self) -> str:
        """Name on the command line: `akew:2`."""
        return f"{self.paper}:{self.number}"

    def as_row(self) -> dict[str, Any]:
        """Dictionary for JSON: the table's entry in the list, and its notes."""
        fields = self.model_dump(mode="json", include={"paper", "number", "caption", "dashes", "not_legible", "notes"})
        return {"table": self.id} | fields | {"cells": len(self.cells)}

    def keys(self, dimensions: tuple[Dimension, ...]) -> list[tuple[str, ...]]:
        """The different keys of its cells in these dimensions, in the printed order."""
        here = {cell.key(dimensions) for cell in self.cells}
        order = dict.fromkeys(cell.key(dimensions) for cell in self.whole or self.cells)
        return [key for key in order if key in here]

    def part(self, cells: Iterable[Cell]) -> "PaperTable":
        """The table with some of its cells."""
        return self.model_copy(update={"cells": tuple(cells), "whole": self.whole or self.cells})


class Paper(FrozenModel):
    """A paper and its result tables; `benchmark` is the name of its benchmark in Emend."""

    name: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    arxiv: str
    benchmark: str
    tables: tuple[PaperTable, ...]

    @property
    def citation(self) -> str:
        """Reference to the paper in one line."""
        who = ", ".join(self.authors)
        return f"{who}. {self.title}. {self.venue}, {self.year}. arXiv:{self.arxiv}"


@cache
def paper(name: str) -> Paper:
    """The paper of that name.

    Raises:
        BadSettings: there is none.
    """
    if name not in NAMES:
        raise BadSettings(f"unknown paper '{name}': {nearest(name, list(NAMES))}")
    fields = _toml(name)
    cells = [Cell.model_validate(row | {"drop": row["drop"] or None}) for row in _rows(f"{name}.csv")]
    tables = [
        PaperTable(paper=name, cells=tuple(cell for cell in cells if cell.table == row["number"]), **row)
        for row in fields["tables"]
    ]
    return Paper(**fields | {"tables": tuple(tables)})


@cache
def known_disagreements() -> tuple[Disagreement, ...]:
    """The committed list, `disagreements.csv`."""
    return tuple(Disagreement.model_validate(row) for row in _rows("disagreements.csv"))


def papers() -> list[Paper]:
    """All papers."""
    return [paper(name) for name in NAMES]


def table(name: str) -> PaperTable:
    """The table that `akew:2` names.

    Raises:
        BadSettings: no such paper or table.
    """
    of, colon, number = name.partition(":")
    numbered = {str(table.number): table for table in paper(of).tables}
    if not colon or number not in numbered:
        raise BadSettings(f"no table '{name}': the tables of {of} are {', '.join(f'{of}:{n}' for n in numbered)}.")
    return numbered[number]


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(name).splitlines()))


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(_text(f"{name}.toml"))


def _text(name: str) -> str:
    return (files("emend.evals.results.papers") / name).read_text(encoding="utf-8")


class CellRule(FrozenModel):
    """Needs of the figures that `cells` names, or why they cannot be run; see the head of `table_rules.toml`."""

    cells: dict[str, str | tuple[str, ...]]
    options: dict[str, str] = {}
    overrides: dict[str, dict[str, Any]] = {}
    run: dict[str, Any] = {}
    blocked: str = ""
    model: str = ""
    requirement: str = ""
    file: str = ""
    make: dict[str, Any] = {}

    def applies(self, cell: Cell, is_other: bool = False) -> bool:
        """Return whether the figure is one of `cells`; `is_other` where another model has its model's place."""
        lists = {name: (of,) if isinstance(of, str) else of for name, of in self.cells.items()}
        is_one = all(str(getattr(cell, name)) in values for name, values in lists.items())
        return is_one and not (is_other and "model" in self.cells)


class PaperRules(FrozenModel):
    """The rules of a paper; see the head of `table_rules.toml`."""

    joined: tuple[str, ...] = ()
    by_data: str = ""
    average: str = ""
    rules: tuple[CellRule, ...] = ()


class PaperModel(FrozenModel):
    """A paper's model: billions of parameters and name on the Hugging Face hub, where its weights are public.

    `card` says what the page of its weights says of access, licence, kind of weights and chat format.
    """

    parameters: float | None = None
    hub: str = ""
    card: str = ""


@cache
def table_rules(paper: str) -> PaperRules:
    """The rules of a paper."""
    return PaperRules.model_validate(_toml("table_rules").get(paper, {}))


@cache
def paper_models() -> dict[str, PaperModel]:
    """The papers' models by name."""
    return {name: PaperModel.model_validate(fields) for name, fields in _toml("table_rules")["models"].items()}


def gpu_gigabytes() -> float:
    """Memory of the GPU that is assumed."""
    return float(_toml("table_rules")["gpu"]["gigabytes"])


def gigabytes_needed(billions: float, editor: str, settings: Mapping[str, Any]) -> float:
    """Memory that an editor with these settings takes on a model of so many parameters; a gigabyte is 10^9 bytes."""
    per_parameter = memory_factor(editor, settings) * _toml("table_rules")["memory"]["default"]
    return float(billions * per_parameter + _toml("table_rules")["gpu"]["beside"])


def memory_factor(editor: str, settings: Mapping[str, Any]) -> float:
    """Memory that an editor with these settings takes, the model's weights included, in memory of the weights."""
    memory = _toml("table_rules")["memory"]
    named = (f"{editor}.{name}={value}" for name, value in settings.items())
    key = next((name for name in (*named, editor) if name in memory), "default")
    return float(memory[key] / memory["default"])


SERVERS = ("openai:", "vllm:", "sglang:", "completions:", "langchain:")
"""Beginnings of models' names that may end in an address."""


class MethodRule(FrozenModel):
    """An editor is a paper's method where the run's mode, setting and retriever are these; None: whatever they are.

    So it is with `metric`, the published one. `differs` says what is not alike, unless the run has one of the values in
    `unless`: of its mode, embedding or retriever, or of a setting of the editor; a part of the value is enough.
    """

    editor: str
    method: str
    mode: str | None = None
    setting: str | None = None
    retriever: str | None = None
    metric: str | None = None
    differs: str = ""
    unless: dict[str, str] = {}


class MetricRule(FrozenModel):
    """A run's metric is a published one, on some data; see the head of `counterparts.toml`."""

    metric: str
    published: str
    data: str
    mode: str | None = None
    settings: tuple[str, ...] = ()
    setting: str | None = None
    method: str | None = None
    when: dict[str, str] = {}
    n: int | None = None
    differs: str = ""
    judge: str = ""
    """Name of the judge without which a run has no such metric."""
    derived: str = ""
    """Kind of the figure in `derived.DERIVED`, if no metric of the benchmark has it."""


class Rules(FrozenModel):
    """The rules of one paper, and what differs from it in every run."""

    methods: tuple[MethodRule, ...]
    metrics: tuple[MetricRule, ...]
    settings: dict[str, str] = {}
    differs: tuple[str, ...] = ()


class PublishedPlace(NamedTuple):
    """Place of a number in a paper; `method` is empty if the paper has no such method."""

    method: str
    block: tuple[str, ...]
    """Data, setting and metric."""
    n: int | None
    """Number of questions behind the paper's figure, if known."""
    differs: tuple[str, ...]
    shared: bool
    """The figure is not the editor's own: every editor of a run has the same."""


@cache
def rules(paper: str) -> Rules:
    """The rules of a paper."""
    return Rules.model_validate(_toml("counterparts")[paper])


def places(paper: str, row: MetricRow, manifest: Manifest) -> Iterator[PublishedPlace]:
    """Places of a run's number in the tables of a paper; none if no rule applies."""
    paper_rules = rules(paper)
    options = manifest.benchmark.get("options") or manifest.config.benchmark_options
    setting = paper_rules.settings.get(row.setting, row.setting)
    for rule in paper_rules.metrics:
        if rule.metric != row.metric or rule.mode not in (None, row.mode):
            continue
        if rule.settings and row.setting not in rule.settings:
            continue
        if all(value in str(options.get(name, "")).split(",") for name, value in rule.when.items()):
            is_shared = rule.method is not None
            method, differs = ("", "") if is_shared else _method(paper_rules, row, manifest, rule)
            yield PublishedPlace(
                method=rule.method or method,
                block=(rule.data, setting if rule.setting is None else rule.setting, rule.published),
                n=rule.n,
                differs=tuple(filter(None, (rule.differs, differs))),
                shared=is_shared,
            )


def _method(paper_rules: Rules, row: MetricRow, manifest: Manifest, metric: MetricRule) -> tuple[str, str]:
    """The paper's method that an editor is, and what differs from it; empty if the paper has no such method."""
    fingerprint = manifest.editors.get(row.setting, {}).get(row.editor, {})
    editor, config = fingerprint.get("editor", row.editor), manifest.config
    setting = paper_rules.settings.get(row.setting, row.setting)
    here = (editor, row.mode, setting, config.retriever, metric.published)
    for rule in paper_rules.methods:
        pairs = (rule.editor, rule.mode, rule.setting, rule.retriever, rule.metric)
        if all(want in (None, have) for want, have in zip(pairs, here, strict=True)):
            values = {"mode": row.mode, "embedding": config.embedding, "retriever": config.retriever}
            values |= fingerprint.get("settings") or {}
            alike = any(value in str(values.get(name, "")).lower() for name, value in rule.unless.items())
            return rule.method, "" if alike else rule.differs
    return "", ""


def same_model(run: str, published: str) -> bool:
    """Return True if a run's model (`hf:FOLDER`, `openai:NAME@URL`) has a name of the paper's model."""
    name = run.removeprefix("langchain:").partition(":")[2]
    name = name.partition("@")[0] if run.startswith(SERVERS) else name
    plain = re.sub(r"[^a-z0-9]", "", name.rstrip("/").rpartition("/")[2].lower())
    return plain in _toml("counterparts")["models"].get(published, ())
