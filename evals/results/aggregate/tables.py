"""Tables of editors by metrics, for one run or several runs side by side."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.case import Metric
from emend.evals.config.run_config import RESUMABLE_FIELDS
from emend.evals.log.manifest import Manifest
from emend.evals.metrics.protocols import CONTAINS, EXACT, plain_name
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.mark_names import Mark
from emend.evals.results.aggregate.marks import MarkedRow, Rival, marks_of
from emend.evals.results.aggregate.rows import Report, report
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

# Configuration fields that never label a run: what to evaluate, and options without effect on
# results.
UNLABELLED = {
    *RESUMABLE_FIELDS,
    "benchmark",
    "benchmark_options",
    "editors",
    "settings",
    "share",
    "mode",
}
ASKED = {"plain": "plain-text prompts", "chat": "chat messages"}


class LabelledReport(NamedTuple):
    """A report with labels that tell its run from others in a table; empty for a single run."""

    report: Report
    labels: Mapping[str, str]


class LeftOut(NamedTuple):
    """A metric that a table leaves out, with the reason."""

    metric: Metric
    reason: str


class TableRow(NamedTuple):
    """A table row: one name per heading, and the values by metric."""

    names: tuple[str, ...]
    values: Mapping[str, MetricRow]
    broken: bool = False
    """True if the edits broke the model; its values are then never marked as best."""


class MetricTable(NamedTuple):
    """A table of metrics, with the headings of the names that identify its rows."""

    benchmark: str
    title: str
    headings: tuple[str, ...]
    metrics: tuple[Metric, ...]
    rows: tuple[TableRow, ...]
    left_out: tuple[LeftOut, ...] = ()
    rivals: frozenset[Rival] = frozenset()
    """Pairs of editors of one run whose paired difference excludes 0."""

    def marks(self, metric: Metric) -> list[Mark]:
        """Return the mark of each row's value of a metric."""
        rows = [
            MarkedRow(row.values.get(metric.name), row.broken, row.names[:-1]) for row in self.rows
        ]
        return marks_of(rows, metric, self.rivals)

    def rows_of(self, metric: Metric) -> list[MetricRow]:
        """Return the metric's values, skipping rows without one."""
        return [row.values[metric.name] for row in self.rows if metric.name in row.values]

    def protocol(self, metric: Metric) -> str:
        """Return a column's protocol, with the form of its probes if the table has several forms.

        The text is empty for a metric without protocol.
        """
        forms = {row.form for row in self.rows_of(metric) if row.form}
        several = (
            len({row.form for each in self.metrics for row in self.rows_of(each) if row.form}) > 1
        )
        return ", ".join(filter(None, [metric.protocol, *(sorted(forms) if several else [])]))


class TableChoice(NamedTuple):
    """Choice of the columns and the row order of tables.

    By default a table shows the first group of metrics and the judges' groups; `columns` selects
    metrics by name, where a name without protocol stands for its headline. `everything` shows all
    metrics, and `all_groups` every group without its further protocols. Rows are sorted by the
    metric `sort`, best first; by default they keep the order of the runs and their editors.
    """

    columns: tuple[str, ...] = ()
    sort: str | None = None
    everything: bool = False
    all_groups: bool = False


COMPACT = TableChoice()


def load_reports(folders: Sequence[Path], scoring: str | None = None) -> list[LabelledReport]:
    """Return the report of each run folder, labelled by folder and by the settings that differ.

    Raises:
        BadData: a folder has no run, or a line is damaged.
        BadSettings: a folder is given twice, or there is no such scoring.
    """
    doubled = [str(folder) for place, folder in enumerate(folders) if folder in folders[:place]]
    if doubled:
        raise BadSettings(f"'{doubled[0]}' is given twice: name each run once.")
    reports = [report(folder, scoring) for folder in folders]
    return [LabelledReport(*pair) for pair in zip(reports, _labels(folders), strict=True)]


def _labels(folders: Sequence[Path]) -> list[dict[str, str]]:
    if len(folders) == 1:
        return [{}]
    manifests = [Manifest.read(folder) for folder in folders]
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    settings = [
        manifest.config.model_dump(exclude=UNLABELLED) | {"mode": manifest.mode}
        for manifest in manifests
    ]
    labels = [{"run": name} for name in names]
    for field in settings[0]:
        texts = [_text(values[field]) for values in settings]
        if len(set(texts)) > 1:
            for label, text in zip(labels, texts, strict=True):
                label[field] = text
    return labels


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        texts = []
        for key, entry in value.items():
            if isinstance(entry, Mapping):
                texts.append(f"{key}.{_text(entry)}")
            else:
                texts.append(f"{key}={entry}")
        return " ".join(texts)
    if value is None:
        return ""
    return str(value)


def metric_tables(
    reports: Sequence[LabelledReport], choice: TableChoice = COMPACT
) -> list[MetricTable]:
    """Return a table per benchmark, setting and mode, and per group of metrics shown.

    Runs in different modes share a table, whose rows then name the mode.

    Raises:
        BadSettings: no report has a chosen metric.
    """
    choice = _resolved(reports, choice)
    rows = [(each, row) for each in reports for row in each.report.rows]
    places: dict[tuple[str, ...], list[tuple[LabelledReport, MetricRow]]] = {}
    for each, row in rows:
        if "mode" in each.labels:
            mode = ""
        else:
            mode = row.mode
        places.setdefault((each.report.benchmark, row.setting, mode), []).append((each, row))
    return [table for place, members in places.items() for table in _tables(place, members, choice)]


def _resolved(reports: Sequence[LabelledReport], choice: TableChoice) -> TableChoice:
    """Return the choice with its metric names resolved against these reports.

    Raises:
        BadSettings: no report has a chosen metric.
    """
    columns = (name for text in choice.columns for name in _metric_names(reports, text))
    if choice.sort:
        sort = _metric_names(reports, choice.sort)[0]
    else:
        sort = None
    return choice._replace(columns=tuple(dict.fromkeys(columns)), sort=sort)


def _metric_names(reports: Sequence[LabelledReport], text: str) -> list[str]:
    known = {metric.name for each in reports for metric in each.report.metrics}
    names = list(dict.fromkeys(each.report.resolve(text) for each in reports))
    if chosen := [name for name in names if name in known]:
        return chosen
    texts = dict.fromkeys(
        name for each in reports for name in (*each.report.headlines, *sorted(known))
    )
    raise BadSettings(f"no metric '{text}' in the report: {nearest(text, list(texts))}")


def _tables(
    place: tuple[str, ...], members: Sequence[tuple[LabelledReport, MetricRow]], choice: TableChoice
) -> list[MetricTable]:
    benchmark, setting, mode = place
    rows: dict[tuple[str, ...], dict[str, MetricRow]] = {}
    broken = set[tuple[str, ...]]()
    for each, row in members:
        names = (*each.labels.values(), row.editor)
        rows.setdefault(names, {})[row.metric] = row
        if row.place in each.report.broken:
            broken.add(names)
    models = dict.fromkeys(each.report.model for each, _ in members)
    title = f"{benchmark}, {setting}"
    if mode:
        title += f", mode {mode}"
    if len(models) == 1:
        title += f", model {next(iter(models))}"
    forms = {row.form for _, row in members if row.form}
    if len(forms) == 1:
        title += f", {ASKED.get(next(iter(forms)), '')}".removesuffix(", ")
    headings = (*members[0][0].labels, "editor")
    metrics = {metric.name: metric for each, _ in members for metric in each.report.metrics}
    names_measured = {name for values in rows.values() for name in values}
    measured = [metric for metric in metrics.values() if metric.name in names_measured]
    judged = {row.metric for _, row in members if row.judge}
    reports = list({id(each.report): each.report for each, _ in members}.values())
    rivals = frozenset(rival for each in reports for rival in each.rivals)
    groups, left_out = _groups(
        _ordered(measured, reports, choice), choice, judged, rows.values(), reports
    )
    tables = []
    for name, group in groups:
        group_names = {metric.name for metric in group}
        lines = [
            TableRow(names, values, names in broken)
            for names, values in rows.items()
            if not group_names.isdisjoint(values)
        ]
        if name:
            heading = f"{title}: {name}"
        else:
            heading = title
        ordered = tuple(_sorted(lines, metrics, choice))
        missing = tuple(each for each in left_out if each.metric.group == group[0].group)
        tables.append(
            MetricTable(benchmark, heading, headings, tuple(group), ordered, missing, rivals)
        )
    return tables


def _ordered(
    measured: Sequence[Metric], reports: Sequence[Report], choice: TableChoice
) -> list[Metric]:
    """Return the metrics with each headline before its counterparts."""
    main = {row.metric for each in reports for row in each.rows if row.headline}
    first = {
        (metric.group, plain_name(metric)): at for at, metric in reversed([*enumerate(measured)])
    }
    return sorted(
        measured,
        key=lambda metric: (first[metric.group, plain_name(metric)], metric.name not in main),
    )


def _is_repeated(before: Metric, metric: Metric, rows: Collection[Mapping[str, MetricRow]]) -> bool:
    """Return True if an `exact` or `contains` metric repeats the values of its headline."""
    is_counterpart = plain_name(metric) == plain_name(before) and {
        metric.protocol,
        before.protocol,
    } == {
        EXACT,
        CONTAINS,
    }
    if not is_counterpart or (metric.kinds, metric.per) != (before.kinds, before.per):
        return False
    pairs = [(row.get(before.name), row.get(metric.name)) for row in rows]
    return all(
        a and b and (a.mean, a.n, a.unscored) == (b.mean, b.n, b.unscored)
        for a, b in pairs
        if a or b
    )


def _left_out(
    metrics: Sequence[Metric], rows: Collection[Mapping[str, MetricRow]], reports: Sequence[Report]
) -> list[LeftOut]:
    """Return the metrics that a default table hides: further protocols, and repeated values."""
    main = {
        metric.name for each in reports for metric in each.metrics if metric.name not in each.hidden
    }
    hidden = [metric for metric in metrics if metric.name not in main]
    visible = [metric for metric in metrics if metric not in hidden]
    repeated = [
        metric for before, metric in pairwise(visible) if _is_repeated(before, metric, rows)
    ]
    return [
        *(LeftOut(metric, f"by {metric.protocol}") for metric in hidden),
        *(LeftOut(metric, f"by {metric.protocol}, the same figures") for metric in repeated),
    ]


def _groups(
    measured: Sequence[Metric],
    choice: TableChoice,
    judged: set[str],
    rows: Collection[Mapping[str, MetricRow]],
    reports: Sequence[Report],
) -> tuple[list[tuple[str, list[Metric]]], list[LeftOut]]:
    """Return the title and metrics of each table, and the metrics left out of them."""
    if choice.columns:
        by_name = {metric.name: metric for metric in measured}
        chosen = [by_name[name] for name in choice.columns if name in by_name]
        judges = dict.fromkeys(metric.group for metric in chosen if metric.name in judged)
        return ([("; ".join(judges), chosen)] if chosen else []), []
    groups: dict[str, list[Metric]] = {}
    for metric in measured:
        groups.setdefault(metric.group, []).append(metric)
    if choice.everything:
        return [*groups.items()], []
    first, tables, left_out = (
        next(iter(groups), ""),
        list[tuple[str, list[Metric]]](),
        list[LeftOut](),
    )
    for name, metrics in groups.items():
        if choice.all_groups or name == first or any(metric.name in judged for metric in metrics):
            missing = _left_out(metrics, rows, reports)
            absent = [each.metric for each in missing]
            tables.append((name, [metric for metric in metrics if metric not in absent]))
            left_out += missing
    return tables, left_out


def _sorted(
    rows: Sequence[TableRow], metrics: Mapping[str, Metric], choice: TableChoice
) -> Sequence[TableRow]:
    if choice.sort is None or choice.sort not in metrics:
        return rows
    if metrics[choice.sort].higher_is_better:
        sign = -1
    else:
        sign = 1

    def key(row: TableRow) -> tuple[bool, float]:
        value = row.values.get(choice.sort or "")
        if value is None or value.mean is None:
            return (True, 0.0)
        return (False, sign * value.mean)

    return sorted(rows, key=key)
