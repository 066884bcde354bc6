"""The human step of a recipe: people's labels of a blind sheet, read back."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.judging.annotate.labels import read_key, read_sheets
from emend.evals.judging.annotate.results import final_label, results_of
from emend.memory.errors import BadData

STUDY, QUESTION, REJECT = "build", "keep", "no"


class Review(NamedTuple):
    """The cases that people rejected, how many they labelled, and how far they agreed."""

    rejected: frozenset[str]
    labelled: int
    agreement: dict[str, Any]


def read_review(folder: Path, cases: Collection[str]) -> Review:
    """Read the filled sheets of a construction's items.

    Args:
        folder: where `emend judge annotate RUN --study build` wrote the sheets.
        cases: those of the items that are kept so far; each needs a label.

    Raises:
        BadData: the sheets are of another study, or an item has no label on which they agree.
    """
    key = read_key(folder)
    if key.study.name != STUDY:
        raise BadData(f"'{folder}' has sheets of the study '{key.study.name}': make them with --study {STUDY}.")
    sheets = read_sheets(folder, key)
    question = next(each for each in key.study.questions if each.name == QUESTION)
    labels = {item.case: final_label(item, sheets, question) for item in key.items}
    if unlabelled := sorted(case for case in cases if labels.get(case) is None):
        raise BadData(
            f"{len(unlabelled)} of {len(cases)} items in '{folder}' have no label that the reviewers agree on, such as "
            f"{unlabelled[0]}: label them, or decide with emend judge agreement {folder}."
        )
    results = results_of(key, sheets)
    pairs = [pair.model_dump(mode="json") for pair in results.pairs]
    rejected = frozenset(case for case, label in labels.items() if label == REJECT)
    return Review(rejected, len(labels), {"labelled": results.labelled, "pairs": pairs})
