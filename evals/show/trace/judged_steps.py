"""Steps of the judges' graphs behind the judgements of a scoring, which are beside them in the run's folder."""

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from emend.agents.judging.base import Item
from emend.evals.case import Record
from emend.evals.judging.panel import Judgement, JudgementKey
from emend.evals.judging.store import (
    Scoring,
    find_scoring,
    installed_judges,
    own_verdicts,
    plan,
    read_judgements,
    read_steps,
)
from emend.evals.log.events import split_passes, steps_from_events
from emend.evals.log.manifest import Manifest
from emend.evals.log.run_index import RunIndex
from emend.memory.edit import FrozenModel

KEY = itemgetter("kind", "judge", "repeat", "swapped")


class JudgedItem(FrozenModel):
    """One judgement of a record's item, and the steps that led to it."""

    judgement: Judgement
    together: int = 1
    """Number of items that the call judged; tokens and steps are of all of them, and the first one has them."""
    steps: tuple[dict[str, Any], ...] = ()


def judged_steps(
    folder: Path, case: str | Sequence[Record] | None, name: str | None = None, index: RunIndex | None = None
) -> dict[tuple[str, str], list[JudgedItem]]:
    """Collect the judgements of a scoring, by unit and probe of a case; empty where the run was not judged.

    Args:
        folder: the run folder.
        case: the case's id, or its records; None for all cases.
        name: a scoring's id or the beginning of it; the newest by default; `none` for no scoring at all.
        index: of the run, by which the lines of a case's records are read without the others.

    Raises:
        BadSettings: no such scoring.
        BadData: a damaged line.
    """
    Manifest.read(folder)
    scoring = find_scoring(folder, name)
    if scoring is None:
        return {}
    stored_verdicts = own_verdicts(folder, scoring)
    items_of = {
        (record.unit, record.probe): [
            *(item.id for item in items.values() if isinstance(item, Item)),
            *(verdict.item for verdict in stored_verdicts.get((record.unit, record.probe), ()) if verdict.item),
        ]
        for record, items in plan(folder, installed_judges(scoring), None if isinstance(case, str) else case, index)
        if not isinstance(case, str) or record.case == case
    }
    judged = _judged(folder, scoring, {item for ids in items_of.values() for item in ids}, index)
    return {
        key: [judgement for item in ids for judgement in judged.get(item, ())] for key, ids in items_of.items() if ids
    }


def _judged(folder: Path, scoring: Scoring, items: set[str], index: RunIndex | None) -> dict[str, list[JudgedItem]]:
    steps = _steps(folder, scoring, items, index)
    judged: dict[str, list[JudgedItem]] = {}
    for judgement in read_judgements(folder, scoring, items, index):
        together, own_steps = steps.get(judgement.key, (1, []))
        judged.setdefault(judgement.item, []).append(
            JudgedItem(judgement=judgement, together=together, steps=tuple(own_steps))
        )
    return judged


def _steps(
    folder: Path, scoring: Scoring, items: set[str], index: RunIndex | None
) -> dict[JudgementKey | tuple[Any, ...], tuple[int, list[dict[str, Any]]]]:
    """By key of a judgement, the number of items its call judged, and the call's steps."""
    calls: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for event in read_steps(folder, scoring, items, index):
        calls.setdefault((tuple(event["items"]), *KEY(event)), []).append(event)
    steps = {}
    for (judged, *key), events in calls.items():
        last = split_passes(steps_from_events(events))[-1]  # a call that was made again after a crash is there twice
        for item in judged:
            steps[(item, *key)] = (len(judged), last)
    return steps
