"""The page of a run, with the numbers of `emend report`, and the page of all runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, groupby
from types import MappingProxyType
from typing import Any

from emend.evals.case import Metric
from emend.evals.config.run_file import RunPlan
from emend.evals.log.manifest import Manifest, versions
from emend.evals.metrics.protocols import plain_name
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.costs import PER_EDIT, PER_PROBE
from emend.evals.results.aggregate.rows import ForgettingRow, Report
from emend.evals.results.aggregate.side_effects import AbilityRow, PerplexityRow
from emend.evals.results.aggregate.tables import LabelledReport, MetricTable, TableChoice, TableRow, metric_tables
from emend.evals.show.report.metrics import count, gap_notes
from emend.evals.show.report.secondary import cost_text, perplexity_text, spent_line
from emend.evals.show.view.pages.common import PERCENT, PageRequest, axis, cell, facts, marked, run_path
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import (
    AbilityView,
    AboutView,
    CellView,
    Curve,
    CurvePoint,
    GridMetric,
    GridRow,
    Link,
    MetricGrid,
    NamedValue,
    Page,
    PerplexityView,
    RunsView,
    RunView,
)

Cells = Sequence[CellView | None]


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
        "tables": tuple(_metric_grid(request, place, table, judges, n) for n, table in enumerate(tables)),
        "costs": tuple(_cost_grids(report.costs)),
        "forgetting": tuple(_curves(report.forgetting, metrics)),
        "perplexity": tuple(map(_perplexity, report.perplexity)),
        "ability": tuple(map(_ability, report.ability)),
        "spent": _spent(report, place.manifest),
        "reasons": tuple(NamedValue(name=why, value=str(n), href=unscored) for why, n in report.reasons.items()),
        "notes": (*gap_notes(report, tables), *report.choices, *report.notes),
        "cases": report.cases,
        "cut": report.cut,
        "missing": report.missing,
    }


def _spent(report: Report, manifest: Manifest) -> tuple[NamedValue, ...]:
    lines = [NamedValue(name="in all", value=spent_line(report.spent))] if report.spent else []
    for model, usage in manifest.spent.items():
        price = "cost unknown: no prices given" if usage.cost is None else f"cost {usage.cost:.4f}"
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {usage.requests:,} requests"
        lines.append(NamedValue(name=model, value=f"{price}; {tokens}"))
    return tuple(lines)


def _metric_grid(
    request: PageRequest, place: RunPlace, table: MetricTable, judges: dict[str, str], number: int
) -> MetricGrid:
    path = run_path(place, "cases.html")

    def linked(row: MetricRow, metric: Metric) -> CellView:
        kind = metric.kinds[0] if len(metric.kinds) == 1 else ""
        return cell(row, metric, request.link(path, editor=row.editor, kind=kind))

    about, _, group = table.title.partition(f", model {place.manifest.config.model}")
    setting = about.removeprefix(f"{table.benchmark}, ").rpartition(", mode ")[0]  # the page says the rest
    return _grid(table, setting + group, f"table-{number}", linked, marked, judges)


def _grid(
    table: MetricTable,
    title: str,
    anchor: str,
    as_cell: Callable[[MetricRow, Metric], CellView],
    mark: Callable[[Cells, bool, Sequence[bool]], Cells] = lambda cells, *_: cells,
    judges: Mapping[str, str] = MappingProxyType({}),
) -> MetricGrid:
    metrics, columns = list[GridMetric](), list[Cells]()
    broken = [row.broken for row in table.rows]
    for metric in table.metrics:
        values = [row.values.get(metric.name) for row in table.rows]
        cells = mark([as_cell(row, metric) if row else None for row in values], metric.higher_is_better, broken)
        ends, judge = axis(cells, metric.scale), judges.get(metric.name, "")
        about = {"name": plain_name(metric), "count": count(table, metric), "protocol": table.protocol(metric)}
        metrics.append(GridMetric(metric=metric, **about, judge=judge, axis=ends))
        columns.append(cells)
    rows = (GridRow(names=row.names, cells=tuple(cells)) for row, *cells in zip(table.rows, *columns, strict=True))
    return MetricGrid(title=title, anchor=anchor, headings=table.headings, metrics=tuple(metrics), rows=tuple(rows))


def _cost_grids(rows: Sequence[MetricRow]) -> Iterator[MetricGrid]:
    """A table for probes and one for edits, for each setting and mode, as `emend report --all` has them."""
    for number, ((setting, _), group) in enumerate(groupby(rows, key=lambda row: (row.setting, row.mode))):
        values: dict[str, dict[str, MetricRow]] = {}
        for row in group:
            values.setdefault(row.editor, {})[row.metric] = row
        lines = tuple(TableRow((editor,), of_editor) for editor, of_editor in values.items())
        for what, metrics in (("probe", PER_PROBE), ("edit", PER_EDIT)):
            measured = tuple(metric for metric in metrics if any(metric.name in line.values for line in lines))
            if measured:
                table = MetricTable("", f"cost of one {what}, {setting}", ("editor",), measured, lines)
                yield _grid(table, table.title, f"cost-{what}-{number}", lambda row, _: cell(row, cost_text))


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


def _ability(row: AbilityRow) -> AbilityView:
    return AbilityView(
        row=row,
        cell=cell(row, "{:.1f}".format),
        before=cell(row.before, "{:.1f}".format),
        change=cell(row.change_estimate, "{:+.1f}".format),
    )


def _perplexity(row: PerplexityRow) -> PerplexityView:
    return PerplexityView(row=row, cell=cell(row, perplexity_text), before=cell(row.before, perplexity_text))


def runs_page(request: PageRequest) -> Page:
    """All runs, the latest first."""
    library = request.library
    complete = library.count_all()
    entries = tuple(library.entry(place, wait=False) for place in library.scan.runs().values())
    folders = tuple(str(folder) for folder in library.scan.folders)
    words = ["list", "runs", *folders[:1]]
    head = request.head("runs", "Runs", words=words, waiting=not complete)
    return Page(head, RunsView(runs=entries, folders=folders, problems=library.scan.problems))


def about_page(request: PageRequest) -> Page:
    """Versions and folders."""
    folders = tuple(str(folder) for folder in request.library.scan.folders)
    data = AboutView(versions=facts(versions()), folders=folders)
    return Page(request.head("about", "About this viewer", words=["doctor"]), data)
