"""Selection of the judgements that two runs share: those of the same judges with the same settings."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from emend.evals.case import Metric
from emend.evals.judging.store import NO_SCORING, Scoring, find_scoring, list_scorings
from emend.evals.log.manifest import Manifest
from emend.evals.results.aggregate.judged import with_judged
from emend.memory.errors import BadSettings


class SharedScoring(NamedTuple):
    """The scoring of each run, which have one id or are both None, and what must be said of it."""

    a: Scoring | None
    b: Scoring | None
    note: str = ""


def same_scoring(folder_a: Path, folder_b: Path, name: str | None = None) -> SharedScoring:
    """The newest scoring that both runs have; an id says who judged and how, so like ids mean like judging.

    Args:
        folder_a: a run folder.
        folder_b: another one, or the same.
        name: the id of a scoring or the beginning of it, or `none`.

    Raises:
        BadSettings: one is named, and one of the runs has not got it.
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
                f"'{folder_b}' has no scoring '{which}', and only like judging of both is compared. Judge it as "
                f"'{folder_a}' was: emend judge run {folder_b} --judge {who}"
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
    who = [notes[-1].judge if notes else "nobody" for notes in (ours, theirs)]
    return (
        f"judged numbers are left out: the first run was judged by {who[0]}, the second by {who[1]}, not by the same "
        "judges in the same way; emend judge run makes it so"
    )


def metrics_of(run: Manifest, scoring: Scoring | None, outputs: Iterable[tuple[str, str]]) -> list[Metric]:
    """The metrics of a run, and of a scoring where there is one."""
    return list(run.metrics) if scoring is None else with_judged(scoring, set(outputs), run.metrics)
