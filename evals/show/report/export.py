"""Export of metric tables as CSV, Markdown, LaTeX, HTML and SVG."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from rich.console import Console, RenderableType

from emend.evals.case import Metric
from emend.evals.metrics.protocols import plain_name
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.mark_names import BEST, HIGHEST, Mark
from emend.evals.results.aggregate.tables import (
    COMPACT,
    LabelledReport,
    MetricTable,
    TableChoice,
    metric_tables,
)
from emend.evals.show.report.layout import INTERVALS, interval_note, with_interval
from emend.evals.show.report.metric_notes import MEANINGS
from emend.evals.show.report.metrics import count, remarks
from emend.memory.errors import BadSettings
from emend.memory.escape import one_line, safe_cell
from emend.memory.files import write_export
from emend.memory.registry import nearest

Format = Literal["csv", "markdown", "latex", "html"]
FORMATS: list[str] = list(get_args(Format))
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "Δ": r"$\Delta$", "—": "--"}
)
STYLES = {BEST: "bold", HIGHEST: "italics"}
MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\|*`<>[]"})
FIELDS = tuple(
    "setting mode metric protocol form mean low high n unscored as_wrong cut_off judge "
    "headline".split()
)


def check_form(form: str, forms: Sequence[str] = FORMATS) -> None:
    """Reject an unknown format; called before any long computation.

    Raises:
        BadSettings: the format is unknown.
    """
    if form not in forms:
        raise BadSettings(f"--format '{form}': {nearest(form, list(forms))}")


def export(reports: Sequence[LabelledReport], form: str, choice: TableChoice = COMPACT) -> str:
    """Return the metric tables of runs as text.

    Args:
        reports: reports of one or several runs.
        form: `csv` has one line per row, metric and mode with mean, low, high, n and unscored;
            `markdown`, `latex` (with booktabs) and `html` have one table per setting, with values
            formatted as on the terminal.
        choice: columns and order.

    Raises:
        BadSettings: the format or a metric is unknown.
    """
    check_form(form)
    tables = metric_tables(reports, choice)
    if form == "csv":
        return _csv(tables)
    writers: dict[str, Callable[[TextTable], str]] = {
        "markdown": markdown_text,
        "latex": latex_text,
        "html": html_text,
    }
    return "\n\n".join(writers[form](_texts(table)) for table in tables)


def _csv(tables: Sequence[MetricTable]) -> str:
    headings = dict.fromkeys(
        heading for table in tables for heading in table.headings if heading not in FIELDS
    )
    lines = (line for table in tables for line in _lines(table))
    return csv_text(["benchmark", *headings, *FIELDS, "mark"], lines)


def _lines(table: MetricTable) -> Iterator[dict[str, Any]]:
    """Yield a CSV row for each row and metric of a table."""
    marks = {metric.name: table.marks(metric) for metric in table.metrics}
    for number_of_row, row in enumerate(table.rows):
        about = {"benchmark": table.benchmark} | dict(zip(table.headings, row.names, strict=True))
        for metric in (metric for metric in table.metrics if metric.name in row.values):
            value = row.values[metric.name].model_dump(include=set(FIELDS))
            yield about | value | {"mark": marks[metric.name][number_of_row]}


def csv_text(fields: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header line; cells that look like formulas are escaped."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fields, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: safe_cell(part) for name, part in row.items()})
    return out.getvalue().rstrip("\n")


class TextTable(NamedTuple):
    """A table of texts: header lines, rows, the number of label columns, notes and marks."""

    title: str
    heads: list[list[str]]
    rows: list[list[str]]
    names: int
    notes: Sequence[str] = (INTERVALS,)
    marks: Sequence[Sequence[Mark]] = ()
    """Mark of each cell after the label columns, by row; empty for a table without marks."""

    def cells(
        self, escape_text: Callable[[str], str], wraps: Mapping[Mark, str]
    ) -> list[list[str]]:
        """Return the rows with escaped texts; `wraps` has a format template for each mark."""
        rows = [list(map(escape_text, row)) for row in self.rows]
        for row, marks in zip(rows, self.marks, strict=False):
            for position, mark in enumerate(marks, start=self.names):
                value, blank, rest = row[position].partition(" ")
                if mark:
                    row[position] = wraps[mark].format(value) + blank + rest
        return rows


def _texts(table: MetricTable) -> TextTable:
    labels = [
        ", ".join(filter(None, [table.protocol(metric), count(table, metric)]))
        for metric in table.metrics
    ]
    names = [
        f"{one_line(plain_name(metric))} ({label})"
        for metric, label in zip(table.metrics, labels, strict=True)
    ]
    heads = [*table.headings, *names]
    rows = list[list[str]]()
    for row in table.rows:
        values = (_value(row.values.get(metric.name), metric) for metric in table.metrics)
        rows.append([*map(one_line, row.names), *values])
    marks = [*zip(*(table.marks(metric) for metric in table.metrics), strict=True)]
    used = {mark for row in marks for mark in row}
    notes = [f"{STYLES[mark]}: {MEANINGS[mark]}" for mark in STYLES if mark in used]
    lows = (value.low for row in table.rows for value in row.values.values())
    notes = [interval_note(lows), *notes]
    return TextTable(table.title, [heads], rows, len(table.headings), notes, marks)


def _value(row: MetricRow | None, metric: Metric) -> str:
    if row is None:
        return "-"
    value = with_interval(row.mean, row.low, row.high, metric)
    return " ".join([value, *(f"({text})" for text in remarks(row, metric))])


def markdown_text(table: TextTable) -> str:
    """Return a table as Markdown, with one header line."""
    heads = [
        " ".join(filter(None, parts)).translate(MARKDOWN)
        for parts in zip(*table.heads, strict=True)
    ]
    rule = ["---"] * table.names + ["---:"] * (len(heads) - table.names)
    escaped = table.cells(lambda text: text, {BEST: "**{}**", HIGHEST: "*{}*"})
    rows = list[list[str]]()
    for row in escaped:
        names = [text.translate(MARKDOWN) for text in row[: table.names]]
        rows.append(names + row[table.names :])
    lines = [f"| {' | '.join(line)} |" for line in (heads, rule, *rows)]
    return "\n".join(
        [
            f"**{one_line(table.title).translate(MARKDOWN)}**",
            "",
            *lines,
            "",
            "\n\n".join(table.notes),
        ]
    )


def latex_text(table: TextTable) -> str:
    """Return a table as LaTeX, for the package booktabs."""

    def escaped(text: str) -> str:
        return text.translate(LATEX)

    cells = table.cells(escaped, {BEST: r"\textbf{{{}}}", HIGHEST: r"\textit{{{}}}"})
    titles = [list(map(escaped, line)) for line in table.heads]
    heads = [" & ".join(line) + r" \\" for line in titles]
    rows = [" & ".join(line) + r" \\" for line in cells]
    columns = "l" * table.names + "r" * (len(table.heads[0]) - table.names)
    caption = f"{one_line(table.title)}. {'. '.join(table.notes)}.".translate(LATEX)
    body = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *heads,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(
        [r"\begin{table}", r"\centering", *body, rf"\caption{{{caption}}}", r"\end{table}"]
    )


def html_text(table: TextTable) -> str:
    """Return a table as HTML, with one header line."""
    heads = [escape(text) for text in table.heads[0]]
    rows = table.cells(escape, {BEST: "<strong>{}</strong>", HIGHEST: "<em>{}</em>"})
    lines = [
        "<table>",
        f"<caption>{escape(one_line(table.title))}. {'. '.join(table.notes)}</caption>",
    ]
    lines.append(f"<thead><tr>{''.join(f'<th>{text}</th>' for text in heads)}</tr></thead>")
    body = [f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows]
    return "\n".join([*lines, "<tbody>", *body, "</tbody>", "</table>"])


WIDTH = 118
_REMOTE_FONTS = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
_INDENTED = re.compile(r'x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)"([^>]*)>((?:&#160;)+)')
_CELL = 12.2  # width of a character in rich's SVG export


def write_svg(
    render: Callable[[Console], RenderableType],
    path: Path,
) -> None:
    """Write an SVG picture of tables in a terminal of `WIDTH` columns.

    Raises:
        BadSettings: the file does not end in .svg, or cannot be written.
    """
    if path.suffix.lower() != ".svg":
        raise BadSettings(f"--svg {path}: the ending must be .svg.")
    console = Console(
        record=True, file=io.StringIO(), width=WIDTH, force_terminal=True, color_system="truecolor"
    )
    console.print(render(console))
    drawn = _INDENTED.sub(_moved, _REMOTE_FONTS.sub("", console.export_svg(title="emend")))
    write_export(path, drawn, "Give another --svg FILE.")


def _moved(text: re.Match[str]) -> str:
    """Position a text by its coordinate instead of leading spaces, which some viewers drop."""
    x, y, length, rest, blanks = text.groups()
    shift = _CELL * blanks.count("&#160;")
    return f'x="{float(x) + shift:.1f}" {y} textLength="{float(length) - shift:.1f}"{rest}>'
