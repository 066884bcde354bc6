"""Tables of editors by metrics, of one run or of several side by side."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.case import Metric
from emend.evals.config.run_config import RESUMABLE_FIELDS
from emend.evals.log.manifest import Manifest
from emend.evals.metrics.scores import CONTAINS
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.rows import Report, report
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

UNLABELLED = {*RESUMABLE_FIELDS, "benchmark", "benchmark_options", "editors", "settings", "share", "mode"}
"""Fields of a configuration that name no run: the data, its parts, and what changes no result."""
ASKED = {"plain": "asked in plain text", "chat": "asked in messages"}


class LabelledReport(NamedTuple):
    """A report with what tells its run from the others of a table; no labels for a run alone."""

    report: Report
    labels: Mapping[str, str]


class TableRow(NamedTuple):
    """A row: its names, one for each heading of the table, and its values by metric."""

    names: tuple[str, ...]
    values: Mapping[str, MetricRow]
    broken: bool = False
    """True where edits broke the model: none of the values counts as the best."""


class MetricTable(NamedTuple):
    """A table of metrics: what names its rows, the metrics shown, and the rows."""

    benchmark: str
    title: str
    headings: tuple[str, ...]
    metrics: tuple[Metric, ...]
    rows: tuple[TableRow, ...]

    def rows_of(self, metric: Metric) -> list[MetricRow]:
        """The metric's values, those that there are."""
        return [row.values[metric.name] for row in self.rows if metric.name in row.values]

    def protocol(self, metric: Metric) -> str:
        """Protocol of a column, and the form of its probes where the table has several; empty without a protocol."""
        forms = {row.form for row in self.rows_of(metric) if row.form}
        several = len({row.form for each in self.metrics for row in self.rows_of(each) if row.form}) > 1
        return ", ".join(filter(None, [metric.protocol, *(sorted(forms) if several else [])]))


class TableChoice(NamedTuple):
    """Content of tables: these columns, or the first group of metrics and the judges', or all; and the order of rows.

    Rows are sorted by a metric, best first; by default they are in the order of the runs and their editors.
    """

    columns: tuple[str, ...] = ()
    sort: str | None = None
    everything: bool = False


COMPACT = TableChoice()


def load_reports(folders: Sequence[Path], scoring: str | None = None) -> list[LabelledReport]:
    """The report of each run folder, in which runs are labelled by folder and by the settings in which they differ.

    Raises:
        BadData: no run in a folder, or a damaged line.
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
    short = len({folder.resolve().name for folder in folders}) == len(folders)
    names = [folder.resolve().name if short else str(folder) for folder in folders]
    settings = [manifest.config.model_dump(exclude=UNLABELLED) | {"mode": manifest.mode} for manifest in manifests]
    different = [field for field in settings[0] if len({_text(values[field]) for values in settings}) > 1]
    return [
        {"run": name} | {field: _text(values[field]) for field in different}
        for name, values in zip(names, settings, strict=True)
    ]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(
            f"{key}.{_text(part)}" if isinstance(part, Mapping) else f"{key}={part}" for key, part in value.items()
        )
    return "" if value is None else str(value)


def metric_tables(reports: Sequence[LabelledReport], choice: TableChoice = COMPACT) -> list[MetricTable]:
    """The tables: one for each benchmark, setting and mode, and with `everything` for each group of metrics too.

    Runs in different modes share a table, which then names the mode in each row.

    Raises:
        BadSettings: no report has a chosen metric.
    """
    known = list(dict.fromkeys(metric.name for each in reports for metric in each.report.metrics))
    for name in (*choice.columns, *([choice.sort] if choice.sort else [])):
        if name not in known:
            raise BadSettings(f"no metric '{name}' in the report: {nearest(name, known)}")
    rows = [(each, row) for each in reports for row in each.report.rows]
    places: dict[tuple[str, ...], list[tuple[LabelledReport, MetricRow]]] = {}
    for each, row in rows:
        mode = "" if "mode" in each.labels else row.mode
        places.setdefault((each.report.benchmark, row.setting, mode), []).append((each, row))
    return [table for place, members in places.items() for table in _tables(place, members, choice)]


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
    title = f"{benchmark}, {setting}" + (f", mode {mode}" if mode else "")
    title += f", model {next(iter(models))}" if len(models) == 1 else ""
    forms = {row.form for _, row in members if row.form}
    title += f", {ASKED.get(next(iter(forms)), '')}".removesuffix(", ") if len(forms) == 1 else ""
    headings = (*members[0][0].labels, "editor")
    metrics = {metric.name: metric for each, _ in members for metric in each.report.metrics}
    measured = [metric for metric in metrics.values() if any(metric.name in values for values in rows.values())]
    judged = {row.metric for _, row in members if row.judge}
    tables = []
    for name, group in _groups(measured, choice, judged, rows.values()):
        lines = [
            TableRow(names, values, names in broken)
            for names, values in rows.items()
            if any(m.name in values for m in group)
        ]
        heading = f"{title}: {name}" if name else title
        tables.append(MetricTable(benchmark, heading, headings, tuple(group), tuple(_sorted(lines, metrics, choice))))
    return tables


def _distinct(metrics: Sequence[Metric], rows: Collection[Mapping[str, MetricRow]]) -> list[Metric]:
    """The metrics without those of the protocol `contains` that say of every row what the metric before them says."""

    def is_repeated(before: Metric, metric: Metric) -> bool:
        is_counterpart = metric.name == f"{before.name} {CONTAINS}" and metric.protocol == CONTAINS
        if not is_counterpart or (metric.kinds, metric.per) != (before.kinds, before.per):
            return False
        pairs = [(row.get(before.name), row.get(metric.name)) for row in rows]
        return all(a and b and (a.mean, a.n, a.unscored) == (b.mean, b.n, b.unscored) for a, b in pairs if a or b)

    return [*metrics[:1], *(metric for before, metric in pairwise(metrics) if not is_repeated(before, metric))]


def _groups(
    measured: Sequence[Metric],
    choice: TableChoice,
    judged: set[str],
    rows: Collection[Mapping[str, MetricRow]],
) -> list[tuple[str, list[Metric]]]:
    """Title and metrics of each table."""
    if choice.columns:
        by_name = {metric.name: metric for metric in measured}
        chosen = [by_name[name] for name in choice.columns if name in by_name]
        judges = dict.fromkeys(metric.group for metric in chosen if metric.name in judged)
        return [("; ".join(judges), chosen)] if chosen else []
    groups: dict[str, list[Metric]] = {}
    for metric in measured:
        groups.setdefault(metric.group, []).append(metric)
    if not choice.everything:
        groups = {name: _distinct(metrics, rows) for name, metrics in groups.items()}
    first = next(iter(groups), "")
    return [
        (name, metrics)
        for name, metrics in groups.items()
        if choice.everything or name == first or any(metric.name in judged for metric in metrics)
    ]


def _sorted(rows: Sequence[TableRow], metrics: Mapping[str, Metric], choice: TableChoice) -> Sequence[TableRow]:
    if choice.sort is None or choice.sort not in metrics:
        return rows
    sign = -1 if metrics[choice.sort].higher_is_better else 1

    def key(row: TableRow) -> tuple[bool, float]:
        value = row.values.get(choice.sort or "")
        return (True, 0.0) if value is None or value.mean is None else (False, sign * value.mean)

    return sorted(rows, key=key)
