"""What the judges' graphs did: the steps behind the judgements of a scoring, beside them in the run's folder."""

from operator import itemgetter
from pathlib import Path
from typing import Any

from emend.agents.judging.base import Item
from emend.evals.judges.panel import Judgement
from emend.evals.judges.store import (
    FOLDER,
    NO_SCORING,
    Scoring,
    find_scoring,
    plan,
    read_judgements,
    steps_file,
)
from emend.evals.log.events import passes_of, told_steps
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel

KEY = itemgetter("kind", "judge", "repeat", "swapped")


class JudgedItem(FrozenModel):
    """One thing that was judged of a record: what a judge said of it in one repeat and order, and the steps to that."""

    judgement: Judgement
    together: int = 1
    """How many items the call judged; tokens and steps are of all of them, and stand at the first."""
    steps: tuple[dict[str, Any], ...] = ()


def judged_steps(folder: Path, case: str | None, name: str | None = None) -> dict[tuple[str, str], list[JudgedItem]]:
    """By unit and probe of a case, what the judges of a scoring said; empty where the run was not judged.

    Args:
        folder: the run folder.
        case: the case's id; None for those of all cases.
        name: a scoring's id or the beginning of it; the newest by default; `none` for no scoring at all.

    Raises:
        BadSettings: no such scoring.
        BadData: a damaged line.
    """
    Manifest.read(folder)
    scoring = None if name == NO_SCORING else find_scoring(folder, name)
    if scoring is None:
        return {}
    judges = {kind: JUDGES.load(kind) for kind in scoring.kinds}
    asked = {
        (wanted.record.unit, wanted.record.probe): [item.id for item in wanted.items.values() if isinstance(item, Item)]
        for wanted in plan(folder, judges)
        if case in (None, wanted.record.case)
    }
    items = {item for ids in asked.values() for item in ids}
    found = _judged(folder, scoring, items)
    return {key: [one for item in ids for one in found.get(item, ())] for key, ids in asked.items() if ids}


def _judged(folder: Path, scoring: Scoring, items: set[str]) -> dict[str, list[JudgedItem]]:
    told = [one for one in read_judgements(folder, scoring) if one.item in items]
    steps = _steps(folder, scoring, items)
    found: dict[str, list[JudgedItem]] = {}
    for one in told:
        together, own = steps.get(one.key, (1, []))
        found.setdefault(one.item, []).append(JudgedItem(judgement=one, together=together, steps=tuple(own)))
    return found


def _steps(folder: Path, scoring: Scoring, items: set[str]) -> dict[tuple[Any, ...], tuple[int, list[dict[str, Any]]]]:
    """By key of a judgement, how many items its call judged, and the call's steps."""
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for event in read_lines(folder / FOLDER, steps_file(scoring)):
        if not items.isdisjoint(event["items"]):
            lines.setdefault((tuple(event["items"]), *KEY(event)), []).append(event)
    found = {}
    for (judged, *key), events in lines.items():
        last = passes_of(told_steps(events))[-1]  # a call that was made again after a crash is there twice
        for item in judged:
            found[(item, *key)] = (len(judged), last)
    return found
