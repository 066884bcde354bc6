"""Judgements added to a finished run: each scoring is three files of its own in the run's folder `scorings`."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from emend.agents.judging.base import Asked, Item
from emend.evals.case import Record
from emend.evals.judges.panel import NOT_YET, Combined, Judgement, Panel, combine, judge_id
from emend.evals.log.manifest import replace
from emend.evals.log.records import BASELINE, CASES, read_lines, read_records
from emend.evals.runner.baseline import Kept
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, BadSettings
from emend.memory.paths import cache_folder

if TYPE_CHECKING:
    from emend.graphs.judges.graph import Judge

FOLDER = "scorings"
NO_SCORING = "none"
"""Names no scoring, where the newest is taken otherwise."""
LOCAL = "_local"
"""Ends the kind of a probe that is out of scope."""
_QUESTION = re.compile(r"(?:.*\n)?Question:\s*(.+?)(?:\n(?:Answer|Thoughts):\s*)?\Z", re.DOTALL)


class Scoring(FrozenModel):
    """What a scoring was made with; `scorings/ID.json`."""

    id: str
    panel: Panel
    kinds: tuple[str, ...]
    """The judges' names, as `emend list judges` has them."""
    prompts: dict[str, str]
    """By kind, the id of what is asked."""
    fingerprints: dict[str, Any]
    """By judge."""
    forced: bool = False
    """A judge is the model under test."""
    calibration: dict[str, Any] = {}
    """By kind, what was known of the judges' agreement with people when the scoring began."""
    versions: dict[str, str] = {}
    started: str

    @property
    def judge(self) -> str:
        """The judges' names in one line."""
        return ", ".join(self.panel.judges)

    def write(self, folder: Path) -> None:
        """Put it into the run's folder."""
        replace(folder / FOLDER / f"{self.id}.json", self.model_dump_json(indent=1) + "\n")

    def calibrated(self, kind: str) -> dict[str, Any] | None:
        """What is known now, else was known then, of the agreement with people; None where nobody has measured it.

        A calibration of another prompt says nothing about this one.
        """
        for told in (read_calibration(self.panel.judges, kind), self.calibration.get(kind)):
            if told and told.get("prompt_id") == self.prompts[kind]:
                return dict(told)
        return None


def scoring_id(panel: Panel, kinds: Sequence[str], prompts: Mapping[str, str], fingerprints: Mapping[str, Any]) -> str:
    """Made from all that decides the judgements, so that the same command goes on with the same scoring."""
    told = content_id(panel.model_dump(), sorted(kinds), dict(prompts), dict(fingerprints))
    first = re.sub(r"[^\w.]+", "-", panel.judges[0].partition("@")[0]).strip("-.")[:40]
    return f"{first}-{told[:8]}"


def read_calibration(judges: Sequence[str], kind: str) -> dict[str, Any] | None:
    """The calibration of these judges for that kind, as it is kept; None without one."""
    path = cache_folder("calibration") / judge_id(judges) / f"{kind}.json"
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def scorings_of(folder: Path) -> list[Scoring]:
    """The scorings of a run, the oldest first.

    Raises:
        BadData: one cannot be read.
    """
    found = []
    for path in sorted((folder / FOLDER).glob("*.json")):
        try:
            found.append(Scoring.model_validate_json(path.read_text(encoding="utf-8")))
        except ValidationError as error:
            raise BadData(
                f"{path} is no scoring: {error.errors()[0]['msg']}. Restore the file, or remove it."
            ) from error
    return sorted(found, key=lambda one: (one.started, one.id))


def find_scoring(folder: Path, name: str | None = None) -> Scoring | None:
    """The scoring of that id or beginning of it, else the newest that has a judgement; None if there is none at all.

    Raises:
        BadSettings: no such scoring, or several.
    """
    every = scorings_of(folder)
    if name is None:
        begun = [one for one in every if next(read_judgements(folder, one), None) is not None]
        return next(reversed(begun or every), None)
    found = [one for one in every if one.id == name] or [one for one in every if one.id.startswith(name)]
    if len(found) > 1:
        told = ", ".join(one.id for one in found)
        raise BadSettings(f"'{name}' begins {len(found)} scorings of '{folder}': {told}. Give more of the id.")
    if not found:
        known = ", ".join(one.id for one in every)
        there = f"it has {known}." if known else f"it has none; make one with: emend score {folder} --judge MODEL"
        raise BadSettings(f"run '{folder}' has no scoring '{name}': {there}")
    return found[0]


def read_judgements(folder: Path, scoring: Scoring) -> Iterator[Judgement]:
    """The lines of a scoring; a torn last line is left out.

    Raises:
        BadData: another line cannot be read.
    """
    path = folder / FOLDER / f"{scoring.id}.jsonl"
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield Judgement.model_validate_json(line)
            except ValidationError as error:
                raise BadData(
                    f"{path}, line {number}: {error.errors()[0]['msg']}. Restore the file, or score again elsewhere."
                ) from error


class Wanted(NamedTuple):
    """A record, and by kind of judge the item that it gives or why it gives none."""

    record: Record
    items: dict[str, Item | str]


def plan(folder: Path, judges: Mapping[str, "Judge"]) -> Iterator[Wanted]:
    """Every record of a run with what the judges can say of it; records that they are not meant for have no items."""
    cases = {(str(told["setting"]), str(told["case"])): told["edits"] for told in read_lines(folder, CASES)}
    before = _before(folder) if "agreement" in judges or set(judges) - set(JUDGES.builtin) else {}
    for record in read_records(folder):
        asked = _asked(record, cases.get((record.setting, record.case), ()), before.get((record.probe, record.repeat)))
        picked = {name: judge.role.pick(asked) for name, judge in judges.items()}
        yield Wanted(record, {name: item for name, item in picked.items() if item is not None})


def judged_records(folder: Path, scoring: Scoring) -> Iterator[Record]:
    """The records of a run with a scoring's numbers among their values, and its reasons among what is unscored.

    Raises:
        BadData: a damaged line.
    """
    judges = {name: JUDGES.load(name) for name in scoring.kinds}
    found: dict[tuple[str, str], list[Judgement]] = {}
    for told in read_judgements(folder, scoring):
        found.setdefault((told.kind, told.item), []).append(told.but_numbers())
    kept: dict[tuple[str, str], Combined] = {}
    for record, items in plan(folder, judges):
        for name, item in items.items():
            record = overlaid(record, _combined(scoring, judges[name], item, found, kept))
        yield record


def overlaid(record: Record, told: Combined) -> Record:
    """The record with these numbers and reasons in the place of its own of the same names."""
    unscored = {name: why for name, why in record.unscored.items() if name not in told.values}
    values = {name: value for name, value in record.values.items() if name not in told.unscored}
    return record.model_copy(update={"values": values | told.values, "unscored": unscored | told.unscored})


def _combined(
    scoring: Scoring,
    judge: "Judge",
    item: Item | str,
    found: Mapping[tuple[str, str], list[Judgement]],
    kept: dict[tuple[str, str], Combined],
) -> Combined:
    if isinstance(item, str):
        return Combined({}, dict.fromkeys(judge.role.outputs, item))
    key = (judge.name, item.id)
    if key not in kept:
        told = found.get(key, [])
        missing = Combined({}, dict.fromkeys(judge.role.outputs, NOT_YET))
        kept[key] = combine(scoring.panel, judge, told) if told else missing
    return kept[key]


def _asked(record: Record, edits: Sequence[Mapping[str, Any]], before: str | None) -> Asked:
    return Asked(
        kind=record.kind,
        question=question_of(record.prompt),
        local=record.kind.endswith(LOCAL),
        gold=record.gold,
        answer=record.answer,
        reply=record.reply,
        before=before,
        edits=tuple(str(edit["text"]) for edit in edits),
        forms=tuple(str(edit["form"]) for edit in edits),
        outputs=frozenset((*record.values, *record.unscored)),
    )


def question_of(prompt: str) -> str:
    """What a prompt asks, without the instruction before `Question:` and the `Answer:` that is to follow."""
    hit = _QUESTION.fullmatch(prompt.strip())
    return hit[1].strip() if hit else prompt


def _before(folder: Path) -> dict[tuple[str, int], str]:
    """What the unedited model said, by probe and repeat."""
    told = (Kept.model_validate(line) for line in read_lines(folder, BASELINE))
    return {
        (kept.probe, kept.repeat): kept.answer.text for kept in told if kept.answer and kept.answer.text is not None
    }
