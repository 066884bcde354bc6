"""Requirements of each published figure, or the reason why it cannot be run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any, Literal, NamedTuple

from emend.agents.llm import is_local_spec
from emend.agents.weight_differences import difference_remedy
from emend.editors.registry import EDITORS
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.papers.tables import (
    Cell,
    CellRule,
    Dimension,
    MethodRule,
    MetricRule,
    PaperTable,
    gigabytes_needed,
    gpu_gigabytes,
    paper,
    paper_models,
    rules,
    same_model,
    table_rules,
)
from emend.memory.edit import FrozenModel

Status = Literal["now", "option", "own", "model", "no"]
# Ways in which a figure can be run, from the easiest to impossible.
STATUSES: dict[Status, str] = {
    "now": "now",
    "option": "with an option",
    "own": "with your file or weights",
    "model": "with another model",
    "no": "no",
}
# Field of an extraction's options, and DocTER's names of extracted triplets.
METHOD, LLM, TOOL = "method", "llm", "tool"
UNEDITED = "unedited"
NO_PLACE = "no metric of a run corresponds to it"
NO_MODEL = "the paper names no model: --model SPEC"
# Kind of figures about a file of extracted triplets; a run of any editor gives them.
TRIPLES = "triples"


class Need(FrozenModel):
    """Part of a run that gives a figure; `judge` is the judge that it requires.

    `file` names a file of extracted triplets, and `make` has the `emend extract` options to make
    it.
    """

    editor: str
    mode: str
    setting: str
    retriever: str | None = None
    options: dict[str, str] = {}
    overrides: dict[str, Any] = {}
    """Overrides of the editor's settings."""
    run: dict[str, Any] = {}
    judge: str = ""
    file: str = ""
    make: dict[str, Any] = {}


class PlannedCell(FrozenModel):
    """A published figure, with its model, its needs, and what a plain command lacks for it."""

    cell: Cell
    model: str = ""
    """Model in the form of `emend run --model`; empty if there is none."""
    status: Status
    reason: str = ""
    need: Need | None = None
    parts: tuple[Cell, ...] = ()
    """Figures whose mean this figure is."""


def plan_cells(
    table: PaperTable, models: Mapping[str, str], cells: Sequence[Cell] = ()
) -> list[PlannedCell]:
    """Plan the figures of a table.

    Args:
        table: the published table.
        models: model by name of a paper's model; the paper's own model on the hub is the default.
        cells: figures to plan; the figures that their means need are added. By default all.
    """
    plans = {
        cell.key(): _plan_cell(table.paper, cell, models.get(cell.model, ""))
        for cell in table.cells
    }
    for cell in (cell for cell in table.cells if cell.data == table_rules(table.paper).average):
        others: tuple[Dimension, ...] = ("model", "method", "setting", "metric")
        beside = [
            each
            for each in table.cells
            if each.data != cell.data and each.key(others) == cell.key(others)
        ]
        parts = [plans[each.key()] for each in beside]
        worst = max(parts, key=lambda part: [*STATUSES].index(part.status))
        fields = {
            "status": worst.status,
            "reason": worst.reason,
            "parts": tuple(part.cell for part in parts),
        }
        plans[cell.key()] = plans[cell.key()].model_copy(update=fields | {"need": None})
    keys = {cell.key() for cell in cells or table.cells}
    keys |= {part.key() for key in keys for part in plans[key].parts}
    return [plan for key, plan in plans.items() if key in keys]


def _plan_cell(name: str, cell: Cell, model: str) -> PlannedCell:
    is_other = bool(model) and not same_model(model, cell.model)
    hub, spec = "", model
    if published := paper_models().get(cell.model):
        hub = published.hub
    is_difference = not model and bool(difference_remedy(hub))
    if not model and hub and not is_difference:
        spec = f"hf:{hub}"
    applying = tuple(rule for rule in table_rules(name).rules if rule.applies(cell, is_other))
    need = next(_CellReader(name, cell, applying).needs(), None)
    blocked = next((rule.blocked for rule in applying if rule.blocked), "")
    if blocked or need is None:
        return PlannedCell(
            cell=cell, model=spec, status="no", reason=blocked or NO_PLACE, need=need
        )
    status, reason = _limit(cell, spec, need, applying, is_other)
    if not status:
        requirements = [rule.requirement for rule in applying if rule.requirement]
        if is_difference:
            text = f"{hub} holds a difference to LLaMA-1: --model '{cell.model}=hf:FOLDER'"
            requirements.insert(0, text)
        status, reason = _conditions(cell, spec, need, requirements)
    return PlannedCell(cell=cell, model=spec, status=status, reason=reason, need=need)


def _limit(
    cell: Cell, spec: str, need: Need, applying: Sequence[CellRule], is_other: bool
) -> tuple[Status | None, str]:
    """Return status and reason for a figure that the paper's model cannot give; None if it can."""
    if (
        spec
        and not is_local_spec(spec)
        and getattr(EDITORS.load(need.editor), "needs_weights", False)
    ):
        return "no", f"{need.editor} edits weights, which an API model does not expose"
    if reason := next((rule.model for rule in applying if rule.model), ""):
        return "model", reason
    published = paper_models().get(cell.model)
    if is_other or published is None or not published.parameters:
        return None, ""  # a model of unknown size
    gigabytes = gigabytes_needed(published.parameters, need.editor, need.overrides)
    if gigabytes > gpu_gigabytes():
        return "no", (
            f"{need.editor} needs about {gigabytes:.0f} GB, and a GPU has {gpu_gigabytes():.0f}"
        )
    return None, ""


def _conditions(
    cell: Cell, spec: str, need: Need, requirements: Sequence[str]
) -> tuple[Status, str]:
    """Return the status of a figure that can be run, and the options or files that it requires."""
    options = [text for text in (judge_option(need), extract_option(need)) if text]
    if not spec and not cell.model:
        options.insert(0, NO_MODEL)
    status: Status = "now"
    if requirements:
        status = "own"
    elif options:
        status = "option"
    return status, "; ".join([*requirements, *options])


def judge_option(need: Need) -> str:
    """Return the option for the judge of a figure; empty if it has none."""
    if need.judge:
        return f"a judge reads the answers ({need.judge}): --judge MODEL"
    return ""


def extract_option(need: Need) -> str:
    """Return the option for the extracted triplets of a figure; empty if it needs none."""
    if not need.file:
        return ""
    way = "tool=rules"
    if need.make[METHOD] == LLM:
        way = "llm=MODEL"
    return f"needs triplets: create them with --extract {way}"


class _CellReader(NamedTuple):
    """Reads the counterparts of a paper's figure, under the rules that apply to it."""

    paper: str
    cell: Cell
    applying: Sequence[CellRule]

    def needs(self) -> Iterator[Need]:
        """Yield the parts of runs that would give the figure, the preferred one first."""
        cell, of_paper = self.cell, rules(self.paper)
        metrics = [
            rule
            for rule in of_paper.metrics
            if (rule.published, rule.data) == (cell.metric, cell.data)
        ]
        metrics = [rule for rule in metrics if rule.setting in (None, cell.setting)]
        for metric in (rule for rule in metrics if rule.method == cell.method):
            yield self._need(metric, MethodRule(editor=UNEDITED, method=UNEDITED))
        methods = [rule for rule in of_paper.methods if rule.method == cell.method]
        for metric, method in product([rule for rule in metrics if rule.method is None], methods):
            if metric.mode and not metric.derived:
                modes = {None, metric.mode}
            else:
                modes = {None, method.mode}
            is_set = metric.setting is not None or method.setting in (None, cell.setting)
            if method.metric in (None, cell.metric) and method.mode in modes and is_set:
                yield self._need(metric, method)

    def _need(self, metric: MetricRule, method: MethodRule) -> Need:
        benchmark: Any = BENCHMARKS.load(paper(self.paper).benchmark)
        editor, mode = UNEDITED, method.mode
        if method.editor in EDITORS.names():
            editor = method.editor
        if metric.mode and metric.derived != TRIPLES:
            mode = metric.mode
        settings = [rule.overrides.get(editor, {}) for rule in self.applying]
        return Need(
            editor=editor,
            mode=mode or benchmark.mode,
            setting=self._setting(metric, method) or benchmark.settings[0],
            retriever=method.retriever,
            options=self._options(metric, benchmark.defaults),
            overrides={key: value for values in settings for key, value in values.items()},
            run={field: value for rule in self.applying for field, value in rule.run.items()},
            judge=metric.judge,
            file=next((rule.file for rule in self.applying if rule.file), ""),
            make=next((rule.make for rule in self.applying if rule.make), {}),
        )

    def _setting(self, metric: MetricRule, method: MethodRule) -> str:
        """Return the run's setting; empty if any setting will do."""
        if metric.setting is not None:
            return method.setting or ""
        names, setting = rules(self.paper).settings, self.cell.setting
        return next((each for each in metric.settings if names.get(each, each) == setting), setting)

    def _options(self, metric: MetricRule, defaults: Mapping[str, str]) -> dict[str, str]:
        """Return the merged options of the benchmark, without its default values."""
        of_paper, options = table_rules(self.paper), dict[str, str]()
        sources = [metric.when, *(rule.options for rule in self.applying)]
        if of_paper.by_data:
            sources.append({of_paper.by_data: self.cell.data})
        for key, value in chain.from_iterable(source.items() for source in sources):
            if key in of_paper.joined:
                options[key] = join(options.get(key, ""), value)
            else:
                options[key] = value
        return {key: value for key, value in sorted(options.items()) if value != defaults.get(key)}


def join(*lists: str) -> str:
    """Join comma-separated lists into one, with distinct values in alphabetical order."""
    return ",".join(sorted({value for text in lists for value in text.split(",") if value}))


# Statuses of figures that a command gives with the paper's own model and no further files.
EXECUTABLE: tuple[Status, ...] = ("now", "option")


class CoverageRow(FrozenModel):
    """Number of a table's figures with a status and reason, as published and on one GPU."""

    table: str
    status: Status
    reason: str
    figures: int


def coverage_rows(tables: Sequence[PaperTable]) -> list[CoverageRow]:
    """Count the figures of tables by status and reason, with the papers' own models."""
    counts = Counter(
        (table.id, planned.status, planned.reason)
        for table in tables
        for planned in plan_cells(table, {})
    )
    return [
        CoverageRow(table=table, status=status, reason=reason, figures=count)
        for (table, status, reason), count in counts.items()
    ]


def status_counts(rows: Sequence[CoverageRow]) -> Counter[Status]:
    """Return the number of figures by status."""
    sums = Counter[Status]()
    for row in rows:
        sums[row.status] += row.figures
    return sums
