"""Scoring that two runs have in common, and their metrics with it."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from emend.evals.case import Metric
from emend.evals.judging.scorings.manifest import Scoring
from emend.evals.judging.scorings.search import NO_SCORING, find_scoring, list_scorings
from emend.evals.log.manifest import Manifest
from emend.evals.results.aggregate.judged import with_judged
from emend.memory.errors import BadSettings


class SharedScoring(NamedTuple):
    """The scorings of two runs, with the same id or both None, and a note on what is left out."""

    a: Scoring | None
    b: Scoring | None
    note: str = ""


def same_scoring(folder_a: Path, folder_b: Path, name: str | None = None) -> SharedScoring:
    """Return the newest scoring that both runs have.

    A scoring's id depends on the judge and its configuration, so equal ids mean equal judging.

    Args:
        folder_a: a run folder.
        folder_b: another one, or the same.
        name: id of a scoring or its beginning, or `none`.

    Raises:
        BadSettings: a scoring is named that one of the runs lacks.
        BadData: a scoring cannot be read.
    """
    if name == NO_SCORING:
        return SharedScoring(None, None)
    theirs = {ours_scoring.id: ours_scoring for ours_scoring in list_scorings(folder_b)}
    if name is not None:
        ours_scoring = find_scoring(folder_a, name)
        if ours_scoring is None or ours_scoring.id not in theirs:
            who, which = (ours_scoring.judge, ours_scoring.id) if ours_scoring else ("NAME", name)
            raise BadSettings(
                f"'{folder_b}' has no scoring '{which}', but only runs judged in the same way can "
                f"be compared. Judge it like '{folder_a}': emend judge run {folder_b} --judge "
                f"{who}"
            )
        return SharedScoring(ours_scoring, theirs[ours_scoring.id])
    ours = list_scorings(folder_a)
    for ours_scoring in reversed(ours):
        if ours_scoring.id in theirs:
            return SharedScoring(ours_scoring, theirs[ours_scoring.id])
    return SharedScoring(None, None, _left_out(ours, list(theirs.values())))


def _left_out(ours: list[Scoring], theirs: list[Scoring]) -> str:
    if not ours and not theirs:
        return ""
    return (
        f"judged scores are not compared: the first run was judged by {_last_judge(ours)}, the "
        f"second by {_last_judge(theirs)}; judge both runs with the same judges and settings "
        "(emend judge run)"
    )


def _last_judge(scorings: list[Scoring]) -> str:
    if not scorings:
        return "nobody"
    return scorings[-1].judge


def metrics_of(
    run: Manifest, scoring: Scoring | None, outputs: Iterable[tuple[str, str]]
) -> list[Metric]:
    """Return the metrics of a run, with those of a scoring if one is given."""
    if scoring is None:
        return list(run.metrics)
    return with_judged(scoring, set(outputs), run.metrics)
