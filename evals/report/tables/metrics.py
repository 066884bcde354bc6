"""The report for eyes: tables of editors by metrics, or a list of metrics where the terminal is narrow."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from emend.evals.aggregate.rows import MetricRow, Report
from emend.evals.case import Metric
from emend.evals.report.escape import one_line
from emend.evals.report.tables.layout import INTERVALS, decimals, dim, fits, number
from emend.evals.report.tables.layout import interval as interval
from emend.evals.report.tables.secondary import cost_tables, forgetting_tables, perplexity_tables, spent_line

NARROW = 100
STAR = "*"


class Block(NamedTuple):
    """A table: a setting and mode, a group of metrics, and the rows by (editor, metric)."""

    title: str
    metrics: list[Metric]
    editors: list[str]
    rows: dict[tuple[str, str], MetricRow]


def show(report: Report, console: Console) -> None:
    """Print the report."""
    console.print(render(report, console))


def render(report: Report, console: Console) -> RenderableType:
    """The whole report, in the layout that fits the console."""
    plain = console.color_system is None or console.no_color
    parts: list[RenderableType] = []
    for block in blocks(report):
        table = _table(block, plain)
        whole = console.width >= NARROW and fits(table, console)
        parts += [Text(block.title, style="bold"), table if whole else _stacked(block, plain), Text("")]
    beside = *perplexity_tables(report.perplexity), *cost_tables(report.costs)
    for title, further in (*forgetting_tables(report.forgetting, report.metrics), *beside):
        parts += [Text(title, style="bold"), further, Text("")]
    return Group(*parts, *dim(notes(report, plain)))


def blocks(report: Report) -> Iterator[Block]:
    """The tables of a report, in order."""
    for (setting, mode), group_rows in groupby(report.rows, key=lambda row: (row.setting, row.mode)):
        rows = {(row.editor, row.metric): row for row in group_rows}
        editors = list(dict.fromkeys(editor for editor, _ in rows))
        metrics = [metric for metric in report.metrics if any((e, metric.name) in rows for e in editors)]
        title = one_line(f"{report.benchmark}, {setting}, mode {mode}, model {report.model}")
        for group in dict.fromkeys(metric.group for metric in metrics):
            members = [metric for metric in metrics if metric.group == group]
            yield Block(f"{title}: {group}" if group else title, members, editors, rows)


def _table(block: Block, plain: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False, header_style="")
    table.add_column(Text("editor", style="bold"), no_wrap=True)
    for metric in block.metrics:
        heading = Text(one_line(metric.name), style="bold", justify="right")
        table.add_column(
            heading.append("\n" + _count(block, metric), style="dim not bold"), justify="right", no_wrap=True
        )
    for editor in block.editors:
        cells = [_cell(block, editor, metric, plain) for metric in block.metrics]
        table.add_row(Text(one_line(editor)), *cells)
    return table


def _cell(block: Block, editor: str, metric: Metric, plain: bool) -> Text:
    return Text("\n").join(_parts(block, editor, metric, plain)) if (editor, metric.name) in block.rows else Text("-")


def _parts(block: Block, editor: str, metric: Metric, plain: bool) -> list[Text]:
    """Value, interval and unscored count, those that there are."""
    row = block.rows[editor, metric.name]
    value = Text("-" if row.mean is None else number(row.mean, metric))
    best = _best(block, metric)
    if editor in best:
        value.stylize("bold green")
    if plain:  # a blank keeps the digits of unmarked values in line with the marked one
        value.append(STAR if editor in best else " ")
    parts_shown = [value]
    if row.low is not None and row.high is not None:
        parts_shown.append(Text(interval(row.low, row.high, metric), style="dim"))
    if row.unscored:
        parts_shown.append(Text(f"{row.unscored} unscored", style="yellow"))
    return parts_shown


def _best(block: Block, metric: Metric) -> list[str]:
    """The editors with the best mean as it is shown; none when there is nothing to compare."""
    means = {
        editor: round(row.mean, decimals(metric))
        for editor in block.editors
        if (row := block.rows.get((editor, metric.name))) and row.mean is not None
    }
    if len(set(means.values())) < 2:
        return []
    best = (max if metric.higher_is_better else min)(means.values())
    return [editor for editor, mean in means.items() if mean == best]


def _count(block: Block, metric: Metric) -> str:
    counts = {row.n for editor in block.editors if (row := block.rows.get((editor, metric.name)))}
    low, high = min(counts), max(counts)
    return f"n={low}" if low == high else f"n={low}-{high}"


def _stacked(block: Block, plain: bool) -> RenderableType:
    """Metric by metric, one line per editor."""
    parts: list[RenderableType] = []
    for metric in block.metrics:
        heading = Text(one_line(metric.name), style="bold").append(f"  {_count(block, metric)}", style="dim not bold")
        if metric.summary:
            heading.append(f"  {one_line(metric.summary)}", style="dim not bold")
        lines = Table.grid(padding=(0, 2))
        lines.add_column(no_wrap=True)
        lines.add_column(justify="right", no_wrap=True)
        for editor in block.editors:
            if (editor, metric.name) in block.rows:
                value, *rest = _parts(block, editor, metric, plain)
                lines.add_row(Text(one_line(editor)), value, Text("  ").join(rest))
        parts += [heading, Padding(lines, (0, 0, 0, 2), expand=False)]
    return Group(*parts)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def notes(report: Report, plain: bool = False) -> list[str]:
    """Notes that explain the numbers."""
    size = f"{_counted(report.cases, 'case')}, {_counted(report.records, 'record')}"
    parts_shown = [f"{size}; [{INTERVALS}]"]
    if report.spent:
        parts_shown.append(spent_line(report.spent))
    if plain and any(_best(block, metric) for block in blocks(report) for metric in block.metrics):
        parts_shown.append(f"{STAR} best of its column")
    if report.cut:
        parts_shown.append(f"{report.cut} prompts were longer than the model's window and were cut at the front")
    if report.failed:
        parts_shown.append(
            f"{report.failed} units failed (errors.jsonl) and are in no number above; resuming tries them again"
        )
    if report.missing:
        parts_shown.append(f"{report.missing} units are not done yet: the run is unfinished")
    parts_shown += [one_line(note, 400) for note in report.notes]
    reasons = list(report.reasons.items())[:5]
    parts_shown += [f"unscored in {count} records: {one_line(reason, 160)}" for reason, count in reasons]
    parts_shown += [one_line(choice, 400) for choice in report.choices]
    if not report.rows:
        parts_shown.append("no record has a score yet")
    return parts_shown


def legend(metrics: Sequence[Metric]) -> list[tuple[str, str]]:
    """Name and summary of each metric."""
    return [(metric.name, metric.summary) for metric in metrics if metric.summary]
