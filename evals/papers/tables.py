"""Result tables of the four papers as printed, and rules that match a run's numbers to figures."""

import csv
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from emend.editors.memory_need import billions_of_parameters, bytes_per_parameter
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
    """A printed figure: its dimensions, its text, and the drop in percent printed beside it.

    `setting` is the input of the editor (AKEW, DocTER, ELKEN) or the way of prompting (ReCoE).
    `data` is the data set, language pair, kind of question or reasoning scheme. Dimensions that a
    table does not name are empty.
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
        """The figure as a number, in its unit."""
        return float(self.printed)

    @property
    def decimals(self) -> int:
        """Number of printed decimals."""
        return len(self.printed.partition(".")[2])

    def as_row(self) -> dict[str, Any]:
        """Return a dictionary for JSON, with the figure as a number."""
        return self.model_dump(exclude={"table", "printed"}) | {"value": self.value}

    def key(self, dimensions: tuple[Dimension, ...] = DIMENSIONS) -> tuple[str, ...]:
        """Return the cell's key in these dimensions."""
        return tuple(str(getattr(self, name)) for name in dimensions)


class Disagreement(FrozenModel):
    """A printed figure that contradicts its own table or another one.

    `check` is `drop` (against the two figures), `average`, `weighted` (by numbers of questions),
    `difference`, `sum`, `F1` (of precision and recall) or `repeat` (the same figure in another
    table). `computed` is derived from the other figures as printed, and `off` is printed minus
    computed, both rounded to three decimals.
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
    """A published table; `rows` and `columns` are the dimensions of its axes, outermost first."""

    paper: str
    number: int
    caption: str
    """Caption in our own words."""
    rows: tuple[Dimension, ...]
    columns: tuple[Dimension, ...]
    dashes: int = 0
    """Number of cells with a printed dash: not measured, or not possible."""
    blanks: int = 0
    """Number of cells without a legible figure; `not_legible` lists them."""
    not_legible: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cells: tuple[Cell, ...]
    whole: tuple[Cell, ...] = ()
    """All cells of the table, if `cells` is a selection."""

    @property
    def id(self) -> str:
        """Name on the command line, such as `akew:2`."""
        return f"{self.paper}:{self.number}"

    def as_row(self) -> dict[str, Any]:
        """Return a dictionary for JSON, with the table's list entry and its notes."""
        fields = self.model_dump(
            mode="json", include={"paper", "number", "caption", "dashes", "not_legible", "notes"}
        )
        return {"table": self.id} | fields | {"cells": len(self.cells)}

    def keys(self, dimensions: tuple[Dimension, ...]) -> list[tuple[str, ...]]:
        """Return the distinct keys of the cells in these dimensions, in the printed order."""
        here = {cell.key(dimensions) for cell in self.cells}
        order = dict.fromkeys(cell.key(dimensions) for cell in self.whole or self.cells)
        return [key for key in order if key in here]

    def part(self, cells: Iterable[Cell]) -> "PaperTable":
        """Return the table with a selection of its cells."""
        return self.model_copy(update={"cells": tuple(cells), "whole": self.whole or self.cells})


class Paper(FrozenModel):
    """A paper with its result tables; `benchmark` is the name of its benchmark in Emend."""

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
        """One-line reference to the paper."""
        who = ", ".join(self.authors)
        return f"{who}. {self.title}. {self.venue}, {self.year}. arXiv:{self.arxiv}"


@cache
def paper(name: str) -> Paper:
    """Return the paper of that name.

    Raises:
        BadSettings: there is no such paper.
    """
    if name not in NAMES:
        raise BadSettings(f"unknown paper '{name}': {nearest(name, list(NAMES))}")
    fields = _toml(name)
    cells = [
        Cell.model_validate(row | {"drop": row["drop"] or None}) for row in _rows(f"{name}.csv")
    ]
    tables = []
    for row in fields["tables"]:
        table_cells = tuple(cell for cell in cells if cell.table == row["number"])
        tables.append(PaperTable(paper=name, cells=table_cells, **row))
    return Paper(**fields | {"tables": tuple(tables)})


@cache
def known_disagreements() -> tuple[Disagreement, ...]:
    """Return the known disagreements, from `disagreements.csv`."""
    return tuple(Disagreement.model_validate(row) for row in _rows("disagreements.csv"))


def papers() -> list[Paper]:
    """Return all papers."""
    return [paper(name) for name in NAMES]


def table(name: str) -> PaperTable:
    """Return a table by its name, such as `akew:2`.

    Raises:
        BadSettings: there is no such paper or table.
    """
    of, colon, number = name.partition(":")
    numbered = {str(table.number): table for table in paper(of).tables}
    if not colon or number not in numbered:
        raise BadSettings(
            f"no table '{name}': the tables of {of} are {', '.join(f'{of}:{n}' for n in numbered)}."
        )
    return numbered[number]


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(name).splitlines()))


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(_text(f"{name}.toml"))


def _text(name: str) -> str:
    return (files("emend.evals.papers") / name).read_text(encoding="utf-8")


class CellRule(FrozenModel):
    """Requirements of the figures that `cells` selects, or why they cannot be run.

    The comment at the top of `table_rules.toml` describes the fields.
    """

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
        """Return True if the rule selects the figure.

        `is_other` is true if another model replaces the figure's; rules about models do not apply
        then.
        """
        if is_other and "model" in self.cells:
            return False
        for dimension, names in self.cells.items():
            if isinstance(names, str):
                names = (names,)
            if str(getattr(cell, dimension)) not in names:
                return False
        return True


class PaperRules(FrozenModel):
    """Rules of a paper; the comment at the top of `table_rules.toml` describes the fields."""

    joined: tuple[str, ...] = ()
    by_data: str = ""
    average: str = ""
    rules: tuple[CellRule, ...] = ()


class PaperModel(FrozenModel):
    """A paper's model, with its name on the Hugging Face hub if its weights are public.

    `card` summarizes the model card: access, licence, kind of weights and chat format.
    """

    hub: str = ""
    card: str = ""

    @property
    def parameters(self) -> float | None:
        """Billions of parameters; None if the name on the hub does not tell or is empty."""
        return billions_of_parameters(self.hub)


@cache
def table_rules(paper: str) -> PaperRules:
    """Return the rules of a paper from `table_rules.toml`."""
    return PaperRules.model_validate(_toml("table_rules").get(paper, {}))


@cache
def paper_models() -> dict[str, PaperModel]:
    """Return the papers' models by name."""
    return {
        name: PaperModel.model_validate(fields)
        for name, fields in _toml("table_rules")["models"].items()
    }


def gpu_gigabytes() -> float:
    """Return the assumed memory of a GPU in gigabytes."""
    return float(_toml("table_rules")["gpu"]["gigabytes"])


def gigabytes_needed(billions: float, editor: str, settings: Mapping[str, Any]) -> float:
    """Return the gigabytes (10^9 bytes) that an editor with these settings needs for a model."""
    beside = float(_toml("table_rules")["gpu"]["beside"])
    return billions * bytes_per_parameter(editor, settings) + beside


# Prefixes of model names that may end in an address.
SERVERS = ("openai:", "vllm:", "sglang:", "completions:", "langchain:")


class MethodRule(FrozenModel):
    """Match of an editor to a paper's method; None for a field matches any value.

    Mode, setting and retriever are those of the run, `metric` is the published one. `differs`
    describes the difference from the paper, unless the run's mode, embedding, retriever or editor
    setting contains the value given in `unless`.
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
    """Match of a run's metric to a published metric on some data.

    The comment at the top of `counterparts.toml` describes the fields.
    """

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
    """Name of the judge that the metric requires."""
    derived: str = ""
    """Kind of figure in `compare_published.DERIVED`, if the benchmark has no such metric."""


class Rules(FrozenModel):
    """Rules that match a run to a paper, and the differences that all runs have."""

    methods: tuple[MethodRule, ...]
    metrics: tuple[MetricRule, ...]
    settings: dict[str, str] = {}
    differs: tuple[str, ...] = ()


class PublishedPlace(NamedTuple):
    """Position of a number in a paper's tables; `method` is empty if the paper lacks the method."""

    method: str
    block: tuple[str, ...]
    """Data, setting and metric."""
    n: int | None
    """Number of questions behind the paper's figure, if known."""
    differs: tuple[str, ...]
    shared: bool
    """True if the figure does not depend on the editor, so that all editors of a run share it."""


@cache
def rules(paper: str) -> Rules:
    """Return the rules of a paper from `counterparts.toml`."""
    return Rules.model_validate(_toml("counterparts")[paper])


def places(paper: str, row: MetricRow, manifest: Manifest) -> Iterator[PublishedPlace]:
    """Yield the positions of a run's number in a paper's tables; nothing if no rule applies."""
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
                block=(
                    rule.data,
                    setting if rule.setting is None else rule.setting,
                    rule.published,
                ),
                n=rule.n,
                differs=tuple(filter(None, (rule.differs, differs))),
                shared=is_shared,
            )


def _method(
    paper_rules: Rules, row: MetricRow, manifest: Manifest, metric: MetricRule
) -> tuple[str, str]:
    """Return the paper's method for an editor, and how the run differs; empty if none fits."""
    fingerprint = manifest.editors.get(row.setting, {}).get(row.editor, {})
    editor, config = fingerprint.get("editor", row.editor), manifest.config
    setting = paper_rules.settings.get(row.setting, row.setting)
    here = (editor, row.mode, setting, config.retriever, metric.published)
    for rule in paper_rules.methods:
        pairs = (rule.editor, rule.mode, rule.setting, rule.retriever, rule.metric)
        if all(want in (None, have) for want, have in zip(pairs, here, strict=True)):
            values = {
                "mode": row.mode,
                "embedding": config.embedding,
                "retriever": config.retriever,
            }
            values |= fingerprint.get("settings") or {}
            for name, value in rule.unless.items():
                if value in str(values.get(name, "")).lower():
                    return rule.method, ""
            return rule.method, rule.differs
    return "", ""


def same_model(run: str, published: str) -> bool:
    """Return True if a run's model (such as `hf:FOLDER`) is named like the paper's model."""
    name = run.removeprefix("langchain:").partition(":")[2]
    if run.startswith(SERVERS):
        name = name.partition("@")[0]
    plain = re.sub(r"[^a-z0-9]", "", name.rstrip("/").rpartition("/")[2].lower())
    return plain in _toml("counterparts")["models"].get(published, ())
