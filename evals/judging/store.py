"""Scorings: judgements added to a finished run, each in three files of its own in the run's folder."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic import AwareDatetime, FiniteFloat, TypeAdapter

from emend.agents.judging.base import Item, JudgeInput
from emend.evals.case import Record
from emend.evals.judging.panel import NOT_YET, CombinedVerdict, Judgement, Panel, combine, judge_id
from emend.evals.log.baseline import BaselineAnswer, read_baseline
from emend.evals.log.lines import BASELINE, CASES, JUDGE_EVENTS, JUDGE_STEPS, JUDGEMENTS, event_of, parser_of
from emend.evals.log.records import (
    AppendLog,
    cut_file,
    json_line,
    parse_sound,
    read_lines,
    read_model,
    read_models,
    read_records,
    replace,
)
from emend.evals.log.run_index import RESTORE, RunIndex, damage
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
"""Suffix of the kind of a probe that is out of scope."""
_BASELINE, _JUDGEMENT = parser_of(TypeAdapter(BaselineAnswer)), parser_of(TypeAdapter(Judgement))
_STEP: Callable[[bytes, str], dict[str, Any]] = parser_of(cast("TypeAdapter[Any]", JUDGE_STEPS))
_QUESTION = re.compile(r"(?:.*\n)?Question:\s*(.+?)(?:\n(?:Answer|Thoughts):\s*)?\Z", re.DOTALL)


class OwnJudge(FrozenModel):
    """A user's judge: the names of its numbers, and their scale."""

    outputs: tuple[str, ...]
    scale: str


class OwnVerdict(FrozenModel):
    """The numbers of a user's judge for one record; a line of `scorings/ID.verdicts.jsonl`."""

    unit: str
    probe: str
    kind: str
    item: str = ""
    """The item judged; empty where the record has none."""
    values: dict[str, FiniteFloat]
    unscored: dict[str, str]


class Scoring(FrozenModel):
    """Panel, judges and models of a scoring; `scorings/ID.json`."""

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
    """By kind, what was known of the judges' agreement with people when the scoring started."""
    versions: dict[str, str] = {}
    started: AwareDatetime
    own_judges: dict[str, "OwnJudge"] = {}
    """By kind, the judges that are neither built in nor installed: to read a run their code is not imported."""

    @property
    def judge(self) -> str:
        """The judges' names in one line."""
        return ", ".join(self.panel.judges)

    def write(self, folder: Path) -> None:
        """Write it into the run's folder."""
        replace(folder / FOLDER / f"{self.id}.json", self)

    def calibrated(self, kind: str) -> dict[str, Any] | None:
        """Return the known agreement with people, now or else at the start; None where nobody has measured it.

        A calibration of another prompt says nothing about this one.
        """
        for known in (read_calibration(self.panel.judges, kind), self.calibration.get(kind)):
            if known and known.get("prompt_id") == self.prompts[kind]:
                return dict(known)
        return None


def scoring_id(panel: Panel, kinds: Sequence[str], prompts: Mapping[str, str], fingerprints: Mapping[str, Any]) -> str:
    """Make the id from all that decides the judgements, so that the same command goes on with the same scoring."""
    digest = content_id(panel.model_dump(), sorted(kinds), dict(prompts), dict(fingerprints))
    first = re.sub(r"[^\w.]+", "-", panel.judges[0].partition("@")[0]).strip("-.")[:40]
    return f"{first}-{digest[:8]}"


def calibration_file(judges: Sequence[str], kind: str) -> Path:
    """Return the file of the calibration of these judges for that kind."""
    return cache_folder("calibration") / judge_id(judges) / f"{kind}.json"


def read_calibration(judges: Sequence[str], kind: str) -> dict[str, Any] | None:
    """Read the calibration of these judges for that kind; None without one."""
    try:
        content = json.loads(calibration_file(judges, kind).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def list_scorings(folder: Path) -> list[Scoring]:
    """List the scorings of a run, the oldest first.

    Raises:
        BadData: one cannot be read.
    """
    paths = sorted((folder / FOLDER).glob("*.json"))
    scorings = [read_model(path, Scoring, "Restore the file, or remove it.") for path in paths]
    for path, scoring in zip(paths, scorings, strict=True):
        if scoring.id != path.stem:  # which names the other files
            raise BadData(f"'{path}' says that it is scoring '{scoring.id}': restore the file, or remove it.")
    return sorted(scorings, key=lambda scoring: (scoring.started, scoring.id))


def start_after(scorings: Sequence[Scoring]) -> datetime:
    """The time now, UTC; if these say that they started later, as after a clock that went back, just after them.

    The newest scoring is the one that is shown, so that no two have one time.
    """
    return max([datetime.now(UTC), *(scoring.started + timedelta(microseconds=1) for scoring in scorings)])


def find_scoring(folder: Path, name: str | None = None) -> Scoring | None:
    """Find the scoring of that id or prefix, else the newest that has a judgement; None for `none` or without any.

    Raises:
        BadSettings: no such scoring, or several.
    """
    if name == NO_SCORING:
        return None
    scorings = list_scorings(folder)
    if name is None:
        judged = [scoring for scoring in scorings if next(read_judgements(folder, scoring), None) is not None]
        return next(reversed(judged or scorings), None)
    exact = [scoring for scoring in scorings if scoring.id == name]
    fitting = exact or [scoring for scoring in scorings if scoring.id.startswith(name)]
    if len(fitting) > 1:
        ids = ", ".join(scoring.id for scoring in fitting)
        raise BadSettings(f"'{name}' begins {len(fitting)} scorings of '{folder}': {ids}. Give more of the id.")
    if not fitting:
        known = ", ".join(scoring.id for scoring in scorings)
        there = f"it has {known}." if known else f"it has none; make one with: emend judge run {folder} --judge MODEL"
        raise BadSettings(f"run '{folder}' has no scoring '{name}': {there}")
    return fitting[0]


def read_judgements(
    folder: Path, scoring: Scoring, items: Collection[str] | None = None, index: RunIndex | None = None
) -> Iterator[Judgement]:
    """Yield the lines of a scoring; a torn last line is left out.

    Args:
        folder: the run folder.
        scoring: one of its scorings.
        items: yield the judgements of these alone.
        index: of the run, by which they are read without the others.

    Raises:
        BadData: another line cannot be read.
    """
    if items is not None and index:
        name, _ = scoring_files(scoring)
        for line in index.lines(name, items):
            with damage(folder, name):
                judgement = _JUDGEMENT(line.content, f"{folder / name}, line {line.number}")
            yield judgement
        return
    path = folder / FOLDER / f"{scoring.id}.jsonl"
    for _, judgement in read_models(path, Judgement, RESTORE):
        if items is None or judgement.item in items:
            yield judgement


def read_steps(
    folder: Path, scoring: Scoring, items: Collection[str], index: RunIndex | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the steps of the calls that judged any of some items; one that cannot be read is left out with a warning.

    Args:
        folder: the run folder.
        scoring: one of its scorings.
        items: ids.
        index: of the run, by which they are read without the others.
    """
    if index:
        _, name = scoring_files(scoring)
        yield from parse_sound(index.lines(name, items), _STEP, folder / name)
        return
    for event in read_lines(folder / FOLDER, steps_file(scoring)):
        if not set(items).isdisjoint(event["items"]):
            yield event


def scoring_files(scoring: Scoring) -> tuple[str, str]:
    """Return the files of the judgements and of the judges' steps, in the run's folder."""
    return f"{FOLDER}/{scoring.id}{JUDGEMENTS}", f"{FOLDER}/{steps_file(scoring)}"


def steps_file(scoring: Scoring) -> str:
    """Return the name of the file, beside the judgements, of the steps that led to them."""
    return f"{scoring.id}{JUDGE_EVENTS}"


class ScoringLog(AppendLog):
    """Appends judgements and the steps of their calls; what a killed process left half written is cut off first."""

    def __init__(self, folder: Path, scoring: Scoring) -> None:
        self._names = steps_file(scoring), f"{scoring.id}.jsonl"
        for name in self._names:
            cut_file(folder / FOLDER / name)
        remedy = "What was judged is kept; make room and give the same command again."
        super().__init__(folder / FOLDER, self._names, remedy)

    def add(self, judgements: Sequence[Judgement]) -> None:
        """Append the lines of one call.

        Raises:
            RunRefused: the disk is full or failing.
        """
        lines = b"".join(map(json_line, judgements))
        self.append(dict(zip(self._names, (b"".join(_step_lines(judgements)), lines), strict=True)))


def _step_lines(judgements: Sequence[Judgement]) -> Iterator[bytes]:
    """The steps of a call, which its first judgement has, with the ids of all items that it judged."""
    items = [judgement.item for judgement in judgements]
    for judgement in judgements:
        head = {"items": items, **judgement.model_dump(include={"kind", "judge", "repeat", "swapped"})}
        for step in judgement.steps:
            yield json_line(head | event_of(step))


def write_own_verdicts(folder: Path, scoring: Scoring, judges: "Mapping[str, Judge]") -> None:
    """Write the numbers of the user's judges, so that the run is read without their code."""
    lines = []
    for record, items, verdicts in _verdicts(folder, scoring, {kind: judges[kind] for kind in scoring.own_judges}):
        for kind, verdict in verdicts.items():
            item = items[kind]
            line = OwnVerdict(
                unit=record.unit,
                probe=record.probe,
                kind=kind,
                item=item.id if isinstance(item, Item) else "",
                **verdict._asdict(),
            )
            lines.append(json_line(line))
    if scoring.own_judges:
        replace(folder / FOLDER / f"{scoring.id}.verdicts.jsonl", b"".join(lines))


def own_verdicts(folder: Path, scoring: Scoring) -> dict[tuple[str, str], list[OwnVerdict]]:
    """Read the stored numbers of the user's judges, by unit and probe.

    Raises:
        BadData: a line cannot be read.
    """
    verdicts: dict[tuple[str, str], list[OwnVerdict]] = {}
    path = folder / FOLDER / f"{scoring.id}.verdicts.jsonl"
    for _, verdict in read_models(path, OwnVerdict, "Judge the run again.") if scoring.own_judges else ():
        verdicts.setdefault((verdict.unit, verdict.probe), []).append(verdict)
    return verdicts


class JudgeableRecord(NamedTuple):
    """A record, and by kind of judge the item that it gives or why it gives none."""

    record: Record
    items: dict[str, Item | str]


def plan(
    folder: Path,
    judges: "Mapping[str, Judge]",
    records: Sequence[Record] | None = None,
    index: RunIndex | None = None,
) -> Iterator[JudgeableRecord]:
    """Yield every record of a run, or these, with what judges can judge of it; one that is not for them has no item.

    Args:
        folder: the run folder.
        judges: by kind.
        records: these alone.
        index: of the run, by which the lines about these records are read without the others.
    """
    lines = _cases_of(records, index) if records is not None and index else read_lines(folder, CASES)
    cases = {(str(line["setting"]), str(line["case"])): line["edits"] for line in lines}
    compared = "agreement" in judges or set(judges) - set(JUDGES.builtin)
    before = _answers_before(folder, records, index) if compared else {}
    for record in read_records(folder) if records is None else records:
        edits = cases.get((record.setting, record.case), ())
        view = _asked(record, edits, before.get((record.probe, record.repeat)))
        picked = {name: judge.role.pick(view) for name, judge in judges.items()}
        yield JudgeableRecord(record, {name: item for name, item in picked.items() if item is not None})


def judged_records(folder: Path, scoring: Scoring | None) -> Iterator[Record]:
    """Yield the records of a run, with a scoring's numbers and reasons added if there is one.

    Raises:
        BadData: a damaged line.
    """
    if scoring is None:
        yield from read_records(folder)
        return
    stored_verdicts = own_verdicts(folder, scoring)
    for record, _, verdicts in _verdicts(folder, scoring, installed_judges(scoring)):
        for verdict in verdicts.values():
            record = add_verdict(record, verdict)
        for stored in stored_verdicts.get((record.unit, record.probe), ()):
            record = add_verdict(record, CombinedVerdict(stored.values, stored.unscored))
        yield record


def installed_judges(scoring: Scoring) -> "dict[str, Judge]":
    """Load the judges of a scoring by kind, without those that only a file names."""
    return {kind: JUDGES.load(kind) for kind in scoring.kinds if JUDGES.installed(kind)}


def _verdicts(
    folder: Path, scoring: Scoring, judges: "Mapping[str, Judge]"
) -> Iterator[tuple[Record, dict[str, Item | str], dict[str, CombinedVerdict]]]:
    """Each record with its items and with the judges' numbers, by kind."""
    judgements: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in read_judgements(folder, scoring):
        judgements.setdefault((judgement.kind, judgement.item), []).append(judgement.without_texts())
    combined: dict[tuple[str, str], CombinedVerdict] = {}
    for record, items in plan(folder, judges):
        verdicts = {}
        for name, item in items.items():
            outputs = judges[name].role.outputs
            if isinstance(item, str):
                verdicts[name] = CombinedVerdict({}, dict.fromkeys(outputs, item))
                continue
            key = (judges[name].name, item.id)
            if key not in combined:
                of_item = judgements.get(key, [])
                missing = CombinedVerdict({}, dict.fromkeys(outputs, NOT_YET))
                combined[key] = combine(scoring.panel, judges[name], of_item) if of_item else missing
            verdicts[name] = combined[key]
        yield record, items, verdicts


def add_verdict(record: Record, verdict: CombinedVerdict) -> Record:
    """Copy the record with these numbers and reasons in the place of its own of the same names."""
    unscored = {name: why for name, why in record.unscored.items() if name not in verdict.values}
    values = {name: value for name, value in record.values.items() if name not in verdict.unscored}
    return record.model_copy(update={"values": values | verdict.values, "unscored": unscored | verdict.unscored})


def _asked(record: Record, edits: Sequence[Mapping[str, Any]], before: str | None) -> JudgeInput:
    return JudgeInput(
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
    """Return what a prompt asks, without the instruction before `Question:` and the `Answer:` that is to follow."""
    hit = _QUESTION.fullmatch(prompt.strip())
    return hit[1].strip() if hit else prompt


def _cases_of(records: Sequence[Record], index: RunIndex) -> Iterator[dict[str, Any]]:
    for case in dict.fromkeys(record.case for record in records):
        yield from index.settings_of(case)


def _answers_before(
    folder: Path, records: Sequence[Record] | None, index: RunIndex | None
) -> dict[tuple[str, int], str]:
    """The unedited model's answers, by probe and repeat."""
    if records is not None and index:
        chosen = index.lines(BASELINE, [record.probe for record in records])
        lines: Iterable[BaselineAnswer] = parse_sound(chosen, _BASELINE, folder / BASELINE)
    else:
        lines = (line for _, line in read_baseline(folder))
    return {
        (line.probe, line.repeat): line.answer.text for line in lines if line.answer and line.answer.text is not None
    }
