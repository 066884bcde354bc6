"""Needs of each published figure, or why it cannot be run: the counterparts read from the figure to the run."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from emend.agents.llm import LOCAL
from emend.editors.registry import EDITORS
from emend.evals.benchmarks.registry import BENCHMARKS
from emend.evals.papers.counterparts import MethodRule, MetricRule, rules, same_model
from emend.evals.papers.recipes import (
    CellRule,
    PaperRecipes,
    gigabytes_needed,
    gpu_gigabytes,
    paper_models,
    recipes,
)
from emend.evals.papers.tables import Cell, PaperTable, paper
from emend.memory.edit import FrozenModel

Status = Literal["runnable", "judge", "model", "blocked"]
STATUSES: dict[Status, str] = {
    "runnable": "runnable",
    "judge": "runnable with another judge or extractor",
    "model": "runnable with another model",
    "blocked": "blocked",
}
UNEDITED = "unedited"
TRIPLES = "triples"
"""Kind of figures about a file of extracted triplets, which any editor's run has."""


class Need(FrozenModel):
    """The part of a run that gives a figure; `judge` names the judge without which it does not.

    `file` names a file of extracted triplets, and `make` the options of `emend extract` that make it.
    """

    editor: str
    mode: str
    setting: str
    retriever: str | None = None
    options: dict[str, str] = {}
    overrides: dict[str, Any] = {}
    """Settings of the editor."""
    run: dict[str, Any] = {}
    judge: str = ""
    file: str = ""
    make: str = ""


class PlannedCell(FrozenModel):
    """A published figure, the model that is to give it, what it needs, and why it cannot be run."""

    cell: Cell
    model: str = ""
    """Model as `emend run --model` takes it; empty for none."""
    status: Status
    reason: str = ""
    need: Need | None = None
    parts: tuple[Cell, ...] = ()
    """Figures of which this one is the mean."""


def plan_cells(table: PaperTable, models: Mapping[str, str], cells: Sequence[Cell] = ()) -> list[PlannedCell]:
    """Plan the figures of a table.

    Args:
        table: the published table.
        models: a model for each of the paper's, by its name; the others are those of the paper, from the hub.
        cells: figures to plan; by default all.
    """
    plans = {cell.key(): _plan_cell(table, cell, models.get(cell.model, "")) for cell in table.cells}
    average = recipes(table.paper).average
    for cell in table.cells:
        if average and cell.data == average:
            parts = [each for each in table.cells if _is_part(each, cell)]
            plans[cell.key()] = _average(plans[cell.key()], [plans[part.key()] for part in parts])
    return [plans[cell.key()] for cell in cells or table.cells]


def _is_part(each: Cell, of: Cell) -> bool:
    return each.data != of.data and each.key() == of.model_copy(update={"data": each.data}).key()


def _average(planned: PlannedCell, parts: Sequence[PlannedCell]) -> PlannedCell:
    """Plan a mean, which can be run where one of its parts can."""
    best = min(parts, key=lambda part: [*STATUSES].index(part.status))
    fields = {"status": best.status, "reason": best.reason, "parts": tuple(part.cell for part in parts), "need": None}
    return planned.model_copy(update=fields)


def _plan_cell(table: PaperTable, cell: Cell, model: str) -> PlannedCell:
    paper_model, paper_recipes = paper_models().get(cell.model), recipes(table.paper)
    is_other = bool(model) and not same_model(model, cell.model)
    spec = model or (f"hf:{paper_model.hub}" if paper_model and paper_model.hub else "")
    applying = [rule for rule in paper_recipes.rules if rule.applies(cell)]
    applying = [rule for rule in applying if not (is_other and rule.is_about_models)]
    need = next(_needs(table.paper, paper_recipes, cell, applying), None)
    status, reason = _status(cell, spec, need, applying, is_other)
    return PlannedCell(cell=cell, model=spec, status=status, reason=reason, need=need)


def _status(
    cell: Cell, spec: str, need: Need | None, applying: Sequence[CellRule], is_other: bool
) -> tuple[Status, str]:
    """Return the status of a figure, and its reason."""
    if blocked := next((rule.blocked for rule in applying if rule.blocked), ""):
        return "blocked", blocked
    if need is None:
        return "blocked", "no number of a run has its place"
    if spec and spec.partition(":")[0] not in LOCAL and _needs_weights(need.editor):
        return "blocked", f"{need.editor} edits weights, which a model behind an API does not show"
    if reason := next((rule.model for rule in applying if rule.model), ""):
        return "model", reason
    if not is_other and (reason := _too_large(cell, need)):
        return "blocked", reason
    if need.judge:
        return "judge", f"a judge reads the answers: {need.judge}"
    helper = next((rule.helper for rule in applying if rule.helper), "")
    return ("judge", helper) if helper else ("runnable", "")


def _too_large(cell: Cell, need: Need) -> str:
    """Return why the paper's model does not fit the GPU under an editor; empty where it does."""
    gigabytes = memory_of(cell.model, need)
    if gigabytes is None or gigabytes <= gpu_gigabytes():
        return ""
    return f"{need.editor} needs about {gigabytes:.0f} GB, and a GPU has {gpu_gigabytes():.0f}"


def memory_of(model: str, need: Need) -> float | None:
    """Gigabytes that an editor takes on a paper's model; None where its size is unknown."""
    paper_model = paper_models().get(model)
    if paper_model is None or paper_model.parameters is None:
        return None
    return gigabytes_needed(paper_model.parameters, need.editor, {need.editor: need.overrides})


def _needs_weights(editor: str) -> bool:
    return bool(getattr(EDITORS.load(editor), "needs_weights", False))


def _needs(name: str, paper_recipes: PaperRecipes, cell: Cell, applying: Sequence[CellRule]) -> Iterator[Need]:
    """Yield the parts of runs that would give a figure, the preferred one first."""
    paper_rules = rules(name)
    metrics = [rule for rule in paper_rules.metrics if (rule.published, rule.data) == (cell.metric, cell.data)]
    metrics = [rule for rule in metrics if rule.setting in (None, cell.setting)]
    methods = [rule for rule in paper_rules.methods if rule.method == cell.method]
    shared = MethodRule(editor=UNEDITED, method=UNEDITED)
    for metric in metrics:
        if metric.method == cell.method:
            yield _need(name, paper_recipes, cell, applying, metric, shared)
    for metric, method in product([rule for rule in metrics if rule.method is None], methods):
        if _go_together(metric, method, cell):
            yield _need(name, paper_recipes, cell, applying, metric, method)


def _go_together(metric: MetricRule, method: MethodRule, cell: Cell) -> bool:
    modes = {None, metric.mode} if metric.mode and not metric.derived else {None, method.mode}
    is_given = metric.setting is not None or method.setting in (None, cell.setting)
    return method.metric in (None, cell.metric) and method.mode in modes and is_given


def _need(
    name: str,
    paper_recipes: PaperRecipes,
    cell: Cell,
    applying: Sequence[CellRule],
    metric: MetricRule,
    method: MethodRule,
) -> Need:
    benchmark: Any = BENCHMARKS.load(paper(name).benchmark)
    editor = method.editor if method.editor in EDITORS.names() else UNEDITED
    parts = [metric.when, *(rule.options for rule in applying)]
    if paper_recipes.by_data and cell.data != paper_recipes.average:
        parts.append({paper_recipes.by_data: cell.data})
    mode = (None if metric.derived == TRIPLES else metric.mode) or method.mode
    run = {field: value for rule in applying for field, value in rule.run.items()}
    return Need(
        editor=editor,
        mode=mode or benchmark.mode,
        setting=_setting(name, cell, metric, method) or benchmark.settings[0],
        retriever=method.retriever,
        options=_options(parts, paper_recipes.joined, benchmark.defaults),
        overrides={key: value for rule in applying for key, value in rule.overrides.get(editor, {}).items()},
        run=run,
        judge=metric.judge,
        file=next((rule.file for rule in applying if rule.file), ""),
        make=next((rule.make for rule in applying if rule.make), ""),
    )


def _setting(name: str, cell: Cell, metric: MetricRule, method: MethodRule) -> str:
    """Return the run's setting; empty for any."""
    if metric.setting is not None:
        return method.setting or ""
    names = rules(name).settings
    return next((each for each in metric.settings if names.get(each, each) == cell.setting), cell.setting)


def _options(parts: Sequence[Mapping[str, str]], joined: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Merge options, those of `joined` as lists, without the benchmark's defaults."""
    options: dict[str, str] = {}
    for key, value in (pair for part in parts for pair in part.items()):
        options[key] = join(options.get(key, ""), value) if key in joined else value
    return {key: value for key, value in sorted(options.items()) if value != defaults.get(key)}


def join(*lists: str) -> str:
    """Join lists with commas, each value once, in order of the alphabet."""
    return ",".join(sorted({value for text in lists for value in text.split(",") if value}))
