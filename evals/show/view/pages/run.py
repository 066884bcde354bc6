"""Pages of a run: results (the numbers of `emend report`), judges and retrieval.

The module also has the page that lists all runs, and the page about the viewer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, groupby
from typing import Any

from emend.evals.case import Metric
from emend.evals.config.run_file import RunPlan
from emend.evals.judging.scorings.manifest import Scoring
from emend.evals.judging.scorings.search import list_scorings
from emend.evals.log.lines import split_passes, steps_from_events
from emend.evals.log.manifest import Manifest, versions
from emend.evals.metrics.estimate import Estimate
from emend.evals.metrics.protocols import plain_name
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.costs import COST_TABLES
from emend.evals.results.aggregate.judged import calibration_of, judged_notes
from emend.evals.results.aggregate.rows import ForgettingRow, Report
from emend.evals.results.aggregate.side_effects import AbilityRow, PerplexityRow
from emend.evals.results.aggregate.tables import (
    LabelledReport,
    MetricTable,
    TableChoice,
    TableRow,
    metric_tables,
)
from emend.evals.results.analyses.base import Analysis, AnalysisRow
from emend.evals.results.analyses.general import HIT
from emend.evals.show.report.metric_notes import gap_notes
from emend.evals.show.report.metrics import count
from emend.evals.show.report.secondary import cost_text, perplexity_text, spent_line
from emend.evals.show.view.answers import RunAnswers
from emend.evals.show.view.pages.cases import answer_view
from emend.evals.show.view.pages.common import PERCENT, PageRequest, axis, cell, facts, run_path
from emend.evals.show.view.pages.registry import RunPage
from emend.evals.show.view.pages.steps import Decisions, hit_views
from emend.evals.show.view.results import SplitVotes
from emend.evals.show.view.scan import RunLocation
from emend.evals.show.view.views import CellView, Link, NamedValue, Page, ViewData

# Data of the results page while the numbers are not computed yet.
NOTHING_YET: dict[str, Any] = dict.fromkeys(
    (
        "tables",
        "other_protocols",
        "costs",
        "forgetting",
        "perplexity",
        "ability",
        "spent",
        "reasons",
        "notes",
    ),
    (),
) | dict.fromkeys(("cases", "cut", "missing"), 0)


def run_page(request: PageRequest, location: RunLocation) -> Page:
    """Build the page of a run's results, costs, notes, settings and versions."""
    report, status = request.library.results.get("report", [location.folder])
    about = _about(request, location)
    if isinstance(report, Report):
        about |= _numbers(request, location, report)
        status = status.model_copy(update={"records": report.records})
    run = request.library.entry(location, wait=not status.state == "computing")
    head = request.head(
        "run",
        location.name,
        location,
        words=["report", str(location.folder), "--all"],
        waiting=status.state == "computing",
    )
    return Page(head, ViewData(run=run, status=status, **NOTHING_YET | about))


def _about(request: PageRequest, location: RunLocation) -> dict[str, Any]:
    manifest, config = location.manifest, location.manifest.config
    settings = config.model_dump(mode="json", exclude_defaults=True)
    provenance = {name: value for name, value in manifest.benchmark.items() if name != "choices"}
    platform = {**manifest.platform, "git": (manifest.git or {}).get("commit", "")}
    return {
        "settings": facts(settings),
        "provenance": facts(provenance),
        "versions": facts({**platform, **manifest.versions}),
        "run_config": RunPlan((config,)).text(),
        "compare": tuple(_pairs(location)),
    }


def _pairs(location: RunLocation) -> Iterator[Link]:
    for (a, first), (b, second) in combinations(enumerate(location.manifest.config.editors), 2):
        yield Link(
            text=f"{first} and {second}", href=f"compare/{location.id}.{a}~{location.id}.{b}.html"
        )


def _numbers(request: PageRequest, location: RunLocation, report: Report) -> dict[str, Any]:
    tables = metric_tables([LabelledReport(report, {})], TableChoice(all_groups=True))
    others = _other_protocols(report, tables)
    judges = {row.metric: row.judge for row in report.rows if row.judge}
    metrics = {metric.name: metric for metric in report.metrics}
    unscored = request.link(run_path(location, "cases.html"), verdict="unscored")
    grids = [
        _metric_grid(request, location, table, judges, number)
        for number, table in enumerate([*tables, *others])
    ]
    reasons = report.reasons.items()
    return {
        "tables": grids[: len(tables)],
        "other_protocols": grids[len(tables) :],
        "costs": list(_cost_grids(report.costs)),
        "forgetting": list(_curves(report.forgetting, metrics)),
        "perplexity": list(map(_perplexity, report.perplexity)),
        "ability": list(map(_ability, report.ability)),
        "spent": _spent(report, location.manifest),
        "reasons": tuple(NamedValue(name=why, value=str(n), href=unscored) for why, n in reasons),
        "notes": (*gap_notes(report, [*tables, *others]), *report.choices, *report.notes),
        "cases": report.cases,
        "cut": report.cut,
        "missing": report.missing,
    }


def _perplexity(row: PerplexityRow) -> ViewData:
    before = cell(row.before, perplexity_text)
    return ViewData(row=row, cell=cell(row, perplexity_text), before=before)


def _other_protocols(report: Report, tables: Sequence[MetricTable]) -> list[MetricTable]:
    """Return tables of the metrics that `tables` leave out in favor of headline metrics."""
    names = tuple(dict.fromkeys(left.metric.name for table in tables for left in table.left_out))
    if not names:
        return []
    # without headlines, so that the names select metrics
    by_name = report.model_copy(update={"headlines": {}})
    return metric_tables([LabelledReport(by_name, {})], TableChoice(columns=names))


def _spent(report: Report, manifest: Manifest) -> tuple[NamedValue, ...]:
    lines = []
    if report.spent:
        lines = [NamedValue(name="in all", value=spent_line(report.spent))]
    for model, usage in manifest.spent.items():
        if usage.cost is None:
            price = "cost unknown: no prices given"
        else:
            price = f"cost {usage.cost:.4f}"
        tokens = (
            f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, "
            f"{usage.requests:,} requests"
        )
        lines.append(NamedValue(name=model, value=f"{price}; {tokens}"))
    return tuple(lines)


def _metric_grid(
    request: PageRequest,
    location: RunLocation,
    table: MetricTable,
    judges: dict[str, str],
    number: int,
) -> ViewData:
    path = run_path(location, "cases.html")

    def linked(row: MetricRow, metric: Metric) -> CellView:
        kind = ""
        if len(metric.kinds) == 1:
            kind = metric.kinds[0]
        return cell(row, metric, request.link(path, editor=row.editor, kind=kind))

    about, _, group = table.title.partition(f", model {location.manifest.config.model}")
    # benchmark, mode and model are shown in the head of the page already
    setting = about.removeprefix(f"{table.benchmark}, ").rpartition(", mode ")[0]
    return _grid(table, setting + group, f"table-{number}", linked, judges)


def _grid(
    table: MetricTable,
    title: str,
    anchor: str,
    as_cell: Callable[[MetricRow, Metric], CellView],
    judges: Mapping[str, str] | None = None,
) -> ViewData:
    """Return the view of a table with editors as rows and metrics as columns.

    A column has the ends of its axis; a row has its names and a cell for each metric. The best
    cells are marked if `judges` is given.
    """
    metrics, columns = list[ViewData](), list[list[CellView | None]]()
    for metric in table.metrics:
        values = [row.values.get(metric.name) for row in table.rows]
        cells = [as_cell(row, metric) if row else None for row in values]
        if judges is not None:
            marks = table.marks(metric)
            cells = [
                each and each.model_copy(update={"mark": mark})
                for each, mark in zip(cells, marks, strict=True)
            ]
        ends, judge = axis(cells, metric.scale), (judges or {}).get(metric.name, "")
        about = {
            "name": plain_name(metric),
            "count": count(table, metric),
            "protocol": table.protocol(metric),
        }
        metrics.append(ViewData(metric=metric, **about, judge=judge, axis=ends))
        columns.append(cells)
    rows = [
        ViewData(names=row.names, cells=cells)
        for row, *cells in zip(table.rows, *columns, strict=True)
    ]
    return ViewData(title=title, anchor=anchor, headings=table.headings, metrics=metrics, rows=rows)


def _cost_grids(rows: Sequence[MetricRow]) -> Iterator[ViewData]:
    """Yield, for each setting and mode, a table of costs per probe and one of costs per edit.

    They are the tables of `emend report --all`.
    """
    for number, ((setting, _), group) in enumerate(
        groupby(rows, key=lambda row: (row.setting, row.mode))
    ):
        values: dict[str, dict[str, MetricRow]] = {}
        for row in group:
            values.setdefault(row.editor, {})[row.metric] = row
        lines = tuple(TableRow((editor,), of_editor) for editor, of_editor in values.items())
        for what, metrics in COST_TABLES.items():
            names = set[str]().union(*(line.values for line in lines))
            measured = tuple(metric for metric in metrics if metric.name in names)
            if measured:
                table = MetricTable(
                    "", f"cost of one {what}, {setting}", ("editor",), measured, lines
                )
                yield _grid(
                    table, table.title, f"cost-{what}-{number}", lambda row, _: cell(row, cost_text)
                )


def _curves(rows: Sequence[ForgettingRow], metrics: dict[str, Metric]) -> Iterator[ViewData]:
    """Yield a curve for each metric, setting, mode and editor, over the checkpoints of a sequence.

    Each point also has the value of the same cases right after their own edits.
    """
    for (name, setting, mode, editor), group in groupby(
        rows, key=lambda r: (r.metric, r.setting, r.mode, r.editor)
    ):
        metric = metrics[name]
        points = [
            ViewData(standing=row.standing, cell=cell(row, metric), first=cell(row.first, metric))
            for row in group
        ]
        cells = [point.cell for point in points] + [point.first for point in points]
        yield ViewData(
            setting=setting,
            mode=mode,
            editor=editor,
            metric=name,
            unit="%" * (metric.scale == PERCENT),
            points=points,
            axis=axis(cells, metric.scale),
        )


def _ability(row: AbilityRow) -> ViewData:
    return ViewData(
        row=row,
        cell=cell(row, "{:.1f}".format),
        before=cell(row.before, "{:.1f}".format),
        change=cell(row.change_estimate, "{:+.1f}".format),
    )


def runs_page(request: PageRequest) -> Page:
    """Build the page that lists all runs, the latest first."""
    library = request.library
    complete = library.count_all()
    entries = tuple(
        library.entry(location, wait=False) for location in library.scan.runs().values()
    )
    folders = tuple(str(folder) for folder in library.scan.folders)
    words = ["list", "runs", *folders]
    if len(folders) > 1:
        words = ["view", *folders]
    head = request.head("runs", "Runs", words=words, waiting=not complete)
    return Page(head, ViewData(runs=entries, folders=folders, problems=library.scan.problems))


def about_page(request: PageRequest) -> Page:
    """Build the page that shows versions and folders."""
    folders = tuple(str(folder) for folder in request.library.scan.folders)
    data = ViewData(versions=facts(versions()), folders=folders)
    return Page(request.head("about", "About this viewer", words=["doctor"]), data)


HIDDEN = ("reasons", "items", "prompt_id", "kind", "judge")


def judges_page(request: PageRequest, location: RunLocation) -> Page:
    """Build the page of scorings, their calibration, and disagreements between judgements."""
    votes, status = request.library.results.get("votes", [location.folder])
    answers, indexed = request.library.answers(location)
    votes = votes or SplitVotes()
    disagreements = list[ViewData]()
    if answers:
        disagreements = list(_disagreements(location, answers, votes))
    data = ViewData(
        status=status,
        scorings=[_scoring_view(location, scoring) for scoring in list_scorings(location.folder)],
        disagreements=disagreements,
        disagreements_total=votes.total,
        judgements=votes.judgements,
    )
    words = ["report", str(location.folder), "--all"]
    waiting = "computing" in (status.state, indexed.state)
    return Page(
        request.head(
            "judges", f"Judges of {location.name}", location, words=words, waiting=waiting
        ),
        data,
    )


def _scoring_view(location: RunLocation, scoring: Scoring) -> ViewData:
    """Return the view of a scoring: judges, kinds, and agreement with human labels."""
    notes: Sequence[str] = ()
    if "tendency" not in scoring.kinds:
        notes = judged_notes(location.folder, scoring)
    return ViewData(
        scoring=scoring,
        notes=notes,
        agreements=[_agreement(scoring, kind) for kind in scoring.kinds],
    )


def _agreement(scoring: Scoring, kind: str) -> ViewData:
    known = scoring.calibrated(kind) or {}
    measured = {
        name: value for name, value in known.items() if name not in HIDDEN and value is not None
    }
    return ViewData(kind=kind, text=calibration_of(scoring, kind), facts=facts(measured))


def _disagreements(
    location: RunLocation, answers: RunAnswers, votes: SplitVotes
) -> Iterator[ViewData]:
    """Yield the answers on which judges, repeats or orders disagree."""
    for vote in votes.votes:
        key = answers.find(vote.record.setting, vote.record.case)
        if key:
            yield ViewData(
                kind=vote.kind,
                answer=answer_view(location, vote.record, key),
                votes=vote.judgements,
            )


SIZE = 20
HIT_RATE = Metric(name=HIT, value=HIT, kinds=(), scale=100)


def retrieval_page(request: PageRequest, location: RunLocation) -> Page:
    """Build the page of hit rates and of retrieval misses, of one editor or all."""
    analysis, status = request.library.results.get("retrieval", [location.folder])
    answers, indexed = request.library.answers(location)
    editor = request.value("editor")
    data = ViewData(
        status=status, rows=[], misses=[], misses_total=0, editors={}, editor=editor, next=""
    )
    if isinstance(analysis, Analysis):
        data.rows = list(map(_rate, analysis.rows))
    if answers is not None:
        vars(data).update(_misses(request, location, answers, editor))
    waiting = "computing" in (status.state, indexed.state)
    words = ["analyse", str(location.folder), "retrieval"]
    return Page(
        request.head(
            "retrieval", f"Retrieval of {location.name}", location, words=words, waiting=waiting
        ),
        data,
    )


def _rate(row: AnalysisRow) -> ViewData:
    """Return the view of a hit rate: the share of probes whose first hit is the right edit."""
    value = Estimate.model_validate(row.model_dump(include=set(Estimate.model_fields)))
    return ViewData(
        setting=row.label, kind=row.panel, editor=row.series, cell=cell(value, HIT_RATE)
    )


def _misses(
    request: PageRequest, location: RunLocation, answers: RunAnswers, editor: str
) -> dict[str, Any]:
    counts = answers.miss_counts()
    chosen, total = "", sum(counts.values())
    if editor in answers.editors:
        chosen, total = editor, counts.get(editor, 0)
    # one line more than shown, to know if there is a next page
    lines = answers.misses(chosen, request.offset("after"), SIZE + 1)
    visible, has_more = lines[:SIZE], len(lines) > SIZE and not request.static
    path = run_path(location, "retrieval.html")
    further = ""
    if has_more:
        further = request.link(path, editor=editor, after=str(visible[-1]))
    return {
        "misses": list(_miss_views(request, location, answers, visible)),
        "misses_total": total,
        "editors": {name: counts[name] for name in answers.editors if name in counts},
        "next": further,
    }


def _miss_views(
    request: PageRequest, location: RunLocation, answers: RunAnswers, lines: Sequence[int]
) -> Iterator[ViewData]:
    """Yield answers whose first retrieved entry belongs to another edit, with the entries."""
    with request.library.index(location) as index:
        for position, record in answers.read_answers(lines):
            answer, line = (
                answer_view(location, record, answers.key_of(position)),
                answers.read_case(position),
            )
            case_edits = frozenset(str(edit["id"]) for edit in line["edits"])
            events = index.events(record.unit).get(record.probe, ())
            yield ViewData(
                answer=answer,
                edits=[str(edit["text"]) for edit in line["edits"]],
                hits=_first_hits(list(steps_from_events(events)), case_edits),
            )


def _first_hits(steps: list[dict[str, Any]], case_edits: frozenset[str]) -> tuple[ViewData, ...]:
    """Return the first 5 entries of the first step that retrieved any."""
    for part in split_passes(steps):
        for step in part:
            hits = (step["update"] or {}).get("hits")
            if isinstance(hits, list) and hits:
                return hit_views(
                    [hit for hit in hits if isinstance(hit, dict)][:5], case_edits, Decisions(part)
                )
    return ()


RESULTS = RunPage("Results", run_page)
RETRIEVAL_PAGE = RunPage("Retrieval", retrieval_page)
JUDGES_PAGE = RunPage("Judges", judges_page)
