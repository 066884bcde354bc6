"""A reproduced table for other programs: CSV, Markdown, LaTeX and JSON."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

from emend.evals.papers.tables import PaperTable
from emend.evals.report.escape import one_line
from emend.evals.report.export import LATEX, MARKDOWN, safe_cell
from emend.evals.report.tables.layout import INTERVALS
from emend.evals.report.tables.papers import DASH
from emend.evals.reproduce.collect import Figure
from emend.evals.reproduce.table import FigureMarks, number, spread, summary
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

FORMS = ["csv", "markdown", "latex"]


def rows(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The figures as rows for JSON and CSV."""
    listed = []
    for figure in figures:
        fields = figure.model_dump(exclude={"cell", "notes"})
        extra = {"run_model": fields.pop("model"), "difference": figure.difference, "notes": "; ".join(figure.notes)}
        listed.append(figure.cell.model_dump(exclude={"drop"}) | fields | extra)
    return listed


def export(table: PaperTable, figures: Sequence[Figure], form: str) -> str:
    """The table as text: `csv` with a line for each figure, `markdown` and `latex` in the paper's shape.

    Raises:
        BadSettings: there is no such form.
    """
    if form not in FORMS:
        raise BadSettings(f"--format '{form}': {nearest(form, FORMS)}")
    if form == "csv":
        out, listed = io.StringIO(), rows(figures)
        writer = csv.DictWriter(out, list(listed[0]) if listed else [], lineterminator="\n")
        writer.writeheader()
        for row in listed:
            writer.writerow({key: safe_cell(value) if isinstance(value, str) else value for key, value in row.items()})
        return out.getvalue().rstrip("\n")
    return (_markdown if form == "markdown" else _latex)(table, figures)


def _matrix(
    table: PaperTable, figures: Sequence[Figure], pair: Callable[[Figure], tuple[str, str]]
) -> tuple[list[list[str]], list[list[str]]]:
    """Heading lines and body lines: for each row of the paper one with its figures and one with the run's."""
    part = table.part(figure.cell for figure in figures)
    columns, by_key = part.keys(part.columns), {}
    for figure in figures:
        by_key[figure.cell.key(part.rows), figure.cell.key(part.columns)] = figure
    heads = [[*([""] * len(part.rows)), "", *(key[depth] for key in columns)] for depth in range(len(part.columns))]
    heads[-1][: len(part.rows)] = part.rows
    body: list[list[str]] = []
    for row in part.keys(part.rows):
        in_row = [by_key.get((row, key)) for key in columns]
        pairs = [("", "") if figure is None else pair(figure) for figure in in_row]
        body += [
            [*row, "paper", *(first for first, _ in pairs)],
            [*([""] * len(row)), "run", *(extra for _, extra in pairs)],
        ]
    return heads, body


def _markdown(table: PaperTable, figures: Sequence[Figure]) -> str:
    marks = FigureMarks(figures)

    def pair(figure: Figure) -> tuple[str, str]:
        letters = f"<sup>{marks.of(figure)}</sup>" if marks.of(figure) else ""
        ours = DASH if figure.mean is None else f"**{number(figure)}** {spread(figure)}"
        return figure.cell.printed, f"{ours}{letters}"

    heads, body = _matrix(table, figures, pair)
    titles = [" ".join(filter(None, parts)).translate(MARKDOWN) for parts in zip(*heads, strict=True)]
    names = len(table.rows) + 1
    lines = [titles, ["---"] * names + ["---:"] * (len(titles) - names)]
    lines += [[*(text.translate(MARKDOWN) for text in line[:names]), *line[names:]] for line in body]
    notes = [f"everywhere: {note}" for note in marks.common] + [*marks.lines(), *summary(figures), INTERVALS]
    listed = "\n".join(f"- {one_line(note).translate(MARKDOWN)}" for note in notes)
    title = one_line(f"{table.id}: {table.caption}").translate(MARKDOWN)
    return "\n".join([f"**{title}**", "", *(f"| {' | '.join(line)} |" for line in lines), "", listed])


def _latex(table: PaperTable, figures: Sequence[Figure]) -> str:
    """A table for the package booktabs."""
    marks = FigureMarks(figures)

    def pair(figure: Figure) -> tuple[str, str]:
        letters = rf"\textsuperscript{{{marks.of(figure)}}}" if marks.of(figure) else ""
        ours = "--" if figure.mean is None else rf"\textbf{{{number(figure)}}}"
        return figure.cell.printed, f"{ours}{letters}" + (
            rf" {{\tiny {spread(figure)}}}" if figure.mean is not None else ""
        )

    heads, body = _matrix(table, figures, pair)
    names = len(table.rows) + 1
    texts = [[_tex(text) for text in line] for line in heads]
    texts += [[*map(_tex, line[:names]), *line[names:]] for line in body]
    lines = [" & ".join(line) + r" \\" for line in texts]
    width = len(heads[0]) - names
    notes = [f"Everywhere: {note}." for note in marks.common]
    notes += [rf"\textsuperscript{{{letter}}}" + _tex(f"{note}.") for note, letter in marks.letters.items()]
    caption = " ".join([_tex(f"{table.id}: {table.caption}. {INTERVALS}; n."), *map(_common_tex, notes)])
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering\scriptsize",
            rf"\begin{{tabular}}{{{'l' * names}{'r' * width}}}",
            r"\toprule",
            *lines[: len(heads)],
            r"\midrule",
            *lines[len(heads) :],
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{caption}}}",
            r"\end{table*}",
        ]
    )


def _tex(text: str) -> str:
    greek = one_line(text).translate(LATEX)
    return greek.replace("Δ", r"$\Delta$").replace("→", r"$\to$").replace("->", r"$\to$")


def _common_tex(note: str) -> str:
    return note if note.startswith("\\") else _tex(note)
