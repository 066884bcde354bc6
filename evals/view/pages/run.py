"""The page of a run: the numbers of `emend report`."""

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby
from typing import Any

from emend.evals.aggregate.columns import MetricRow
from emend.evals.aggregate.costs import ALL_COSTS, PER_EDIT, PER_PROBE
from emend.evals.aggregate.perplexity import PerplexityRow
from emend.evals.aggregate.retention import ForgettingRow
from emend.evals.aggregate.rows import Report
from emend.evals.aggregate.tables import LabelledReport, MetricTable, TableChoice, metric_tables
from emend.evals.case import Metric
from emend.evals.log.manifest import Manifest
from emend.evals.log.run_file import RunPlan
from emend.evals.report.tables.metrics import count
from emend.evals.report.tables.secondary import cost_text, perplexity_text, spent_line
from emend.evals.view.pages.common import PERCENT, PageRequest, axis, cell, facts, marked, run_path
from emend.evals.view.records.page import Fact, Link, Page
from emend.evals.view.records.run import (
    CellView,
    Curve,
    CurvePoint,
    GridMetric,
    GridRow,
    MetricGrid,
    PerplexityView,
    RunView,
)
from emend.evals.view.scan import RunPlace


def run_page(request: PageRequest, place: RunPlace) -> Page:
    """The numbers of a run, its costs and notes, and what it was run with."""
    report, status = request.library.results.get("report", [place.folder])
    about = _about(request, place)
    if isinstance(report, Report):
        about |= _numbers(request, place, report)
        status = status.model_copy(update={"records": report.records})
    run = request.library.entry(place, wait=not status.state == "computing")
    head = request.head(
        "run", place.name, place, words=["report", str(place.folder), "--all"], waiting=status.state == "computing"
    )
    return Page(head, RunView(run=run, status=status, **about))


def _about(request: PageRequest, place: RunPlace) -> dict[str, Any]:
    manifest, config = place.manifest, place.manifest.config
    settings = config.model_dump(mode="json", exclude_defaults=True)
    provenance = {name: value for name, value in manifest.benchmark.items() if name != "choices"}
    platform = {**manifest.platform, "git": (manifest.git or {}).get("commit", "")}
    return {
        "settings": facts(settings),
        "provenance": facts(provenance),
        "versions": facts({**manifest.versions, **platform}),
        "run_config": RunPlan((config,)).text(),
        "compare": tuple(_pairs(place)),
    }


def _pairs(place: RunPlace) -> Iterator[Link]:
    for (a, first), (b, second) in combinations(enumerate(place.manifest.config.editors), 2):
        yield Link(text=f"{first} and {second}", href=f"compare/{place.id}.{a}~{place.id}.{b}.html")


def _numbers(request: PageRequest, place: RunPlace, report: Report) -> dict[str, Any]:
    tables = metric_tables([LabelledReport(report, {})], TableChoice(everything=True))
    judges = {row.metric: row.judge for row in report.rows if row.judge}
    metrics = {metric.name: metric for metric in report.metrics}
    unscored = request.link(run_path(place, "cases.html"), verdict="unscored")
    return {
        "tables": tuple(_grid(request, place, table, judges, n) for n, table in enumerate(tables)),
        "costs": tuple(_cost_grids(report.costs)),
        "forgetting": tuple(_curves(report.forgetting, metrics)),
        "perplexity": tuple(map(_perplexity, report.perplexity)),
        "spent": _spent(report, place.manifest),
        "reasons": tuple(Fact(name=why, value=str(n), href=unscored) for why, n in report.reasons.items()),
        "notes": (*report.choices, *report.notes),
        "cases": report.cases,
        "cut": report.cut,
        "missing": report.missing,
    }


def _spent(report: Report, manifest: Manifest) -> tuple[Fact, ...]:
    lines = [Fact(name="in all", value=spent_line(report.spent))] if report.spent else []
    for model, usage in manifest.spent.items():
        price = "cost unknown: no prices given" if usage.cost is None else f"cost {usage.cost:.4f}"
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {usage.requests:,} requests"
        lines.append(Fact(name=model, value=f"{price}; {tokens}"))
    return tuple(lines)


def _grid(request: PageRequest, place: RunPlace, table: MetricTable, judges: dict[str, str], number: int) -> MetricGrid:
    columns = [
        marked(
            [_cell(request, place, row.values.get(metric.name), metric) for row in table.rows], metric.higher_is_better
        )
        for metric in table.metrics
    ]
    return MetricGrid(
        title=_title(table, place.manifest.config.model),
        anchor=f"table-{number}",
        headings=table.headings,
        metrics=tuple(
            _column(metric, count(table, metric), cells, judges.get(metric.name, ""))
            for metric, cells in zip(table.metrics, columns, strict=True)
        ),
        rows=tuple(
            GridRow(names=row.names, cells=tuple(cells[at] for cells in columns)) for at, row in enumerate(table.rows)
        ),
    )


def _title(table: MetricTable, model: str) -> str:
    """Setting and group of a table; the page says the rest."""
    place, _, group = table.title.partition(f", model {model}")
    return place.removeprefix(f"{table.benchmark}, ").rpartition(", mode ")[0] + group


def _cell(request: PageRequest, place: RunPlace, row: MetricRow | None, metric: Metric) -> CellView | None:
    if row is None:
        return None
    kind = metric.kinds[0] if len(metric.kinds) == 1 else ""
    return cell(row, metric, request.link(run_path(place, "cases.html"), editor=row.editor, kind=kind))


def _column(metric: Metric, counted: str, cells: Sequence[CellView | None], judge: str = "") -> GridMetric:
    return GridMetric(metric=metric, count=counted, judge=judge, axis=axis(cells, metric.scale))


def _cost_grids(rows: Sequence[MetricRow]) -> Iterator[MetricGrid]:
    """A table for probes and one for edits, for each setting and mode, as `emend report --all` has them."""
    known = {metric.name: metric for metric in ALL_COSTS}
    for number, ((setting, _), group) in enumerate(groupby(rows, key=lambda row: (row.setting, row.mode))):
        values = {(row.editor, row.metric): cell(row, cost_text) for row in group}
        editors = list(dict.fromkeys(editor for editor, _ in values))
        for what, metrics in (("probe", PER_PROBE), ("edit", PER_EDIT)):
            names = [metric.name for metric in metrics if any(name == metric.name for _, name in values)]
            if names:
                columns = [[values.get((editor, name)) for editor in editors] for name in names]
                counts = [sorted({each.n for each in column if each}) for column in columns]
                yield MetricGrid(
                    title=f"cost of one {what}, {setting}",
                    anchor=f"cost-{what}-{number}",
                    headings=("editor",),
                    metrics=tuple(
                        _column(known[name], f"n={'-'.join(map(str, {ns[0]: 0, ns[-1]: 0}))}", column)
                        for name, column, ns in zip(names, columns, counts, strict=True)
                    ),
                    rows=tuple(
                        GridRow(names=(editor,), cells=tuple(column[at] for column in columns))
                        for at, editor in enumerate(editors)
                    ),
                )


def _curves(rows: Sequence[ForgettingRow], metrics: dict[str, Metric]) -> Iterator[Curve]:
    for (name, setting, mode, editor), group in groupby(rows, key=lambda r: (r.metric, r.setting, r.mode, r.editor)):
        metric = metrics[name]
        points = tuple(
            CurvePoint(standing=row.standing, cell=cell(row, metric), first=cell(row.first, metric)) for row in group
        )
        yield Curve(
            setting=setting,
            mode=mode,
            editor=editor,
            metric=name,
            unit="%" if metric.scale == PERCENT else "",
            points=points,
            axis=axis([each for point in points for each in (point.cell, point.first)], metric.scale),
        )


def _perplexity(row: PerplexityRow) -> PerplexityView:
    return PerplexityView(row=row, cell=cell(row, perplexity_text), before=cell(row.before, perplexity_text))
