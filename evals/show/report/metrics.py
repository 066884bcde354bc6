"""The report for eyes: tables of editors by metrics, in the layout that fits the terminal; and what the demo shows."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from emend.editors.registry import EDITORS
from emend.evals.case import Metric
from emend.evals.log.manifest import Manifest
from emend.evals.metrics.scores import PROTOCOLS, plain_name
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.rows import Report
from emend.evals.results.aggregate.tables import (
    COMPACT,
    LabelledReport,
    MetricTable,
    TableChoice,
    TableRow,
    metric_tables,
)
from emend.evals.show.report.layout import INTERVALS, decimals, dim, fits, number, plain_grid
from emend.evals.show.report.layout import interval as interval
from emend.evals.show.report.secondary import (
    ability_tables,
    cost_tables,
    forgetting_tables,
    known_lines,
    perplexity_tables,
    sequence_tables,
    spent_line,
)
from emend.memory.escape import one_line

STAR = "*"


def render(report: Report, console: Console, choice: TableChoice = COMPACT) -> RenderableType:
    """The report of one run, in the layout that fits the console."""
    plain = is_plain(console)
    parts = [render_tables([LabelledReport(report, {})], console, choice)]
    sequence = (
        forgetting_tables(report.forgetting, report.metrics)
        if choice.everything
        else sequence_tables(report.forgetting, _displayed_shares(report, choice))
    )
    costs = cost_tables(report.costs) if choice.everything else ()
    for title, further in (*sequence, *perplexity_tables(report.perplexity), *ability_tables(report.ability), *costs):
        parts += [Text(title, style="bold"), further, Text("")]
    if choice.everything:
        parts += [*dim(f"{name}: {summary}" for name, summary in legend(report.metrics)), Text("")]
    return Group(*parts, *dim(notes(report, plain, choice)))


def render_reports(
    reports: Sequence[LabelledReport], console: Console, choice: TableChoice = COMPACT
) -> RenderableType:
    """One run as `render` shows it, or several in common tables, with what each leaves open."""
    if len(reports) == 1:
        return render(reports[0].report, console, choice)
    lines = [f"[{INTERVALS}]"]
    for each in reports:
        left = [f"{_counted(each.report.cases, 'case')}"]
        left += [f"{each.report.failed} units failed"] if each.report.failed else []
        left += [f"{each.report.missing} units not done yet"] if each.report.missing else []
        lines.append(f"{each.labels.get('run', '')}: {', '.join(left)}")
    return Group(render_tables(reports, console, choice), *dim(lines))


def render_tables(reports: Sequence[LabelledReport], console: Console, choice: TableChoice = COMPACT) -> RenderableType:
    """Title and layout of each table."""
    parts: list[RenderableType] = []
    for table in metric_tables(reports, choice):
        parts += [Text(one_line(table.title), style="bold"), _layout(table, console), Text("")]
    return Group(*parts)


def is_plain(console: Console) -> bool:
    """True if the console shows no colours."""
    return console.color_system is None or console.no_color


def _layout(table: MetricTable, console: Console) -> RenderableType:
    """The first that fits: editors or metrics as rows, values in one line or in two; parts of the table; a list."""
    plain = is_plain(console)
    layouts: list[Callable[[], Table]] = [
        partial(make, table, plain, in_one_line) for in_one_line in (True, False) for make in (_by_editor, _by_metric)
    ]
    for make in layouts:
        if fits(drawn := make(), console):
            return drawn
    parts = _parts_that_fit(table, plain, console)
    return Group(*parts) if parts else _stacked(table, plain)


def _parts_that_fit(table: MetricTable, plain: bool, console: Console) -> list[Table]:
    """Tables of as many metrics as fit; none if one metric alone is too wide."""
    parts, rest = list[Table](), list(table.metrics)
    while rest:
        sizes = range(len(rest), 0, -1)
        drawn = ((size, _by_editor(table._replace(metrics=tuple(rest[:size])), plain, True)) for size in sizes)
        size, part = next(((size, part) for size, part in drawn if fits(part, console)), (0, None))
        if part is None:
            return []
        parts.append(part)
        rest = rest[size:]
    return parts


def _by_editor(table: MetricTable, plain: bool, in_one_line: bool) -> Table:
    heads = [_heading(table, metric, "\n", "dim not bold") for metric in table.metrics]
    labels = [[Text(one_line(name)) for name in row.names] for row in table.rows]
    return _drawn(table.headings, labels, heads, _columns(table, plain), in_one_line)


def _by_metric(table: MetricTable, plain: bool, in_one_line: bool) -> Table:
    heads = [Text("\n".join(map(one_line, row.names)), style="bold") for row in table.rows]
    labels = [[_heading(table, metric, "  ", "dim", style="")] for metric in table.metrics]
    return _drawn(("metric",), labels, heads, list(zip(*_columns(table, plain), strict=True)), in_one_line)


def _heading(table: MetricTable, metric: Metric, between: str, about: str, style: str = "bold") -> Text:
    """Name of a metric, its protocol and number of observations."""
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
    """A table of labelled rows; in one line, values stand below each other and so do their intervals."""
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
    """The parts of each cell, metric by metric."""
    return [
        [_parts(row.values.get(metric.name), metric, row in best, plain) for row in table.rows]
        for metric, best in ((metric, _best(table, metric)) for metric in table.metrics)
    ]


def _cells(column: Sequence[list[Text]], in_one_line: bool) -> list[Text]:
    """Cells of a column; in one line, values stand below each other and so do their intervals."""
    if not in_one_line:
        return [Text("\n").join(parts) for parts in column]
    after = [Text(" ").join(parts[1:]) for parts in column]
    room, width = max(len(parts[0]) for parts in column), max(map(len, after))
    return [
        Text.assemble(" " * (room - len(parts[0])), parts[0], " " * bool(width), rest, " " * (width - len(rest)))
        for parts, rest in zip(column, after, strict=True)
    ]


def _parts(row: MetricRow | None, metric: Metric, best: bool, plain: bool) -> list[Text]:
    """Value, interval and unscored count, those that there are."""
    if row is None:
        return [Text("-")]
    value = Text("-" if row.mean is None else number(row.mean, metric))
    if best:
        value.stylize("bold green")
    if plain:  # a blank keeps the digits of unmarked values in line with the marked one
        value.append(STAR if best else " ")
    parts = [value]
    if row.low is not None and row.high is not None:
        parts.append(Text(interval(row.low, row.high, metric), style="dim"))
    parts += [Text(text, style="yellow") for text in remarks(row, metric)]
    return parts


def remarks(row: MetricRow, metric: Metric) -> list[str]:
    """Remarks on a value: probes without a score, the mean with these as wrong ones, replies cut off."""
    texts = []
    if row.unscored:
        texts.append(f"{row.unscored} unscored")
    if row.as_wrong is not None:
        texts[-1:] = [f"{row.unscored} unscored, {number(row.as_wrong, metric)} as wrong"]
    if row.cut_off and row.form != "plain":
        texts.append(f"{row.cut_off} cut off")
    return texts


def _best(table: MetricTable, metric: Metric) -> list[TableRow]:
    """The rows with the best mean as it is shown, broken models aside; none when there is nothing to compare."""
    means = {
        # What was not answered counts as wrong here, so that silence cannot win.
        place: round(value.mean if value.as_wrong is None else value.as_wrong, decimals(metric))
        for place, row in enumerate(table.rows)
        if not row.broken and (value := row.values.get(metric.name)) and value.mean is not None
    }
    if len(set(means.values())) < 2:
        return []
    best = (max if metric.higher_is_better else min)(means.values())
    return [table.rows[place] for place, mean in means.items() if mean == best]


def count(table: MetricTable, metric: Metric) -> str:
    """Number of observations, or the range of it over the rows."""
    counts = {value.n for row in table.rows if (value := row.values.get(metric.name))}
    low, high = min(counts), max(counts)
    return f"n={low}" if low == high else f"n={low}-{high}"


def _stacked(table: MetricTable, plain: bool) -> RenderableType:
    """Metric by metric, one line per row."""
    parts: list[RenderableType] = []
    for metric in table.metrics:
        best = _best(table, metric)
        heading = _heading(table, metric, "  ", "dim not bold")
        if metric.summary:
            heading.append(f"  {one_line(metric.summary)}", style="dim not bold")
        lines = plain_grid("whole", "right")
        for row in table.rows:
            if metric.name in row.values:
                value, *rest = _parts(row.values[metric.name], metric, row in best, plain)
                lines.add_row(Text(one_line(" ".join(row.names))), value, Text("  ").join(rest))
        parts += [heading, Padding(lines, (0, 0, 0, 2), expand=False)]
    return Group(*parts)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def notes(report: Report, plain: bool = False, choice: TableChoice = COMPACT) -> list[str]:
    """Notes that explain the numbers."""
    size = f"{_counted(report.cases, 'case')}, {_counted(report.records, 'record')}"
    parts_shown = [f"{size}; [{INTERVALS}]"]
    parts_shown += known_lines(report.rows, report.metrics)
    if report.spent:
        parts_shown.append(spent_line(report.spent))
    tables = metric_tables([LabelledReport(report, {})], choice)
    if plain and any(_best(table, metric) for table in tables for metric in table.metrics):
        parts_shown.append(f"{STAR} best of its column")
    if report.cut:
        parts_shown.append(f"{report.cut} prompts were longer than the model's window and were cut at the front")
    if report.failed:
        parts_shown.append(
            f"{report.failed} units failed (errors.jsonl) and are in no number above; resuming tries them again"
        )
    if report.missing:
        parts_shown.append(f"units that are not done yet: {report.missing}; the run is unfinished")
    parts_shown += [one_line(note, 400) for note in report.notes]
    parts_shown += [f"left out in {count} records: {one_line(why, 160)}" for why, count in report.excluded.items()]
    parts_shown += gap_notes(report, tables)
    reasons = list(report.reasons.items())[:5]
    parts_shown += [f"unscored in {count} records: {one_line(reason, 160)}" for reason, count in reasons]
    parts_shown += [one_line(choice, 400) for choice in report.choices]
    if not report.rows:
        parts_shown.append("no record has a score yet")
    further = [] if choice.everything or choice.columns else _further(report, tables)
    if further:
        parts_shown.append(f"not shown: {'; '.join(further)} (--all)")
    return parts_shown


def gap_notes(report: Report, tables: Sequence[MetricTable]) -> list[str]:
    """The gaps between the protocols of the metrics that are shown, a line for each two protocols and editor."""
    metrics = {metric.name: metric for table in tables for metric in table.metrics}
    lines: dict[tuple[str, ...], list[str]] = {}
    for gap in report.gaps:
        if gap.first not in metrics or gap.second not in metrics or not gap.mean:
            continue
        metric = metrics[gap.first]
        reach = "" if gap.low is None or gap.high is None else f" {interval(gap.low, gap.high, metric)}"
        text = f"{one_line(plain_name(metric))} {'+' * (gap.mean >= 0)}{number(gap.mean, metric)}{reach}"
        lines.setdefault((*gap.protocols, gap.editor, gap.setting), []).append(text)
    several = len({gap.setting for gap in report.gaps}) > 1
    return [
        f"{second} less {first}, {editor}{f', {setting}' * several}: {'; '.join(texts)}"
        for (first, second, editor, setting), texts in lines.items()
    ]


def _displayed_shares(report: Report, choice: TableChoice) -> list[Metric]:
    tables = metric_tables([LabelledReport(report, {})], choice)
    return [metric for metric in dict.fromkeys(metric for table in tables for metric in table.metrics) if metric.share]


def _further(report: Report, tables: Sequence[MetricTable]) -> list[str]:
    """Headings of what a compact report leaves out."""
    displayed = {metric.name for table in tables for metric in table.metrics}
    measured = {row.metric for row in report.rows}
    hidden = [metric for metric in report.metrics if metric.name in measured - displayed]
    groups = dict.fromkeys(metric.group or "others" for metric in hidden)
    for metric in report.metrics:
        if metric.name in displayed:
            groups.pop(metric.group or "others", None)
    kinds = {"forgetting": report.forgetting, "costs": report.costs}
    return [*groups, *(name for name, rows in kinds.items() if rows)]


def legend(metrics: Sequence[Metric]) -> list[tuple[str, str]]:
    """Name and summary of each metric, and of each protocol under which there are counterparts."""
    published = [(metric.name, metric.summary) for metric in metrics if plain_name(metric) == metric.name]
    others = dict.fromkeys(metric.protocol for metric in metrics if plain_name(metric) != metric.name)
    return [line for line in (*published, *((name, PROTOCOLS[name].summary) for name in others)) if line[1]]


def show_explanation(manifest: Manifest, folder: Path, console: Console) -> None:
    """Print what the editors and metrics are, and a command that shows one case."""
    summaries = {row["name"]: row["summary"] for row in EDITORS.rows()}
    editors = [(name, summaries.get(name, "")) for name in manifest.config.editors]
    for heading, lines in (("Editors", editors), ("Metrics", legend(manifest.metrics))):
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(style="dim", overflow="fold")
        for name, summary in lines:
            table.add_row(Text("  " + one_line(name)), Text(one_line(summary)))
        console.print(Text("\n" + heading, style="bold"), table)
    console.print(Text("\nOne case, node by node", style="bold"))
    fingerprints = next(iter(manifest.editors.values()))
    with_graph = [name for name, fingerprint in fingerprints.items() if "graph" in fingerprint]
    example = (with_graph or list(fingerprints))[-1]
    console.print(Text(f"  emend trace {folder} 1 --editor {example} --kind efficacy"), soft_wrap=True)
    console.print(Text("\nAll of it in a browser", style="bold"))
    console.print(Text(f"  emend view {folder}"), soft_wrap=True)
