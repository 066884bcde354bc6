"""Results of a study: agreement of the annotators, what they disagree about, and labels to calibrate a judge with."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from emend.evals.judging.annotate.sheets import ADJUDICATOR, AnnotationKey, Sheet, read_sheet, write_sheet
from emend.evals.judging.annotate.study import AnnotationItem, SheetQuestion
from emend.evals.judging.calibration import LabelLine
from emend.evals.log.records import json_line, replace
from emend.evals.metrics.agreement import RaterAgreement, agreement
from emend.evals.metrics.estimate import Estimate, estimate
from emend.memory.edit import FrozenModel


class PairAgreement(RaterAgreement):
    """The agreement of two annotators, or of people and the rule of Emend's analysis, in one question."""

    question: str
    raters: tuple[str, str]


class LabelShare(FrozenModel):
    """In one stratum the share of a label, or the mean of marks, with `label` empty; open items are unscored."""

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
    """All that the sheets say; `labelled` counts items by annotator."""

    labelled: dict[str, int]
    pairs: tuple[PairAgreement, ...]
    shares: tuple[LabelShare, ...]
    disagreements: tuple[LabelDisagreement, ...]


def results_of(key: AnnotationKey, sheets: Sequence[Sheet]) -> AnnotationResults:
    """The results of filled sheets."""
    questions = key.study.questions
    differing = [
        LabelDisagreement(item=item.id, question=question.name, labels=labels)
        for question in questions
        for item in key.items
        if len({*(labels := _labels(item, sheets, question)).values()}) > 1
    ]
    return AnnotationResults(
        labelled={sheet.annotator: len(sheet.labels) for sheet in sheets},
        pairs=tuple(pair for question in questions for pair in _pairs(key, sheets, question)),
        shares=tuple(share for question in questions for share in _shares(key, sheets, question)),
        disagreements=tuple(differing),
    )


def _labels(item: AnnotationItem, sheets: Sequence[Sheet], question: SheetQuestion) -> dict[str, str]:
    """The annotators' labels of an item."""
    labels = {sheet.annotator: sheet.labels.get(item.id, {}).get(question.name) for sheet in sheets}
    return {name: label for name, label in labels.items() if label and name != ADJUDICATOR}


def final_label(item: AnnotationItem, sheets: Sequence[Sheet], question: SheetQuestion) -> str | None:
    """The adjudicator's label, or the one that all who labelled the item agree on; None where there is neither."""
    for sheet in sheets:
        if sheet.annotator == ADJUDICATOR and (label := sheet.labels.get(item.id, {}).get(question.name)):
            return label
    labels = {*_labels(item, sheets, question).values()}
    return labels.pop() if len(labels) == 1 else None


def _pairs(key: AnnotationKey, sheets: Sequence[Sheet], question: SheetQuestion) -> Iterator[PairAgreement]:
    """The agreement of every two annotators, and of people and rule where the items have a rule's label."""
    raters = [sheet.annotator for sheet in sheets if sheet.annotator != ADJUDICATOR]
    labels = [_labels(item, sheets, question) for item in key.items]
    compared = [((a, b), [(each.get(a), each.get(b)) for each in labels]) for a, b in combinations(raters, 2)]
    if any(item.rule for item in key.items):
        rules = [(final_label(item, sheets, question), item.rule or None) for item in key.items]
        compared.append((("people", "the rule"), rules))
    for pair, rows in compared:
        both = [(question.number(a), question.number(b), n) for n, (a, b) in enumerate(rows) if a and b]
        firsts, seconds = [a for a, _, _ in both], [b for _, b, _ in both]
        cases = [key.items[n].case for _, _, n in both]
        measured = agreement(firsts, seconds, cases, ordered=question.ordered, raters=pair)
        yield PairAgreement(**dict(measured), question=question.name, raters=pair)


def _shares(key: AnnotationKey, sheets: Sequence[Sheet], question: SheetQuestion) -> Iterator[LabelShare]:
    for stratum in sorted({item.stratum for item in key.items}):
        labelled = [(final_label(i, sheets, question), i.case) for i in key.items if i.stratum == stratum]
        errors = [(final, case) for final, case in labelled if not final or final != key.study.correct]
        for label in [""] if question.ordered else question.options:
            rows = labelled if label and label == key.study.correct else errors
            values = [None if final is None else float(final == label) if label else float(final) for final, _ in rows]
            value = estimate(values, [case for _, case in rows], share=bool(label))
            yield LabelShare(question=question.name, stratum=stratum, label=label, value=value)


def write_adjudication(
    folder: Path, key: AnnotationKey, sheets: Sequence[Sheet], results: AnnotationResults
) -> Path | None:
    """Write a sheet of the disagreements with all labels and comments; None without any, or if it is filled already."""
    path, differing = folder / f"{ADJUDICATOR}.csv", {each.item for each in results.disagreements}
    if not differing or (path.exists() and read_sheet(path, key).labels):
        return None
    items = [
        item.model_copy(update={"parts": item.parts | {"labels": tuple(_summary(item, sheet) for sheet in sheets)}})
        for item in key.items
        if item.id in differing
    ]
    return write_sheet(folder, ADJUDICATOR, key.model_copy(update={"items": tuple(items)}))


def _summary(item: AnnotationItem, sheet: Sheet) -> str:
    labels = ", ".join(f"{name} {label}" for name, label in sheet.labels.get(item.id, {}).items())
    comment = sheet.comments.get(item.id, "")
    return f"{sheet.annotator}: {labels or 'open'}{f' ({comment})' if comment else ''}"


def write_labels(path: Path, key: AnnotationKey, sheets: Sequence[Sheet]) -> int:
    """Write the final labels as `emend judge calibrate` reads them; return how many items have one.

    Items that are open have the label null, so that a calibration counts them.
    """
    question = next(question for question in key.study.questions if question.name == key.study.label)
    groups: dict[str, list[AnnotationItem]] = {}
    for item in key.items:
        groups.setdefault(item.group, []).append(item)
    lines = []
    for items in groups.values():
        finals = [final_label(item, sheets, question) for item in items]
        label: float | str | None = finals[0]
        if key.study.counted:
            label = None if None in finals else finals.count(key.study.counted) / len(finals)
        parts = {name: list(texts) if len(texts) > 1 else texts[0] for name, texts in items[0].judged.items()}
        lines.append(LabelLine(kind=key.study.judge, case=items[0].case, item=parts, label=label))
    replace(path, b"".join(map(json_line, lines)))
    return sum(line.label is not None for line in lines)
