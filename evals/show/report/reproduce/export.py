"""A reproduced table for other programs: CSV, Markdown, LaTeX and JSON."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from emend.evals.results.papers.tables import PaperTable
from emend.evals.results.reproduce.collect import Figure
from emend.evals.show.report.export import TextTable, check_form, latex_text, markdown_text, safe_cell
from emend.evals.show.report.reproduce.table import FigureMarks, number, spread, summary
from emend.evals.show.report.tables.layout import INTERVALS
from emend.evals.show.report.tables.papers import DASH
from emend.memory.escape import one_line

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
    check_form(form, FORMS)
    if form != "csv":
        return (markdown_text if form == "markdown" else latex_text)(_texts(table, figures))
    out, listed = io.StringIO(), rows(figures)
    writer = csv.DictWriter(out, list(listed[0]) if listed else [], lineterminator="\n")
    writer.writeheader()
    for row in listed:
        writer.writerow({key: safe_cell(value) for key, value in row.items()})
    return out.getvalue().rstrip("\n")


def _texts(table: PaperTable, figures: Sequence[Figure]) -> TextTable:
    """For each row of the paper a row with its figures and one with the run's, and what is not alike."""
    part, marks = table.part(figure.cell for figure in figures), FigureMarks(figures)
    columns = part.keys(part.columns)
    by_place = {(figure.cell.key(part.rows), figure.cell.key(part.columns)): figure for figure in figures}
    heads = [[*([""] * len(part.rows)), "", *(key[depth] for key in columns)] for depth in range(len(part.columns))]
    heads[-1][: len(part.rows)] = part.rows
    lines = []
    for row in part.keys(part.rows):
        in_row = [by_place.get((row, key)) for key in columns]
        lines.append([*row, "paper", *(figure.cell.printed if figure else "" for figure in in_row)])
        lines.append([*([""] * len(row)), "run", *(_number(figure, marks) if figure else "" for figure in in_row)])
    notes = [
        *(f"everywhere: {note}" for note in marks.common),
        *(f"({letter}) {note}" for note, letter in marks.letters.items()),
        *summary(figures),
        INTERVALS,
    ]
    return TextTable(f"{table.id}: {table.caption}", heads, lines, len(part.rows) + 1, list(map(one_line, notes)))


def _number(figure: Figure, marks: FigureMarks) -> str:
    letters = f"({marks.of(figure)})" if marks.of(figure) else ""
    return " ".join(filter(None, (DASH if figure.mean is None else number(figure), letters, spread(figure))))
