"""Blind annotation sheets, reading of the labels, and results of a study: agreement and
calibration.
"""

import base64
import csv
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from emend.agents.judging.fence import shorten
from emend.evals.judging.calibration.labels import LabelLine
from emend.evals.judging.spreadsheet import spreadsheet_rows
from emend.evals.judging.study import AnnotationItem, SheetQuestion, Study
from emend.evals.log.records import json_line, read_model, replace, write_errors
from emend.evals.metrics.agreement import RaterAgreement, agreement
from emend.evals.metrics.estimate import Estimate, estimate
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, RunRefused
from emend.memory.escape import guard_formula, safe
from emend.memory.files import private_folder
from emend.memory.registry import nearest

KEY, ADJUDICATOR = "key.json", "adjudicator"
# Characters that could end the page's data or script.
_HARMLESS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


class AnnotationKey(FrozenModel):
    """Items of a study with the information hidden from annotators, and the sampling."""

    study: Study
    runs: tuple[str, ...]
    seed: int
    items: tuple[AnnotationItem, ...]


def write_sheets(folder: Path, key: AnnotationKey, annotators: int = 2) -> list[Path]:
    """Write the key, and for each annotator a page and a table in a different order; return the
    pages.

    Raises:
        RunRefused: the folder already has sheets, or cannot be written.
    """
    if (folder / KEY).exists():
        raise RunRefused(
            f"'{folder}' has sheets already, and may have labels: give another folder."
        )
    with write_errors(f"'{folder}'"):
        private_folder(folder, links=True)
    replace(folder / KEY, key)
    return [write_sheet(folder, f"annotator-{number}", key) for number in range(1, annotators + 1)]


def write_sheet(folder: Path, annotator: str, key: AnnotationKey) -> Path:
    """Write the page and the table of one annotator; return the page."""
    items = _shuffled(key.items, f"{key.seed} {annotator}")
    page = folder / f"{annotator}.html"
    # Excel needs the byte-order mark
    replace(page.with_suffix(".csv"), _table(key.study, items).encode("utf-8-sig"))
    replace(page, _page(annotator, key.study, items).encode())
    return page


def _shuffled(items: Sequence[AnnotationItem], seed: str) -> list[AnnotationItem]:
    """Return the items in random order, keeping groups together."""
    groups = _by_group(items)
    names = sorted(groups)
    Random(seed).shuffle(names)
    return [item for name in names for item in groups[name]]


def _by_group(items: Sequence[AnnotationItem]) -> dict[str, list[AnnotationItem]]:
    groups: dict[str, list[AnnotationItem]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item)
    return groups


def _table(study: Study, items: Sequence[AnnotationItem]) -> str:
    """Return the table as CSV, with cells escaped against spreadsheet formulas."""
    names = list(dict.fromkeys(name for item in items for name in item.parts))
    blanks = [""] * (len(study.questions) + 1)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ["item", *names, *(question.name for question in study.questions), "comment"]
    writer.writerow(map(guard_formula, head))
    for item in items:
        texts = ["\n".join(_shown(item.parts.get(name, ()))) for name in names]
        writer.writerow(map(guard_formula, [item.id, *texts, *blanks]))
    return out.getvalue()


def _page_item(item: AnnotationItem) -> dict[str, Any]:
    return {"id": item.id, "parts": {name: _shown(texts) for name, texts in item.parts.items()}}


def _page(annotator: str, study: Study, items: Sequence[AnnotationItem]) -> str:
    """Return the page as HTML; its script shows the JSON data as text, so that markup in them has
    no effect.
    """
    data = {
        "annotator": annotator,
        "sheet": content_id("sheet", annotator, [item.id for item in items]),
        "title": study.title,
        "instructions": study.instructions.strip(),
        "questions": [
            question.model_dump(include={"name", "question", "options"})
            for question in study.questions
        ],
        "items": list(map(_page_item, items)),
    }
    page = Path(__file__).with_name("sheet.html").read_text(encoding="utf-8")
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = json.dumps(data, ensure_ascii=False).translate(_HARMLESS)
    return page.replace("{{HASH}}", digest).replace("{{DATA}}", text)


def _shown(texts: Sequence[str]) -> list[str]:
    """Return the texts as shown to people: shortened as for a judge, with visible control
    characters.
    """
    return [safe(shorten(text)) for text in texts]


class Sheet(FrozenModel):
    """One annotator's labels and comments by item, the labels also by question; open items are
    missing.
    """

    annotator: str
    labels: dict[str, dict[str, str]] = {}
    comments: dict[str, str] = {}


def read_key(folder: Path) -> AnnotationKey:
    """Read the key of the sheets.

    Raises:
        BadData: the key is missing or damaged.
    """
    try:
        return read_model(folder / KEY, AnnotationKey, "Restore the file.")
    except (FileNotFoundError, NotADirectoryError) as error:
        remedy = f"make sheets with: emend judge annotate RUN --study NAME --out {folder}"
        raise BadData(f"'{folder}' has no {KEY}: {remedy}") from error


def read_sheets(folder: Path, key: AnnotationKey, paths: Sequence[Path] = ()) -> list[Sheet]:
    """Read the filled sheets, by default those in the folder.

    Raises:
        BadData: a sheet cannot be read or has no label, or two sheets belong to one annotator.
    """
    adjudicated = folder / f"{ADJUDICATOR}.csv"
    files = [
        *(paths or sorted(folder.glob("annotator-*.csv"))),
        *([adjudicated] if adjudicated.exists() else []),
    ]
    sheets = [read_sheet(path, key) for path in dict.fromkeys(files)]
    for sheet in sheets:
        if not sheet.labels and sheet.annotator != ADJUDICATOR:
            raise BadData(
                f"{sheet.annotator}.csv has no label: fill it in, or replace it by the file that "
                f"the page {sheet.annotator}.html saves."
            )
    names = [sheet.annotator for sheet in sheets]
    if len({*names}) < len(names) or not set(names) - {ADJUDICATOR}:
        raise BadData(
            f"the sheets are from {', '.join(names) or 'nobody'}: give each annotator's file its "
            "own name."
        )
    return sheets


def read_sheet(path: Path, key: AnnotationKey) -> Sheet:
    """Read one sheet, as saved by a spreadsheet or the page.

    Raises:
        BadData: the sheet cannot be read; the message names line and column.
    """
    (_, head), *rows = [*spreadsheet_rows(path)] or [(1, [])]
    columns = {name.strip().casefold(): place for place, name in enumerate(head)}
    if missing := {"item", *(question.name for question in key.study.questions)} - columns.keys():
        raise BadData(
            f"'{path}', line 1: no column '{min(missing)}'. The first line names the "
            "columns: keep it."
        )
    known, sheet = {item.id for item in key.items}, Sheet(annotator=path.stem)
    for line, cells in rows:
        cell = {
            name: cells[place].strip().removeprefix("'")
            for name, place in columns.items()
            if place < len(cells)
        }
        if not (item := cell.get("item", "")):
            continue
        if item not in known:
            raise BadData(f"'{path}', line {line}: item '{item:.40}' is unknown or occurs twice.")
        known.remove(item)
        if labels := _labels(cell, key.study, f"'{path}', line {line}"):
            sheet.labels[item] = labels
        if cell.get("comment"):
            sheet.comments[item] = cell["comment"]
    return sheet


def _labels(cell: dict[str, str], study: Study, where: str) -> dict[str, str]:
    """Return the labels of a row in the study's spelling; a spreadsheet may have saved 3 as 3.0."""
    labels = {}
    for question in study.questions:
        if text := cell.get(question.name, "").removesuffix(".0"):
            options = {label.casefold(): label for label in question.options}
            if text.casefold() not in options:
                raise BadData(
                    f"{where}, column '{question.name}': '{text:.40}': "
                    f"{nearest(text, list(question.options))}"
                )
            labels[question.name] = options[text.casefold()]
    return labels


class PairAgreement(RaterAgreement):
    """Agreement on one question between two annotators, or between people and the rule of Emend's
    analysis.
    """

    question: str
    raters: tuple[str, str]


class LabelShare(FrozenModel):
    """Share of a label in one stratum, or mean of the marks if `label` is empty; open items are
    unscored.
    """

    question: str
    stratum: str
    label: str
    value: Estimate


class LabelDisagreement(FrozenModel):
    """Different labels of one item, by annotator."""

    item: str
    question: str
    labels: dict[str, str]


class AnnotationResults(FrozenModel):
    """Results of all sheets; `labelled` is the number of labelled items by annotator."""

    labelled: dict[str, int]
    pairs: tuple[PairAgreement, ...]
    shares: tuple[LabelShare, ...]
    disagreements: tuple[LabelDisagreement, ...]


def results_of(key: AnnotationKey, sheets: Sequence[Sheet]) -> AnnotationResults:
    """Compute the results of filled sheets."""
    questions = key.study.questions
    differing = [
        LabelDisagreement(item=item.id, question=question.name, labels=labels)
        for question in questions
        for item in key.items
        if len({*(labels := _study_labels(item, sheets, question)).values()}) > 1
    ]
    return AnnotationResults(
        labelled={sheet.annotator: len(sheet.labels) for sheet in sheets},
        pairs=tuple(pair for question in questions for pair in _pairs(key, sheets, question)),
        shares=tuple(share for question in questions for share in _shares(key, sheets, question)),
        disagreements=tuple(differing),
    )


def _study_labels(
    item: AnnotationItem, sheets: Sequence[Sheet], question: SheetQuestion
) -> dict[str, str]:
    """Return the labels of an item by annotator, without the adjudicator's."""
    labels = {sheet.annotator: sheet.labels.get(item.id, {}).get(question.name) for sheet in sheets}
    return {name: label for name, label in labels.items() if label and name != ADJUDICATOR}


def final_label(
    item: AnnotationItem, sheets: Sequence[Sheet], question: SheetQuestion
) -> str | None:
    """Return the adjudicator's label, or else the unanimous label of all annotators of the item, or
    None.
    """
    for sheet in sheets:
        if sheet.annotator == ADJUDICATOR and (
            label := sheet.labels.get(item.id, {}).get(question.name)
        ):
            return label
    labels = {*_study_labels(item, sheets, question).values()}
    if len(labels) == 1:
        return labels.pop()
    return None


def _pairs(
    key: AnnotationKey, sheets: Sequence[Sheet], question: SheetQuestion
) -> Iterator[PairAgreement]:
    """Yield the agreement of each pair of annotators, and of people and the rule if items have a
    label by the rule.
    """
    raters = [sheet.annotator for sheet in sheets if sheet.annotator != ADJUDICATOR]
    labels = [_study_labels(item, sheets, question) for item in key.items]
    compared: list[tuple[tuple[str, str], list[tuple[str | None, str | None]]]] = []
    for a, b in combinations(raters, 2):
        compared.append(((a, b), [(by_rater.get(a), by_rater.get(b)) for by_rater in labels]))
    if any(item.rule for item in key.items):
        rules = [(final_label(item, sheets, question), item.rule or None) for item in key.items]
        compared.append((("people", "the rule"), rules))
    for pair, rows in compared:
        both = [
            (question.number(a), question.number(b), n) for n, (a, b) in enumerate(rows) if a and b
        ]
        firsts, seconds = [a for a, _, _ in both], [b for _, b, _ in both]
        cases = [key.items[n].case for _, _, n in both]
        measured = agreement(firsts, seconds, cases, ordered=question.ordered, raters=pair)
        yield PairAgreement(**dict(measured), question=question.name, raters=pair)


def _shares(
    key: AnnotationKey, sheets: Sequence[Sheet], question: SheetQuestion
) -> Iterator[LabelShare]:
    for stratum in sorted({item.stratum for item in key.items}):
        labelled = [
            (final_label(i, sheets, question), i.case) for i in key.items if i.stratum == stratum
        ]
        errors = [
            (final, case) for final, case in labelled if not final or final != key.study.correct
        ]
        for label in [""] if question.ordered else question.options:
            rows = labelled if label and label == key.study.correct else errors
            values = [
                None if final is None else float(final == label) if label else float(final)
                for final, _ in rows
            ]
            value = estimate(values, [case for _, case in rows], share=bool(label))
            yield LabelShare(question=question.name, stratum=stratum, label=label, value=value)


def write_adjudication(
    folder: Path, key: AnnotationKey, sheets: Sequence[Sheet], results: AnnotationResults
) -> Path | None:
    """Write a sheet of the items with disagreements, with all labels and comments; return its page.

    Nothing is written, and None is returned, if there are no disagreements or the sheet already has
    labels.
    """
    path, differing = folder / f"{ADJUDICATOR}.csv", {each.item for each in results.disagreements}
    if not differing or (path.exists() and read_sheet(path, key).labels):
        return None
    items: list[AnnotationItem] = []
    for item in key.items:
        if item.id in differing:
            labels = tuple(_summary(item, sheet) for sheet in sheets)
            items.append(item.model_copy(update={"parts": item.parts | {"labels": labels}}))
    return write_sheet(folder, ADJUDICATOR, key.model_copy(update={"items": tuple(items)}))


def _summary(item: AnnotationItem, sheet: Sheet) -> str:
    labels = ", ".join(f"{name} {label}" for name, label in sheet.labels.get(item.id, {}).items())
    comment = sheet.comments.get(item.id, "")
    return f"{sheet.annotator}: {labels or 'open'}{f' ({comment})' if comment else ''}"


def write_labels(path: Path, key: AnnotationKey, sheets: Sequence[Sheet]) -> int:
    """Write the final labels in the format of `emend judge calibrate`; return the number of labels.

    Items without a final label get the label null, so that a calibration counts them.
    """
    question = next(
        question for question in key.study.questions if question.name == key.study.label
    )
    lines = []
    for items in _by_group(key.items).values():
        finals = [final_label(item, sheets, question) for item in items]
        label: float | str | None = finals[0]
        if key.study.counted:
            if None in finals:
                label = None
            else:
                label = finals.count(key.study.counted) / len(finals)
        parts = {
            name: list(texts) if len(texts) > 1 else texts[0]
            for name, texts in items[0].judged.items()
        }
        lines.append(LabelLine(kind=key.study.judge, case=items[0].case, item=parts, label=label))
    replace(path, b"".join(map(json_line, lines)))
    return sum(line.label is not None for line in lines)
