"""The table of `emend compare`."""

from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from emend.evals.case import Metric
from emend.evals.results.analyses.compare import Comparison, ComparisonRow
from emend.evals.show.report.tables.layout import Frame, dim, frame, interval, number, unscored, without_empty
from emend.memory.escape import one_line

LEVEL = 0.05


def render_comparison(comparison: Comparison) -> RenderableType:
    """A table per pair of editors, setting and judge; differences that chance hardly makes are bold."""
    parts: list[RenderableType] = []
    known = {metric.name: metric for metric in comparison.metrics}
    covered = {(coverage.editor_a, coverage.editor_b, coverage.setting): coverage for coverage in comparison.coverage}
    for key, rows in groupby(comparison.rows, key=lambda row: (row.editor_a, row.editor_b, row.setting)):
        pairs = f"{covered[key].paired} probes of {covered[key].cases} cases paired"
        parts.append(Text(one_line(f"{comparison.benchmark}, {key[2]}: {pairs}"), style="bold"))
        sides = (("A", comparison.run_a, key[0]), ("B", comparison.run_b, key[1]))
        parts += [Text(one_line(f"{side} = {run} ({editor})")) for side, run, editor in sides]
        for judge, members in groupby(rows, key=lambda row: row.judge):
            parts += [Text(one_line(judge), style="bold")] if judge else []
            parts += [_table(list(members), known), Text("")]
    return Group(*parts, *dim(comparison.notes))


def _table(rows: list[ComparisonRow], known: dict[str, Metric]) -> Frame:
    table = frame("metric", "A", "B", "difference", "95 %", "p", "n", "unscored")
    for row in rows:
        metric, paired = known[row.metric], row.paired
        # Blanks, so that a long name is broken between its words where the table is too wide.
        name = f"  {row.kind.replace('_', ' ')}" if row.kind else row.metric
        means = [difference_text(mean, metric) for mean in (paired.mean_a, paired.mean_b)]
        style = "bold" if paired.p is not None and paired.p < LEVEL else ""
        table.add_row(
            Text(one_line(name), style="dim" if row.kind else ""),
            *means,
            Text(difference_text(paired.difference, metric, "+"), style=style),
            Text(interval_text(row, metric), style="dim"),
            Text(p_text(paired.p), style=style),
            str(paired.n),
            unscored(paired.unscored),
        )
    return without_empty(table, "unscored")


def difference_text(value: float | None, metric: Metric, sign: str = "") -> str:
    """A mean or difference in the metric's unit; with its sign if that is given."""
    if value is None:
        return "-"
    text = number(value * metric.scale, metric)
    return sign + text if sign and not text.startswith("-") and float(text) else text


def interval_text(row: ComparisonRow, metric: Metric) -> str:
    """The interval of a difference in the metric's unit."""
    low, high = row.paired.low, row.paired.high
    return "-" if low is None or high is None else interval(low * metric.scale, high * metric.scale, metric)


def p_text(p: float | None) -> str:
    """A p value with three digits."""
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"
