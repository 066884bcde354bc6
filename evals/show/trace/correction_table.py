"""CSV tables in which people correct scores of answers in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from emend.agents.judging.fence import shorten
from emend.evals.case import Record
from emend.evals.corrections.correction import ScoreCorrection
from emend.evals.judging.spreadsheet import spreadsheet_rows
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records, replace, write_errors
from emend.evals.metrics.reading_line import reading_lines
from emend.evals.show.trace.score_corrections import correction_of, parse_score
from emend.memory.errors import BadData, RunRefused
from emend.memory.escape import guard_formula, safe

# Columns that identify a row, and columns that people fill in.
KEYS, FILLED = ("unit", "probe", "score"), ("corrected", "note")
HEAD = ("case", "editor", "kind", "question", "right", "answer", "scored", "rule", *FILLED, *KEYS)


def write_table(path: Path, answers: Iterable[tuple[Record, str]]) -> int:
    """Write answers, each with the score to correct, to a new file, and return their number.

    Raises:
        RunRefused: the file exists, or cannot be written.
    """
    if path.exists():
        raise RunRefused(f"'{path}' exists, and may have corrections: give another --export FILE.")
    out, count = io.StringIO(), 0
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    for record, score in answers:
        writer.writerow(map(guard_formula, _row(record, score)))
        count += 1
    with write_errors(f"'{path}'"):
        replace(path, out.getvalue().encode("utf-8-sig"))  # Excel needs the byte order mark
    return count


def _row(record: Record, score: str) -> Sequence[str]:
    value = record.values.get(score)
    scored = "unscored" if value is None else f"{value:g}"
    lines = {line.score: line.rule for line in reading_lines(record)}
    rule = record.unscored.get(score, lines.get(score, ""))
    question, right = record.prompt, " | ".join(record.gold)
    names = (record.case, record.editor, record.kind)
    head = [safe(shorten(text)) for text in (*names, question, right, record.answer or "")]
    keys = [safe(text) for text in (record.unit, record.probe, score)]
    return (*head, scored, safe(shorten(rule)), "", "", *keys)


def read_table(folder: Path, path: Path, by: str = "") -> list[ScoreCorrection]:
    """Read the filled rows of a table as corrections of a run's answers.

    Raises:
        BadData: the table cannot be read, or a row does not match an answer of the run; the message
            names the line.
        BadSettings: a correction is malformed.
    """
    Manifest.read(folder)
    records = {(safe(record.unit), safe(record.probe)): record for record in read_records(folder)}
    corrections = []
    for line, row in _filled(path):
        where = f"'{path}', line {line}"
        record = records.get((row["unit"], row["probe"]))
        names = (*record.values, *record.unscored) if record else ()
        scores = {safe(name): name for name in names}
        if record is None or row["score"] not in scores:
            raise BadData(
                f"{where}: the run has no such answer or score: keep the columns "
                f"{', '.join(KEYS)} as emend judge correct --export wrote them."
            )
        value = parse_score(row["corrected"], f"{where}, column corrected:")
        score = scores[row["score"]]
        corrections.append(correction_of(record, score, value, row["note"], by))
    return corrections


def _filled(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line numbers and cells of the rows with a correction."""
    (_, head), *rows = [*spreadsheet_rows(path)] or [(1, [])]
    missing = [name for name in (*KEYS, *FILLED) if name not in head]
    if missing:
        raise BadData(
            f"'{path}', line 1: no column '{missing[0]}': fill in a table that emend judge correct "
            "RUN --export FILE wrote."
        )
    for line, row in rows:
        cells = dict.fromkeys((*KEYS, *FILLED), "") | dict(zip(head, row, strict=False))
        cells = {name: text.removeprefix("'").strip() for name, text in cells.items()}
        if cells["corrected"]:
            yield line, cells
