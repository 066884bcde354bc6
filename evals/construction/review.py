"""Human review of a construction's items, read from filled annotation sheets."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.judging.annotation import (
    ADJUDICATOR,
    AnnotationKey,
    Sheet,
    final_label,
    read_key,
    read_sheets,
    results_of,
)
from emend.evals.judging.study import AnnotationItem, SheetQuestion
from emend.memory.errors import BadData

STUDY, QUESTION, REJECT = "build", "keep", "no"
# Study that asks about an item's question separately from its document, and the column for it.
APART, APART_QUESTION = "build-docter", "keep_question"


class Review(NamedTuple):
    """Rejected cases, number of labelled cases, inter-annotator agreement, and the cases of which
    only the question was rejected.
    """

    rejected: frozenset[str]
    labelled: int
    agreement: dict[str, Any]
    questions: frozenset[str] = frozenset()


def read_review(
    folder: Path,
    cases: Collection[str],
    unanimous: bool = False,
    with_question: Collection[str] = (),
) -> Review:
    """Read the filled review sheets of a construction's items.

    Args:
        folder: folder with the sheets of `emend judge annotate RUN --study build`.
        cases: cases of the items kept so far; each needs a label.
        unanimous: reject an item if at least one reviewer rejects it, as DocTER does, instead of
            requiring an adjudicator.
        with_question: cases with a question separate from their text; each also needs a label for
            the question, if the study asks for one.

    Raises:
        BadData: the sheets belong to another study, or an item lacks a final label.
    """
    key = read_key(folder)
    if key.study.name not in (STUDY, APART):
        raise BadData(
            f"'{folder}' has sheets of the study '{key.study.name}': make them with "
            f"--study {STUDY}."
        )
    if key.study.name == APART and not with_question:
        raise BadData(
            f"'{folder}' asks about single questions, but no item has one: make sheets with "
            f"--study {STUDY}."
        )
    sheets = read_sheets(folder, key)
    rejected = _rejected(folder, key, sheets, QUESTION, cases, unanimous)
    questions = frozenset[str]()
    if key.study.name == APART:
        open_cases = set(with_question) - rejected
        questions = _rejected(folder, key, sheets, APART_QUESTION, open_cases, unanimous)
    results = results_of(key, sheets)
    pairs = [pair.model_dump(mode="json") for pair in results.pairs]
    agreement = {"labelled": results.labelled, "pairs": pairs}
    return Review(rejected, len(key.items), agreement, questions)


def _rejected(
    folder: Path,
    key: AnnotationKey,
    sheets: Sequence[Sheet],
    column: str,
    cases: Collection[str],
    unanimous: bool,
) -> frozenset[str]:
    """Return the cases that are rejected in a column.

    Raises:
        BadData: a case has no final label in this column.
    """
    question = next(each for each in key.study.questions if each.name == column)
    decide = _unanimous_label if unanimous else final_label
    labels = {item.case: decide(item, sheets, question) for item in key.items}
    if unlabelled := sorted(case for case in cases if labels.get(case) is None):
        raise BadData(
            f"{len(unlabelled)} of {len(cases)} items in '{folder}' have no label in '{column}' "
            f"that the reviewers agree on, such as {unlabelled[0]}: label them, or decide with "
            f"emend judge agreement {folder}."
        )
    return frozenset(case for case, label in labels.items() if label == REJECT)


def _unanimous_label(
    item: AnnotationItem, sheets: Sequence[Sheet], question: SheetQuestion
) -> str | None:
    """Return the rejection if any annotator rejects the item, else the first annotator's label;
    None if an annotator left it open.
    """
    answers = [
        sheet.labels.get(item.id, {}).get(question.name)
        for sheet in sheets
        if sheet.annotator != ADJUDICATOR
    ]
    if None in answers:
        return None
    return REJECT if REJECT in answers else answers[0]
