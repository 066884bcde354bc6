"""Tables of what a sequence of edits forgets."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from emend.evals.aggregate.columns import MetricRow
from emend.evals.aggregate.retention import ForgettingRow
from emend.evals.case import Metric
from emend.evals.metrics.estimate import Estimate
from emend.evals.report.escape import one_line
from emend.evals.report.tables.layout import Frame, frame, interval, number


def forgetting_tables(rows: Sequence[ForgettingRow], metrics: Sequence[Metric]) -> Iterator[tuple[str, Frame]]:
    """Title and table for each setting and metric of a sequence of edits."""
    known = {metric.name: metric for metric in metrics}
    for (name, setting), group in groupby(rows, key=lambda row: (row.metric, row.setting)):
        metric = known[name]
        summary = f": {metric.summary}" if metric.summary else ""
        yield one_line(f"{name} by number of applied edits, {setting}{summary}"), _table(list(group), metric)


def _table(rows: Sequence[ForgettingRow], metric: Metric) -> Frame:
    table = frame("editor", "edits", "n", "at own edit", "now", "unscored")
    before = ""
    for row in rows:
        cells = [Text(str(row.standing)), Text(str(row.n)), _cell(row.first, metric), _cell(row, metric)]
        editor = Text(one_line(row.editor) if row.editor != before else "")
        table.add_row(editor, *cells, Text(str(row.unscored or ""), style="yellow"))
        before = row.editor
    return table


def _cell(value: Estimate | MetricRow, metric: Metric) -> Text:
    """Mean, and the interval below."""
    text = Text("-" if value.mean is None else number(value.mean, metric))
    if value.low is not None and value.high is not None:
        text.append("\n" + interval(value.low, value.high, metric), style="dim")
    return text
