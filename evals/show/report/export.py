"""Tables of metrics for other programs: CSV, Markdown, LaTeX and HTML, and as a picture."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from rich.console import Console, RenderableType

from emend.evals.case import Metric
from emend.evals.metrics.scores import plain_name
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.tables import COMPACT, LabelledReport, MetricTable, TableChoice, metric_tables
from emend.evals.show.report.layout import INTERVALS, interval, number
from emend.evals.show.report.metrics import count, remarks
from emend.memory.errors import BadSettings
from emend.memory.escape import FORMULA, one_line
from emend.memory.registry import nearest

Format = Literal["csv", "markdown", "latex", "html"]
FORMATS: list[str] = list(get_args(Format))
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "Δ": r"$\Delta$", "—": "--"}
)
MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\|*`<>[]"})
FIELDS = tuple("setting mode metric protocol form mean low high n unscored as_wrong cut_off judge".split())


def check_form(form: str, forms: Sequence[str] = FORMATS) -> None:
    """Refuse a form that a table cannot have, also before what takes long.

    Raises:
        BadSettings: there is no such form.
    """
    if form not in forms:
        raise BadSettings(f"--format '{form}': {nearest(form, list(forms))}")


def export(reports: Sequence[LabelledReport], form: str, choice: TableChoice = COMPACT) -> str:
    """The tables as text.

    Args:
        reports: one or several runs.
        form: `csv` has one line per row, metric and mode with mean, low, high, n and unscored; `markdown`, `latex`
            (with booktabs) and `html` have one table per setting, with values as the terminal shows them.
        choice: columns and order.

    Raises:
        BadSettings: there is no such form, or no such metric.
    """
    check_form(form)
    tables = metric_tables(reports, choice)
    if form == "csv":
        return _csv(tables)
    writers: dict[str, Callable[[TextTable], str]] = {"markdown": markdown_text, "latex": latex_text, "html": html_text}
    return "\n\n".join(writers[form](_texts(table)) for table in tables)


def _csv(tables: Sequence[MetricTable]) -> str:
    headings = dict.fromkeys(heading for table in tables for heading in table.headings if heading not in FIELDS)
    lines = (
        {"benchmark": table.benchmark}
        | dict(zip(table.headings, row.names, strict=True))
        | row.values[metric.name].model_dump(include=set(FIELDS))
        for table in tables
        for row in table.rows
        for metric in table.metrics
        if metric.name in row.values
    )
    return csv_text(["benchmark", *headings, *FIELDS], lines)


def csv_text(fields: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV with a heading line; no text is a formula of a spreadsheet."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fields, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: safe_cell(part) for name, part in row.items()})
    return out.getvalue().rstrip("\n")


def safe_cell(text: Any) -> Any:
    """A text that no spreadsheet takes for a formula; a number as it is."""
    if not isinstance(text, str):
        return text
    plain = one_line(text)
    return f"'{plain}" if plain.startswith(FORMULA) else plain


class TextTable(NamedTuple):
    """A table of texts: heading lines, rows, how many columns name a row, and notes below."""

    title: str
    heads: list[list[str]]
    rows: list[list[str]]
    names: int
    notes: Sequence[str] = (INTERVALS,)


def _texts(table: MetricTable) -> TextTable:
    labels = [", ".join(filter(None, [table.protocol(each), count(table, each)])) for each in table.metrics]
    names = [f"{one_line(plain_name(each))} ({label})" for each, label in zip(table.metrics, labels, strict=True)]
    heads = [*table.headings, *names]
    rows = [
        [*map(one_line, row.names), *(_value(row.values.get(metric.name), metric) for metric in table.metrics)]
        for row in table.rows
    ]
    return TextTable(table.title, [heads], rows, len(table.headings))


def _value(row: MetricRow | None, metric: Metric) -> str:
    if row is None:
        return "-"
    parts = ["-" if row.mean is None else number(row.mean, metric)]
    if row.low is not None and row.high is not None:
        parts.append(interval(row.low, row.high, metric))
    return " ".join([*parts, *(f"({text})" for text in remarks(row, metric))])


def markdown_text(table: TextTable) -> str:
    """The table in Markdown, with one heading line."""
    heads = [" ".join(filter(None, parts)).translate(MARKDOWN) for parts in zip(*table.heads, strict=True)]
    rule = ["---"] * table.names + ["---:"] * (len(heads) - table.names)
    rows = [[text.translate(MARKDOWN) for text in row[: table.names]] + row[table.names :] for row in table.rows]
    lines = [f"| {' | '.join(line)} |" for line in (heads, rule, *rows)]
    return "\n".join([f"**{one_line(table.title).translate(MARKDOWN)}**", "", *lines, "", "\n\n".join(table.notes)])


def latex_text(table: TextTable) -> str:
    """The table for the package booktabs."""
    heads, rows = (
        [" & ".join(text.translate(LATEX) for text in line) + r" \\" for line in lines]
        for lines in (table.heads, table.rows)
    )
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
    return "\n".join([r"\begin{table}", r"\centering", *body, rf"\caption{{{caption}}}", r"\end{table}"])


def html_text(table: TextTable) -> str:
    """The table in HTML, with one heading line."""
    heads, *rows = [[escape(text) for text in line] for line in (*table.heads, *table.rows)]
    lines = ["<table>", f"<caption>{escape(one_line(table.title))}. {'. '.join(table.notes)}</caption>"]
    lines.append(f"<thead><tr>{''.join(f'<th>{text}</th>' for text in heads)}</tr></thead>")
    body = [f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>" for row in rows]
    return "\n".join([*lines, "<tbody>", *body, "</tbody>", "</table>"])


WIDTH = 118
_REMOTE_FONTS = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
_INDENTED = re.compile(r'x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)"([^>]*)>((?:&#160;)+)')
_CELL = 12.2  # width of one character in what rich draws


def write_svg(
    render: Callable[[Console], RenderableType], path: Path, title: str = "emend", width: int = WIDTH
) -> None:
    """Draw tables as a terminal of `width` columns would show them.

    Raises:
        BadSettings: the file's ending does not say SVG, or it cannot be written.
    """
    if path.suffix.lower() != ".svg":
        raise BadSettings(f"--svg {path}: the ending must be .svg.")
    console = Console(record=True, file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor")
    console.print(render(console))
    drawn = _INDENTED.sub(_moved, _REMOTE_FONTS.sub("", console.export_svg(title=title)))
    try:
        path.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise BadSettings(f"cannot write the picture '{path}': {error.strerror}. Name another file.") from error


def _moved(text: re.Match[str]) -> str:
    """The text at its place instead of behind blanks, which some viewers leave out."""
    x, y, length, rest, blanks = text.groups()
    shift = _CELL * blanks.count("&#160;")
    return f'x="{float(x) + shift:.1f}" {y} textLength="{float(length) - shift:.1f}"{rest}>'
