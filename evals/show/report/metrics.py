"""Tables of a report with editors and metrics, in the layout that fits the terminal."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from emend.evals.case import Metric
from emend.evals.metrics.protocols import plain_name
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.mark_names import Mark
from emend.evals.results.aggregate.rows import Report
from emend.evals.results.aggregate.tables import (
    COMPACT,
    LabelledReport,
    MetricTable,
    TableChoice,
    metric_tables,
)
from emend.evals.show.report.layout import INTERVALS, dim, fits, interval_note, number, plain_grid
from emend.evals.show.report.layout import interval as interval
from emend.evals.show.report.metric_notes import (
    MARKS,
    STYLES,
    case_count,
    left_out,
    legend,
    mark_notes,
    notes,
)
from emend.evals.show.report.secondary import (
    ability_tables,
    cost_tables,
    forgetting_tables,
    perplexity_tables,
    sequence_tables,
)
from emend.evals.show.report.traces.corrections import corrected_tables
from emend.memory.escape import one_line


def render(report: Report, console: Console, choice: TableChoice = COMPACT) -> RenderableType:
    """Render the report of one run in the layout that fits the console."""
    plain = is_plain(console)
    parts = [render_tables([LabelledReport(report, {})], console, choice)]
    if choice.everything:
        sequence = forgetting_tables(report.forgetting, report.metrics)
    else:
        sequence = sequence_tables(report.forgetting, _displayed_shares(report, choice))
    costs: Iterable[tuple[str, RenderableType]] = ()
    if choice.everything:
        costs = cost_tables(report.costs)
    for title, further in (
        *corrected_tables(report.corrected, report.metrics),
        *sequence,
        *perplexity_tables(report.perplexity),
        *ability_tables(report.ability),
        *costs,
    ):
        parts += [Text(title, style="bold"), further, Text("")]
    if choice.everything:
        parts += [*dim(f"{name}: {summary}" for name, summary in legend(report.metrics)), Text("")]
    return Group(*parts, *dim(notes(report, plain, choice)))


def render_reports(
    reports: Sequence[LabelledReport], console: Console, choice: TableChoice = COMPACT
) -> RenderableType:
    """Render one run as `render` does, or several runs in common tables, with the number of cases
    and of failed and missing units of each.
    """
    if len(reports) == 1:
        return render(reports[0].report, console, choice)
    tables = metric_tables(reports, choice)
    lows = (row.low for each in reports for row in each.report.rows)
    lines = [interval_note(lows, note=f"[{INTERVALS}]"), *mark_notes(tables, is_plain(console))]
    if missing := left_out(tables):
        lines.append(f"not shown: {'; '.join(missing)} (--all)")
    for labelled in reports:
        left = [case_count(labelled.report)]
        if labelled.report.failed:
            left += [f"{labelled.report.failed} units failed"]
        if labelled.report.missing:
            left += [f"{labelled.report.missing} unfinished units"]
        lines.append(f"{labelled.labels.get('run', '')}: {', '.join(left)}")
    return Group(render_tables(reports, console, choice), *dim(lines))


def render_tables(
    reports: Sequence[LabelledReport], console: Console, choice: TableChoice = COMPACT
) -> RenderableType:
    """Render the title and body of each table."""
    parts: list[RenderableType] = []
    for table in metric_tables(reports, choice):
        parts += [Text(one_line(table.title), style="bold"), _layout(table, console), Text("")]
    return Group(*parts)


def _name_text(name: str) -> Text:
    return Text(one_line(name))


def is_plain(console: Console) -> bool:
    """Return True if the console does not show colours."""
    return console.color_system is None or console.no_color


def _layout(table: MetricTable, console: Console) -> RenderableType:
    """Render a table in the first layout that fits.

    The layouts are: editors or metrics as rows, with values and intervals in one line or in two;
    several tables with some of the metrics each; a list.
    """
    plain = is_plain(console)
    layouts: list[Callable[[], Table]] = [
        partial(make, table, plain, in_one_line)
        for in_one_line in (True, False)
        for make in (_by_editor, _by_metric)
    ]
    for make in layouts:
        if fits(drawn := make(), console):
            return drawn
    parts = _parts_that_fit(table, plain, console)
    if parts:
        return Group(*parts)
    return _stacked(table, plain)


def _parts_that_fit(table: MetricTable, plain: bool, console: Console) -> list[Table]:
    """Split a table by metrics into parts that fit; empty if a single metric is too wide."""
    parts, rest = list[Table](), list(table.metrics)
    while rest:
        sizes = range(len(rest), 0, -1)
        drawn = (
            (size, _by_editor(table._replace(metrics=tuple(rest[:size])), plain, True))
            for size in sizes
        )
        size, part = next(((size, part) for size, part in drawn if fits(part, console)), (0, None))
        if part is None:
            return []
        parts.append(part)
        rest = rest[size:]
    return parts


def _by_editor(table: MetricTable, plain: bool, in_one_line: bool) -> Table:
    heads = [_heading(table, metric, "\n", "dim not bold") for metric in table.metrics]
    labels = [list(map(_name_text, row.names)) for row in table.rows]
    return _drawn(table.headings, labels, heads, _columns(table, plain), in_one_line)


def _by_metric(table: MetricTable, plain: bool, in_one_line: bool) -> Table:
    heads = [Text("\n".join(map(one_line, row.names)), style="bold") for row in table.rows]
    labels = [[_heading(table, metric, "  ", "dim", style="")] for metric in table.metrics]
    return _drawn(
        ("metric",), labels, heads, list(zip(*_columns(table, plain), strict=True)), in_one_line
    )


def _heading(
    table: MetricTable, metric: Metric, between: str, about: str, style: str = "bold"
) -> Text:
    """Format the name of a metric, its protocol and number of observations."""
    parts = filter(None, [table.protocol(metric), count(table, metric)])
    return Text(one_line(plain_name(metric)), style=style).append(
        "".join(between + part for part in parts), style=about
    )


def _drawn(
    names: Sequence[str],
    labels: Sequence[list[Text]],
    heads: Sequence[Text],
    columns: Sequence[Sequence[list[Text]]],
    in_one_line: bool,
) -> Table:
    """Return a table of labelled rows; in one line, values and intervals are aligned."""
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False, header_style="")
    for name in names:
        drawn.add_column(Text(name, style="bold"), no_wrap=True)
    for head in heads:
        head.justify = "right"
        drawn.add_column(head, justify="left" if in_one_line else "right", no_wrap=True)
    cells = [_cells(column, in_one_line) for column in columns]
    for label, *row in zip(labels, *cells, strict=True):
        drawn.add_row(*label, *row)
    return drawn


def _columns(table: MetricTable, plain: bool) -> list[list[list[Text]]]:
    """Return the parts of each cell, by metric and row."""
    columns = list[list[list[Text]]]()
    for metric in table.metrics:
        values = [row.values.get(metric.name) for row in table.rows]
        marked = zip(values, table.marks(metric), strict=True)
        columns.append([_parts(value, metric, mark, plain) for value, mark in marked])
    return columns


def _cells(column: Sequence[list[Text]], in_one_line: bool) -> list[Text]:
    """Join the parts of the cells of a column; in one line, values and intervals are aligned."""
    if not in_one_line:
        return [Text("\n").join(parts) for parts in column]
    after = [Text(" ").join(parts[1:]) for parts in column]
    room, width = max(len(parts[0]) for parts in column), max(map(len, after))
    return [
        Text.assemble(
            " " * (room - len(parts[0])),
            parts[0],
            " " * bool(width),
            rest,
            " " * (width - len(rest)),
        )
        for parts, rest in zip(column, after, strict=True)
    ]


def _parts(row: MetricRow | None, metric: Metric, mark: Mark, plain: bool) -> list[Text]:
    """Return value, interval and unscored count, where present."""
    if row is None:
        return [Text("-")]
    value = Text("-")
    if row.mean is not None:
        value = Text(number(row.mean, metric))
    if mark:
        value.stylize(STYLES[mark])
    if plain:  # a blank aligns unmarked values with marked ones
        value.append(MARKS.get(mark, " "))
    parts = [value]
    if row.low is not None and row.high is not None:
        parts.append(Text(interval(row.low, row.high, metric), style="dim"))
    parts += [Text(text, style="yellow") for text in remarks(row, metric)]
    return parts


def remarks(row: MetricRow, metric: Metric) -> list[str]:
    """Return the remarks on a value.

    They give the number of unscored probes, the mean with these counted as wrong, and the number of
    replies that were cut off.
    """
    texts = []
    if row.unscored:
        texts.append(f"{row.unscored} unscored")
    if row.as_wrong is not None:
        texts[-1:] = [f"{row.unscored} unscored, {number(row.as_wrong, metric)} as wrong"]
    if row.cut_off and row.form != "plain":
        texts.append(f"{row.cut_off} cut off")
    return texts


def count(table: MetricTable, metric: Metric) -> str:
    """Format the number of observations of a metric, or its range over the rows."""
    counts = {value.n for row in table.rows if (value := row.values.get(metric.name))}
    low, high = min(counts), max(counts)
    if low == high:
        return f"n={low}"
    return f"n={low}-{high}"


def _stacked(table: MetricTable, plain: bool) -> RenderableType:
    """Render a table as a list: for each metric, one line per row."""
    parts: list[RenderableType] = []
    for metric in table.metrics:
        heading = _heading(table, metric, "  ", "dim not bold")
        if metric.summary:
            heading.append(f"  {one_line(metric.summary)}", style="dim not bold")
        lines = plain_grid("whole", "right")
        for row, mark in zip(table.rows, table.marks(metric), strict=True):
            if metric.name in row.values:
                value, *rest = _parts(row.values[metric.name], metric, mark, plain)
                lines.add_row(Text(one_line(" ".join(row.names))), value, Text("  ").join(rest))
        parts += [heading, Padding(lines, (0, 0, 0, 2), expand=False)]
    return Group(*parts)


def _displayed_shares(report: Report, choice: TableChoice) -> list[Metric]:
    tables = metric_tables([LabelledReport(report, {})], choice)
    metrics = dict.fromkeys(metric for table in tables for metric in table.metrics)
    return [metric for metric in metrics if metric.share]
