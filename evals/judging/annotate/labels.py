"""Filled sheets: reading what annotators wrote, or the line at which it cannot be read."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from emend.evals.judging.annotate.sheets import ADJUDICATOR, KEY, AnnotationKey
from emend.evals.judging.annotate.study import Study
from emend.evals.log.records import read_model
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.files import read_input
from emend.memory.registry import nearest

LARGEST = 64_000_000
"""Bytes of a sheet; one that is larger is none of ours."""


class Sheet(FrozenModel):
    """The labels (by question) and the comments of one annotator, by item; what is open is missing."""

    annotator: str
    labels: dict[str, dict[str, str]] = {}
    comments: dict[str, str] = {}


def read_key(folder: Path) -> AnnotationKey:
    """Read the key that was written beside the sheets.

    Raises:
        BadData: there is none, or it is damaged.
    """
    try:
        return read_model(folder / KEY, AnnotationKey, "Restore the file.")
    except (FileNotFoundError, NotADirectoryError) as error:
        remedy = f"make sheets with: emend judge annotate RUN --study NAME --out {folder}"
        raise BadData(f"'{folder}' has no {KEY}: {remedy}") from error


def read_sheets(folder: Path, key: AnnotationKey, paths: Sequence[Path] = ()) -> list[Sheet]:
    """Read the filled sheets, by default those in the folder.

    Raises:
        BadData: a sheet cannot be read or has no label, or two are of one annotator.
    """
    adjudicated = folder / f"{ADJUDICATOR}.csv"
    files = [*(paths or sorted(folder.glob("annotator-*.csv"))), *([adjudicated] if adjudicated.exists() else [])]
    sheets = [read_sheet(path, key) for path in dict.fromkeys(files)]
    for sheet in sheets:
        if not sheet.labels and sheet.annotator != ADJUDICATOR:
            raise BadData(
                f"{sheet.annotator}.csv has no label: fill it in, or put the file that the page {sheet.annotator}.html "
                "saves in its place."
            )
    names = [sheet.annotator for sheet in sheets]
    if len({*names}) < len(names) or not set(names) - {ADJUDICATOR}:
        raise BadData(f"the sheets are of {', '.join(names) or 'nobody'}: give each annotator's file another name.")
    return sheets


def read_sheet(path: Path, key: AnnotationKey) -> Sheet:
    """Read one sheet, as spreadsheets and the page save it.

    Raises:
        BadData: it cannot be read; names line and column.
    """
    (_, head), *rows = [*_rows(path)] or [(1, [])]
    columns = {name.strip().casefold(): place for place, name in enumerate(head)}
    if missing := {"item", *(question.name for question in key.study.questions)} - columns.keys():
        raise BadData(f"'{path}', line 1: no column '{min(missing)}'. The first line names the columns: keep it.")
    known, sheet = {item.id for item in key.items}, Sheet(annotator=path.stem)
    for line, cells in rows:
        cell = {name: cells[place].strip().removeprefix("'") for name, place in columns.items() if place < len(cells)}
        if not (item := cell.get("item", "")):
            continue
        if item not in known:
            raise BadData(f"'{path}', line {line}: there is no other item '{item:.40}' in this study.")
        known.remove(item)
        if labels := _labels(cell, key.study, f"'{path}', line {line}"):
            sheet.labels[item] = labels
        if cell.get("comment"):
            sheet.comments[item] = cell["comment"]
    return sheet


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file in any of the ways in which spreadsheets save one, with the numbers of their lines."""
    try:
        if path.stat().st_size > LARGEST:
            raise BadData(f"'{path}' has more than {LARGEST} bytes: it is no sheet.")
        content = read_input(path)
        encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        text = content.decode(encoding, errors="replace")  # labels are ASCII; a comment may be in another code page
        reader = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=text.partition("\n")[0].count))
        yield from ((reader.line_num, row) for row in reader)
    except (OSError, csv.Error) as error:
        raise BadData(f"cannot read the sheet '{path}': {error}.") from error


def _labels(cell: dict[str, str], study: Study, where: str) -> dict[str, str]:
    """The labels of a row, in the study's spelling; spreadsheets may write 3 as 3.0."""
    labels = {}
    for question in study.questions:
        if text := cell.get(question.name, "").removesuffix(".0"):
            options = {label.casefold(): label for label in question.options}
            if text.casefold() not in options:
                raise BadData(
                    f"{where}, column '{question.name}': '{text:.40}': {nearest(text, list(question.options))}"
                )
            labels[question.name] = options[text.casefold()]
    return labels
