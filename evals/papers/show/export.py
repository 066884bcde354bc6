"""Export of a reproduced table as rows, CSV, Markdown or LaTeX."""

from collections.abc import Sequence
from typing import Any

from emend.evals.papers.reproduce.collect import Figure
from emend.evals.papers.show.figures import FigureMarks, number, spread, summary
from emend.evals.papers.tables import PaperTable
from emend.evals.show.report.export import (
    TextTable,
    check_form,
    csv_text,
    latex_text,
    markdown_text,
)
from emend.evals.show.report.layout import INTERVALS
from emend.memory.escape import one_line

FORMS = ["csv", "markdown", "latex"]


def rows(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return the figures as rows for JSON and CSV."""
    listed = []
    for figure in figures:
        fields = figure.model_dump(exclude={"cell", "notes"})
        extra = {
            "run_model": fields.pop("model"),
            "difference": figure.difference,
            "notes": "; ".join(figure.notes),
        }
        listed.append(figure.cell.model_dump(exclude={"drop"}) | fields | extra)
    return listed


def export(table: PaperTable, figures: Sequence[Figure], form: str) -> str:
    """Export the table as `csv` with a line per figure, or as `markdown` or `latex` like the paper.

    Raises:
        BadSettings: there is no such form.
    """
    check_form(form, FORMS)
    if form == "markdown":
        return markdown_text(_texts(table, figures))
    if form == "latex":
        return latex_text(_texts(table, figures))
    listed = rows(figures)
    names = dict.fromkeys(name for row in listed[:1] for name in row)
    return csv_text(list(names), listed)


def _texts(table: PaperTable, figures: Sequence[Figure]) -> TextTable:
    """Return a text table with a paper row and a run row per row of the paper, and with notes."""
    part, marks = table.part(figure.cell for figure in figures), FigureMarks(figures)
    columns = part.keys(part.columns)
    by_keys = {
        (figure.cell.key(part.rows), figure.cell.key(part.columns)): figure for figure in figures
    }
    indent = [""] * len(part.rows)
    heads = []
    for depth in range(len(part.columns)):
        heads.append([*indent, "", *(key[depth] for key in columns)])
    heads[-1][: len(part.rows)] = part.rows
    lines = []
    for row in part.keys(part.rows):
        printed, numbers = [], []
        for key in columns:
            figure = by_keys.get((row, key))
            if figure is None:
                printed.append("")
                numbers.append("")
            else:
                printed.append(figure.cell.printed)
                numbers.append(_number(figure, marks))
        lines += [[*row, "paper", *printed], [*indent, "run", *numbers]]
    notes = [
        *(f"everywhere: {note}" for note in marks.common),
        *(f"({letter}) {note}" for note, letter in marks.letters.items()),
        *summary(figures),
        INTERVALS,
    ]
    return TextTable(
        f"{table.id}: {table.caption}", heads, lines, len(part.rows) + 1, list(map(one_line, notes))
    )


def _number(figure: Figure, marks: FigureMarks) -> str:
    letters = marks.of(figure)
    if letters:
        letters = f"({letters})"
    return " ".join(filter(None, (number(figure), letters, spread(figure))))
