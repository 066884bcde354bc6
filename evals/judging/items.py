"""Items for judges from the records of a run."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter

from emend.agents.judging.base import CATEGORY, Item, JudgeInput
from emend.evals.case import Record
from emend.evals.log.baseline import BaselineAnswer, read_baseline
from emend.evals.log.lines import BASELINE, CASES, parser_of
from emend.evals.log.records import parse_sound, read_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.graphs.registry import JUDGES

if TYPE_CHECKING:
    from emend.graphs.judges.graph import Judge

# Suffix of the kind of probes out of scope.
LOCAL = "_local"
_BASELINE = parser_of(TypeAdapter(BaselineAnswer))
_QUESTION = re.compile(r"(?:.*\n)?Question:\s*(.+?)(?:\n(?:Answer|Thoughts):\s*)?\Z", re.DOTALL)


class JudgeableRecord(NamedTuple):
    """Record with its item, or the reason why there is none, by kind of judge."""

    record: Record
    items: dict[str, Item | str]


def judged_items(
    folder: Path, judges: "Mapping[str, Judge]", editors: Collection[str] = ()
) -> dict[str, list[Item]]:
    """Return the distinct items of a run by kind; kinds without items are omitted.

    Args:
        folder: the run folder.
        judges: judges by kind.
        editors: editors whose answers are included; empty includes all. A kind that has only items
            of other editors is listed without items.
    """
    by_kind: dict[str, dict[str, Item]] = {}
    for record, items in plan(folder, judges):
        for name, item in items.items():
            if isinstance(item, Item):
                listed = by_kind.setdefault(name, {})
                if not editors or record.editor in editors:
                    listed.setdefault(item.id, item)
    return {name: list(items.values()) for name, items in by_kind.items()}


def plan(
    folder: Path,
    judges: "Mapping[str, Judge]",
    records: Sequence[Record] | None = None,
    index: RunIndex | None = None,
) -> Iterator[JudgeableRecord]:
    """Yield the records of a run with their items, which may be empty.

    Args:
        folder: the run folder.
        judges: judges by kind.
        records: records to use instead of all records of the run.
        index: index of the run, to read only the lines about `records`.
    """
    if records is not None and index:
        lines = _cases_of(records, index)
    else:
        lines = read_lines(folder, CASES)
    cases = {(str(line["setting"]), str(line["case"])): line["edits"] for line in lines}
    compared = "agreement" in judges or set(judges) - set(JUDGES.builtin)
    before = _answers_before(folder, records, index) if compared else {}
    for record in read_records(folder) if records is None else records:
        edits = cases.get((record.setting, record.case), ())
        view = _asked(record, edits, before.get((record.probe, record.repeat)))
        picked = {name: judge.role.pick(view) for name, judge in judges.items()}
        yield JudgeableRecord(
            record, {name: item for name, item in picked.items() if item is not None}
        )


def judge_inputs(folder: Path) -> Iterator[JudgeInput]:
    """Yield every record of a run as judges see it, without answers before the edits."""
    edits = {
        (str(line["setting"]), str(line["case"])): line["edits"]
        for line in read_lines(folder, CASES)
    }
    for record in read_records(folder):
        yield _asked(record, edits.get((record.setting, record.case), ()), None)


def _asked(record: Record, edits: Sequence[Mapping[str, Any]], before: str | None) -> JudgeInput:
    return JudgeInput(
        kind=str(record.tags.get(CATEGORY, record.kind)),
        question=question_of(record.prompt),
        local=record.kind.endswith(LOCAL),
        gold=record.gold,
        answer=record.answer,
        reply=record.reply,
        before=before,
        edits=tuple(str(edit["text"]) for edit in edits),
        forms=tuple(str(edit["form"]) for edit in edits),
        outputs=frozenset((*record.values, *record.unscored)),
        rubric=record.rubric,
        criterion=record.criterion,
    )


def question_of(prompt: str) -> str:
    """Return the question in a prompt, without the instruction before `Question:` and the final
    `Answer:`.
    """
    hit = _QUESTION.fullmatch(prompt.strip())
    if hit:
        return hit[1].strip()
    return prompt


def _cases_of(records: Sequence[Record], index: RunIndex) -> Iterator[dict[str, Any]]:
    for case in dict.fromkeys(record.case for record in records):
        yield from index.settings_of(case)


def _answers_before(
    folder: Path, records: Sequence[Record] | None, index: RunIndex | None
) -> dict[tuple[str, int], str]:
    """Return the unedited model's answers by probe and repeat."""
    if records is not None and index:
        chosen = index.lines(BASELINE, [record.probe for record in records])
        lines: Iterable[BaselineAnswer] = parse_sound(chosen, _BASELINE, folder / BASELINE)
    else:
        lines = (line for _, line in read_baseline(folder))
    return {
        (line.probe, line.repeat): line.answer.text
        for line in lines
        if line.answer and line.answer.text is not None
    }
