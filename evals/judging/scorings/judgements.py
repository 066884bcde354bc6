"""Judgements of a scoring, and the calls that produced them."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from emend.evals.judging.judgement import Judgement, JudgementKey
from emend.evals.judging.scorings.earlier import (
    JudgedCall,
    earlier_calls,
    earlier_file,
    earlier_judgements,
)
from emend.evals.judging.scorings.line import read_judgement_lines, records_file
from emend.evals.judging.scorings.manifest import FOLDER, Scoring
from emend.evals.log.lines import (
    EVENTS,
    JUDGE_EVENTS,
    JUDGEMENTS,
    StepLine,
    parser_of,
    split_passes,
    steps_from_events,
)
from emend.evals.log.records import parse_sound, read_lines
from emend.evals.log.run_index import RunIndex

_STEP: Callable[[bytes, str], Any] = parser_of(TypeAdapter(StepLine))


def read_judgements(
    folder: Path,
    scoring: Scoring,
    items: Collection[str] | None = None,
    index: RunIndex | None = None,
) -> Iterator[Judgement]:
    """Yield the judgements of a scoring written by any version of Emend, without incomplete lines
    of a killed process.

    Args:
        folder: the run folder.
        scoring: one of its scorings.
        items: ids of the items whose judgements are yielded; by default all.
        index: index of the run, to read only the lines about `items`.

    Raises:
        BadData: a complete line cannot be read.
    """
    yield from earlier_judgements(folder, scoring, items, index)
    for line in read_judgement_lines(folder, scoring, items, index):
        yield line.judgement


def judged_calls(
    folder: Path, scoring: Scoring, items: Collection[str], index: RunIndex | None = None
) -> dict[JudgementKey, JudgedCall]:
    """Return the calls that judged any of these items, by key of the judgement; an unreadable step
    is skipped with a warning.

    Args:
        folder: the run folder.
        scoring: one of its scorings.
        items: ids of the items.
        index: index of the run, to read only the lines about `items`.
    """
    calls = earlier_calls(folder, scoring, items, index)
    lines = list(read_judgement_lines(folder, scoring, items, index))
    events = dict[str, list[dict[str, Any]]]()
    for event in _events(folder, scoring, {line.unit for line in lines}, index):
        events.setdefault(event["unit"], []).append(event)
    steps = {
        unit: split_passes(steps_from_events(unit_events))[-1]
        for unit, unit_events in events.items()
    }
    for line in lines:
        calls[line.judgement.key] = JudgedCall(line.of, steps.get(line.unit, []))
    return calls


def _events(
    folder: Path, scoring: Scoring, units: Collection[str], index: RunIndex | None
) -> Iterator[dict[str, Any]]:
    """Yield the steps of the calls with these keys."""
    name = f"{FOLDER}/{scoring.id}/{EVENTS}"
    if index:
        yield from parse_sound(index.lines(name, units), _STEP, folder / name)
    elif units:
        events = read_lines(scoring.folder(folder), EVENTS)
        yield from (event for event in events if event.get("unit") in units)


def scoring_files(scoring: Scoring) -> tuple[str, ...]:
    """Return the paths of a scoring's files of judgements and judges' steps, relative to the run's
    folder.
    """
    earlier = [earlier_file(scoring, ending) for ending in (JUDGEMENTS, JUDGE_EVENTS)]
    return (*earlier, records_file(scoring), f"{FOLDER}/{scoring.id}/{EVENTS}")
