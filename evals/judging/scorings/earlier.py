"""Scorings of earlier versions of Emend, which stored each scoring as separate files in one folder.

`scorings/ID.json` has the judges, `ID.jsonl` one judgement per line, `ID.events.jsonl` the judges'
steps and `ID.verdicts.jsonl` the numbers of the user's judges. Such a scoring is read together with
the folder in which it is continued.
"""

from collections.abc import Callable, Collection, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import TypeAdapter

from emend.evals.judging.judgement import Judgement, JudgementKey
from emend.evals.judging.scorings.manifest import FOLDER, Scoring, read_scoring
from emend.evals.log.lines import (
    JUDGE_EVENTS,
    JUDGE_STEPS,
    JUDGEMENTS,
    parser_of,
    split_passes,
    steps_from_events,
)
from emend.evals.log.records import parse_sound, read_lines, read_models
from emend.evals.log.run_index import RESTORE, RunIndex, damage

_JUDGEMENT = parser_of(TypeAdapter(Judgement))
_STEP: Callable[[bytes, str], dict[str, Any]] = parser_of(cast("TypeAdapter[Any]", JUDGE_STEPS))
_CALL = itemgetter("kind", "judge", "repeat", "swapped")


class JudgedCall(NamedTuple):
    """Number of items that a call judged together, and the steps of the judge's graph."""

    together: int
    steps: list[dict[str, Any]]


def earlier_scorings(folder: Path) -> list[Scoring]:
    """List the scorings of a run that earlier versions stored.

    Raises:
        BadData: a scoring cannot be read.
    """
    paths = sorted((folder / FOLDER).glob("*.json"))
    return [read_scoring(path, path.stem) for path in paths]


def earlier_file(scoring: Scoring, ending: str) -> str:
    """Return the path of a scoring's file, relative to the run's folder."""
    return f"{FOLDER}/{scoring.id}{ending}"


def earlier_judgements(
    folder: Path,
    scoring: Scoring,
    items: Collection[str] | None = None,
    index: RunIndex | None = None,
) -> Iterator[Judgement]:
    """Yield the judgements; see `read_judgements`.

    Raises:
        BadData: a line cannot be read, except for an incomplete last line.
    """
    name = earlier_file(scoring, JUDGEMENTS)
    if items is not None and index:
        for line in index.lines(name, items):
            with damage(folder, name):
                judgement = _JUDGEMENT(line.content, f"{folder / name}, line {line.number}")
            yield judgement
        return
    for _, judgement in read_models(folder / name, Judgement, RESTORE):
        if items is None or judgement.item in items:
            yield judgement


def earlier_calls(
    folder: Path, scoring: Scoring, items: Collection[str], index: RunIndex | None = None
) -> dict[JudgementKey, JudgedCall]:
    """Return the calls that judged these items, by key of the judgement; see `judged_calls`."""
    events: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for event in _events(folder, scoring, items, index):
        events.setdefault((tuple(event["items"]), *_CALL(event)), []).append(event)
    calls: dict[JudgementKey, JudgedCall] = {}
    for (judged, *key), call_events in events.items():
        # a call repeated after a crash occurs twice; its last pass counts
        call = JudgedCall(len(judged), split_passes(steps_from_events(call_events))[-1])
        calls |= dict.fromkeys(((item, *key) for item in judged), call)
    return calls


def _events(
    folder: Path, scoring: Scoring, items: Collection[str], index: RunIndex | None
) -> Iterator[dict[str, Any]]:
    """Yield the steps of calls that judged any of the items; an unreadable step is skipped with a
    warning.
    """
    name = earlier_file(scoring, JUDGE_EVENTS)
    if index:
        yield from parse_sound(index.lines(name, items), _STEP, folder / name)
        return
    for event in read_lines(folder, name):
        if not set(items).isdisjoint(event["items"]):
            yield event
