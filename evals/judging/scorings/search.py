"""Search for the scorings of a run."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from emend.evals.judging.scorings.earlier import earlier_scorings
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.manifest import FOLDER, SCORING, Scoring
from emend.memory.errors import BadSettings

# Name that selects no scoring instead of the newest one.
NO_SCORING = "none"


def list_scorings(folder: Path) -> list[Scoring]:
    """List the scorings of a run, oldest first, including those of earlier versions.

    Raises:
        BadData: a scoring cannot be read.
    """
    by_id = {scoring.id: scoring for scoring in earlier_scorings(folder)}
    for path in sorted((folder / FOLDER).glob(f"*/{SCORING}")):
        by_id[path.parent.name] = Scoring.read(path.parent)
    return sorted(by_id.values(), key=lambda scoring: (scoring.started, scoring.id))


def start_after(scorings: Sequence[Scoring]) -> datetime:
    """Return the current time in UTC, or a time just after these scorings if the clock was set
    back.

    Start times must be distinct, since the newest scoring is shown by default.
    """
    return max(
        [datetime.now(UTC), *(scoring.started + timedelta(microseconds=1) for scoring in scorings)]
    )


def find_scoring(folder: Path, name: str | None = None) -> Scoring | None:
    """Find a scoring by id or prefix, by default the newest one with a judgement, else the newest.

    None is returned for the name `none`, or by default if the run has no scoring.

    Raises:
        BadSettings: no scoring, or more than one, has this id or prefix.
    """
    if name == NO_SCORING:
        return None
    scorings = list_scorings(folder)
    if name is None:
        judged = [
            scoring
            for scoring in scorings
            if next(read_judgements(folder, scoring), None) is not None
        ]
        return next(reversed(judged or scorings), None)
    exact = [scoring for scoring in scorings if scoring.id == name]
    fitting = exact or [scoring for scoring in scorings if scoring.id.startswith(name)]
    if len(fitting) > 1:
        ids = ", ".join(scoring.id for scoring in fitting)
        raise BadSettings(
            f"'{name}' begins {len(fitting)} scorings of '{folder}': {ids}. Give more of the id."
        )
    if not fitting:
        known = ", ".join(scoring.id for scoring in scorings)
        if known:
            there = f"it has {known}."
        else:
            there = f"it has none; make one with: emend judge run {folder} --judge MODEL"
        raise BadSettings(f"run '{folder}' has no scoring '{name}': {there}")
    return fitting[0]
