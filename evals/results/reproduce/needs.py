"""Needs of each published figure, or why it cannot be run, and how many of each paper can."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

from emend.agents.llm import is_local_spec
from emend.agents.weight_differences import difference_remedy
from emend.editors.registry import EDITORS
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.results.papers.tables import (
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
STATUSES: dict[Status, str] = {
    "now": "now",
    "option": "with an option",
    "own": "with your file or weights",
    "model": "with another model",
    "no": "no",
}
"""How a figure can be run, from the easiest to not at all."""
METHOD, LLM, TOOL = "method", "llm", "tool"
"""Field of an extraction, and DocTER's names of extracted triplets."""
UNEDITED = "unedited"
NO_PLACE = "no number of a run has its place"
NO_MODEL = "the paper names no model: --model SPEC"
TRIPLES = "triples"
"""Kind of figures about a file of extracted triplets, which any editor's run has."""


class Need(FrozenModel):
    """The part of a run that gives a figure; `judge` names the judge without which it does not.

    `file` names a file of extracted triplets, and `make` has the options of `emend extract` that make it.
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
    make: dict[str, Any] = {}


class PlannedCell(FrozenModel):
    """A published figure, the model that is to give it, what it needs, and what a plain command lacks for it."""

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
        cells: figures to plan, with those of which they are means; by default all.
    """
    plans = {cell.key(): _plan_cell(table.paper, cell, models.get(cell.model, "")) for cell in table.cells}
    for cell in (cell for cell in table.cells if cell.data == table_rules(table.paper).average):
        others: tuple[Dimension, ...] = ("model", "method", "setting", "metric")
        beside = [each for each in table.cells if each.data != cell.data and each.key(others) == cell.key(others)]
        parts = [plans[each.key()] for each in beside]
        worst = max(parts, key=lambda part: [*STATUSES].index(part.status))
        fields = {"status": worst.status, "reason": worst.reason, "parts": tuple(part.cell for part in parts)}
        plans[cell.key()] = plans[cell.key()].model_copy(update=fields | {"need": None})
    keys = {cell.key() for cell in cells or table.cells}
    keys |= {part.key() for key in keys for part in plans[key].parts}
    return [plan for key, plan in plans.items() if key in keys]


def _plan_cell(name: str, cell: Cell, model: str) -> PlannedCell:
    is_other, published = bool(model) and not same_model(model, cell.model), paper_models().get(cell.model)
    hub = published.hub if published else ""
    is_difference = not model and bool(difference_remedy(hub))
    spec = model or (f"hf:{hub}" if hub and not is_difference else "")
    applying = tuple(rule for rule in table_rules(name).rules if rule.applies(cell, is_other))
    need = next(_CellReader(name, cell, applying).needs(), None)
    blocked = next((rule.blocked for rule in applying if rule.blocked), "")
    if blocked or need is None:
        return PlannedCell(cell=cell, model=spec, status="no", reason=blocked or NO_PLACE, need=need)
    status, reason = _limit(cell, spec, need, applying, is_other)
    if not status:
        requirements = [f"{hub} holds a difference to LLaMA-1: --model '{cell.model}=hf:FOLDER'"] * is_difference
        status, reason = _conditions(
            cell, spec, need, [*requirements, *(rule.requirement for rule in applying if rule.requirement)]
        )
    return PlannedCell(cell=cell, model=spec, status=status, reason=reason, need=need)


def _limit(
    cell: Cell, spec: str, need: Need, applying: Sequence[CellRule], is_other: bool
) -> tuple[Status | None, str]:
    """Return the status and reason of a figure that the paper's model cannot give; None where it can."""
    if spec and not is_local_spec(spec) and getattr(EDITORS.load(need.editor), "needs_weights", False):
        return "no", f"{need.editor} edits weights, which a model behind an API does not show"
    if reason := next((rule.model for rule in applying if rule.model), ""):
        return "model", reason
    billions = None if is_other or cell.model not in paper_models() else paper_models()[cell.model].parameters
    gigabytes = gigabytes_needed(billions or 0.0, need.editor, need.overrides)
    if billions and gigabytes > gpu_gigabytes():
        return "no", f"{need.editor} needs about {gigabytes:.0f} GB, and a GPU has {gpu_gigabytes():.0f}"
    return None, ""


def _conditions(cell: Cell, spec: str, need: Need, requirements: Sequence[str]) -> tuple[Status, str]:
    """Return the status of a figure that can be run, and what must be given for it."""
    options = [] if spec or cell.model else [NO_MODEL]
    options += [text for text in (judge_option(need), extract_option(need)) if text]
    status: Status = "own" if requirements else "option" if options else "now"
    return status, "; ".join([*requirements, *options])


def judge_option(need: Need) -> str:
    """Option for the judge of a figure; empty where none reads its answers."""
    return f"a judge reads the answers ({need.judge}): --judge MODEL" if need.judge else ""


def extract_option(need: Need) -> str:
    """Option for the extracted triplets of a figure; empty where it needs none."""
    if not need.file:
        return ""
    return f"needs triplets: --extract {'llm=MODEL' if need.make[METHOD] == LLM else 'tool=spacy'} makes them"


class _CellReader(NamedTuple):
    """Reads the counterparts of a figure, in the paper of that name, under the rules that apply to it."""

    paper: str
    cell: Cell
    applying: Sequence[CellRule]

    def needs(self) -> Iterator[Need]:
        """Yield the parts of runs that would give the figure, the preferred one first."""
        cell, of_paper = self.cell, rules(self.paper)
        metrics = [rule for rule in of_paper.metrics if (rule.published, rule.data) == (cell.metric, cell.data)]
        metrics = [rule for rule in metrics if rule.setting in (None, cell.setting)]
        for metric in (rule for rule in metrics if rule.method == cell.method):
            yield self._need(metric, MethodRule(editor=UNEDITED, method=UNEDITED))
        methods = [rule for rule in of_paper.methods if rule.method == cell.method]
        for metric, method in product([rule for rule in metrics if rule.method is None], methods):
            modes = {None, metric.mode} if metric.mode and not metric.derived else {None, method.mode}
            is_set = metric.setting is not None or method.setting in (None, cell.setting)
            if method.metric in (None, cell.metric) and method.mode in modes and is_set:
                yield self._need(metric, method)

    def _need(self, metric: MetricRule, method: MethodRule) -> Need:
        benchmark: Any = BENCHMARKS.load(paper(self.paper).benchmark)
        editor = method.editor if method.editor in EDITORS.names() else UNEDITED
        mode = (None if metric.derived == TRIPLES else metric.mode) or method.mode
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
        """Return the run's setting; empty for any."""
        if metric.setting is not None:
            return method.setting or ""
        names, setting = rules(self.paper).settings, self.cell.setting
        return next((each for each in metric.settings if names.get(each, each) == setting), setting)

    def _options(self, metric: MetricRule, defaults: Mapping[str, str]) -> dict[str, str]:
        """Merge options of the benchmark, without its defaults."""
        of_paper, options = table_rules(self.paper), dict[str, str]()
        by_data = {of_paper.by_data: self.cell.data} if of_paper.by_data else {}
        for part in (metric.when, *(rule.options for rule in self.applying), by_data):
            for key, value in part.items():
                options[key] = join(options.get(key, ""), value) if key in of_paper.joined else value
        return {key: value for key, value in sorted(options.items()) if value != defaults.get(key)}


def join(*lists: str) -> str:
    """Join lists with commas, each value once, in order of the alphabet."""
    return ",".join(sorted({value for text in lists for value in text.split(",") if value}))


EXECUTABLE: tuple[Status, ...] = ("now", "option")
"""Statuses of figures that the command gives with the paper's own model and nothing else of one's own."""


class CoverageRow(FrozenModel):
    """Number of a table's figures with a status, and the reason; as published, on one GPU."""

    table: str
    status: Status
    reason: str
    figures: int


def coverage_rows(tables: Sequence[PaperTable]) -> list[CoverageRow]:
    """Count the figures of tables by status and reason, as the papers' own models give them."""
    counts = Counter(
        (table.id, planned.status, planned.reason) for table in tables for planned in plan_cells(table, {})
    )
    return [
        CoverageRow(table=table, status=status, reason=reason, figures=count)
        for (table, status, reason), count in counts.items()
    ]


def status_counts(rows: Sequence[CoverageRow]) -> Counter[Status]:
    """Number of figures by status."""
    sums = Counter[Status]()
    for row in rows:
        sums[row.status] += row.figures
    return sums
