"""The pages of a run: the numbers of `emend report`, judges, retrieval; and the page of all runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, groupby
from typing import Any

from emend.evals.case import Metric
from emend.evals.config.run_file import RunPlan
from emend.evals.judging.store import Scoring, list_scorings
from emend.evals.log.lines import split_passes, steps_from_events
from emend.evals.log.manifest import Manifest, versions
from emend.evals.metrics.estimate import Estimate
from emend.evals.metrics.scores import plain_name
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.costs import PER_EDIT, PER_PROBE, AbilityRow
from emend.evals.results.aggregate.judged import calibration_of, judged_notes
from emend.evals.results.aggregate.rows import ForgettingRow, Report
from emend.evals.results.aggregate.tables import LabelledReport, MetricTable, TableChoice, TableRow, metric_tables
from emend.evals.results.analyses.base import Analysis, AnalysisRow
from emend.evals.results.analyses.general import HIT
from emend.evals.show.report.metrics import count, gap_notes
from emend.evals.show.report.secondary import cost_text, perplexity_text, spent_line
from emend.evals.show.view.answers import RunAnswers
from emend.evals.show.view.pages.case import Decisions, hit_views
from emend.evals.show.view.pages.cases import answer_view
from emend.evals.show.view.pages.common import PERCENT, PageRequest, axis, cell, facts, marked, run_path
from emend.evals.show.view.results import SplitVotes
from emend.evals.show.view.scan import RunPlace
from emend.evals.show.view.views import CellView, Link, NamedValue, Page, ViewData

NOTHING_YET: dict[str, Any] = dict.fromkeys(
    ("tables", "costs", "forgetting", "perplexity", "ability", "spent", "reasons", "notes"), ()
) | dict.fromkeys(("cases", "cut", "missing"), 0)
"""The numbers of a run that are not computed yet."""


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
    return Page(head, ViewData(run=run, status=status, **NOTHING_YET | about))


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
        "tables": [_metric_grid(request, place, table, judges, n) for n, table in enumerate(tables)],
        "costs": list(_cost_grids(report.costs)),
        "forgetting": list(_curves(report.forgetting, metrics)),
        "perplexity": [
            ViewData(row=row, cell=cell(row, perplexity_text), before=cell(row.before, perplexity_text))
            for row in report.perplexity
        ],
        "ability": list(map(_ability, report.ability)),
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
) -> ViewData:
    path = run_path(place, "cases.html")

    def linked(row: MetricRow, metric: Metric) -> CellView:
        kind = metric.kinds[0] if len(metric.kinds) == 1 else ""
        return cell(row, metric, request.link(path, editor=row.editor, kind=kind))

    about, _, group = table.title.partition(f", model {place.manifest.config.model}")
    setting = about.removeprefix(f"{table.benchmark}, ").rpartition(", mode ")[0]  # the page says the rest
    return _grid(table, setting + group, f"table-{number}", linked, judges)


def _grid(
    table: MetricTable,
    title: str,
    anchor: str,
    as_cell: Callable[[MetricRow, Metric], CellView],
    judges: Mapping[str, str] | None = None,
) -> ViewData:
    """A table of editors by metrics; a column has the ends of its axis, a row its names and a cell for each metric.

    The best cells are marked where the judges of its metrics are given, as of a table of results.
    """
    metrics, columns = list[ViewData](), list[list[CellView | None]]()
    broken = [row.broken for row in table.rows]
    for metric in table.metrics:
        values = [row.values.get(metric.name) for row in table.rows]
        cells = [as_cell(row, metric) if row else None for row in values]
        if judges is not None:
            cells = marked(cells, metric.higher_is_better, broken)
        ends, judge = axis(cells, metric.scale), (judges or {}).get(metric.name, "")
        about = {"name": plain_name(metric), "count": count(table, metric), "protocol": table.protocol(metric)}
        metrics.append(ViewData(metric=metric, **about, judge=judge, axis=ends))
        columns.append(cells)
    rows = [ViewData(names=row.names, cells=cells) for row, *cells in zip(table.rows, *columns, strict=True)]
    return ViewData(title=title, anchor=anchor, headings=table.headings, metrics=metrics, rows=rows)


def _cost_grids(rows: Sequence[MetricRow]) -> Iterator[ViewData]:
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


def _curves(rows: Sequence[ForgettingRow], metrics: dict[str, Metric]) -> Iterator[ViewData]:
    """A metric of an editor over the checkpoints of a sequence, beside the same cases right after their own edits."""
    for (name, setting, mode, editor), group in groupby(rows, key=lambda r: (r.metric, r.setting, r.mode, r.editor)):
        metric = metrics[name]
        points = [
            ViewData(standing=row.standing, cell=cell(row, metric), first=cell(row.first, metric)) for row in group
        ]
        yield ViewData(
            setting=setting,
            mode=mode,
            editor=editor,
            metric=name,
            unit="%" if metric.scale == PERCENT else "",
            points=points,
            axis=axis([each for point in points for each in (point.cell, point.first)], metric.scale),
        )


def _ability(row: AbilityRow) -> ViewData:
    return ViewData(
        row=row,
        cell=cell(row, "{:.1f}".format),
        before=cell(row.before, "{:.1f}".format),
        change=cell(row.change_estimate, "{:+.1f}".format),
    )


def runs_page(request: PageRequest) -> Page:
    """All runs, the latest first."""
    library = request.library
    complete = library.count_all()
    entries = tuple(library.entry(place, wait=False) for place in library.scan.runs().values())
    folders = tuple(str(folder) for folder in library.scan.folders)
    words = ["list", "runs", *folders[:1]]
    head = request.head("runs", "Runs", words=words, waiting=not complete)
    return Page(head, ViewData(runs=entries, folders=folders, problems=library.scan.problems))


def about_page(request: PageRequest) -> Page:
    """Versions and folders."""
    folders = tuple(str(folder) for folder in request.library.scan.folders)
    data = ViewData(versions=facts(versions()), folders=folders)
    return Page(request.head("about", "About this viewer", words=["doctor"]), data)


HIDDEN = ("reasons", "items", "prompt_id", "kind", "judge")


def judges_page(request: PageRequest, place: RunPlace) -> Page:
    """Scorings with their calibration, and disagreements."""
    votes, status = request.library.results.get("votes", [place.folder])
    answers, indexed = request.library.answers(place)
    votes = votes or SplitVotes()
    data = ViewData(
        status=status,
        scorings=[_scoring_view(place, scoring) for scoring in list_scorings(place.folder)],
        disagreements=list(_disagreements(place, answers, votes)) if answers else [],
        disagreements_total=votes.total,
        judgements=votes.judgements,
    )
    words = ["report", str(place.folder), "--all"]
    waiting = "computing" in (status.state, indexed.state)
    return Page(request.head("judges", f"Judges of {place.name}", place, words=words, waiting=waiting), data)


def _scoring_view(place: RunPlace, scoring: Scoring) -> ViewData:
    """A scoring: who judged, what, and how well that agrees with people."""
    return ViewData(
        scoring=scoring,
        notes=judged_notes(place.folder, scoring) if "tendency" not in scoring.kinds else (),
        agreements=[_agreement(scoring, kind) for kind in scoring.kinds],
    )


def _agreement(scoring: Scoring, kind: str) -> ViewData:
    known = scoring.calibrated(kind) or {}
    measured = {name: value for name, value in known.items() if name not in HIDDEN and value is not None}
    return ViewData(kind=kind, text=calibration_of(scoring, kind), facts=facts(measured))


def _disagreements(place: RunPlace, answers: RunAnswers, votes: SplitVotes) -> Iterator[ViewData]:
    """The answers on which judges, repeats or orders differ."""
    for vote in votes.votes:
        key = answers.find(vote.record.setting, vote.record.case)
        if key:
            yield ViewData(kind=vote.kind, answer=answer_view(place, vote.record, key), votes=vote.judgements)


SIZE = 20
HIT_RATE = Metric(name=HIT, value=HIT, kinds=(), scale=100)


def retrieval_page(request: PageRequest, place: RunPlace) -> Page:
    """Hit rates by setting, kind and editor, and the misses of an editor or of all."""
    analysis, status = request.library.results.get("retrieval", [place.folder])
    answers, indexed = request.library.answers(place)
    editor = request.value("editor")
    data = ViewData(status=status, rows=[], misses=[], misses_total=0, editors={}, editor=editor, next="")
    if isinstance(analysis, Analysis):
        data.rows = list(map(_rate, analysis.rows))
    if answers is not None:
        vars(data).update(_misses(request, place, answers, editor))
    waiting = "computing" in (status.state, indexed.state)
    words = ["analyse", str(place.folder), "retrieval"]
    return Page(request.head("retrieval", f"Retrieval of {place.name}", place, words=words, waiting=waiting), data)


def _rate(row: AnalysisRow) -> ViewData:
    """Share of probes whose first retrieved entry is the right edit."""
    value = Estimate.model_validate(row.model_dump(include=set(Estimate.model_fields)))
    return ViewData(setting=row.label, kind=row.panel, editor=row.series, cell=cell(value, HIT_RATE))


def _misses(request: PageRequest, place: RunPlace, answers: RunAnswers, editor: str) -> dict[str, Any]:
    counts = answers.miss_counts()
    lines = answers.misses(editor if editor in answers.editors else "", request.offset("after"), SIZE + 1)
    visible, has_more = lines[:SIZE], len(lines) > SIZE and not request.static
    path = run_path(place, "retrieval.html")
    return {
        "misses": list(_miss_views(request, place, answers, visible)),
        "misses_total": counts.get(editor, 0) if editor in answers.editors else sum(counts.values()),
        "editors": {name: counts[name] for name in answers.editors if name in counts},
        "next": request.link(path, editor=editor, after=str(visible[-1])) if has_more else "",
    }


def _miss_views(request: PageRequest, place: RunPlace, answers: RunAnswers, lines: Sequence[int]) -> Iterator[ViewData]:
    """Answers whose first retrieved entry is of another edit than the case's, and what was retrieved."""
    with request.library.index(place) as index:
        for position, record in answers.read_answers(lines):
            answer, line = answer_view(place, record, answers.key_of(position)), answers.read_case(position)
            case_edits = frozenset(str(edit["id"]) for edit in line["edits"])
            events = index.events(record.unit).get(record.probe, ())
            yield ViewData(
                answer=answer,
                edits=[str(edit["text"]) for edit in line["edits"]],
                hits=_first_hits(list(steps_from_events(events)), case_edits),
            )


def _first_hits(steps: list[dict[str, Any]], case_edits: frozenset[str]) -> tuple[ViewData, ...]:
    """Entries that the first step that retrieved anything retrieved."""
    for part in split_passes(steps):
        for step in part:
            hits = (step["update"] or {}).get("hits")
            if isinstance(hits, list) and hits:
                return hit_views([hit for hit in hits if isinstance(hit, dict)][:5], case_edits, Decisions(part))
    return ()
