"""Lists of a run's answers, filtered by scores or by the verdicts of several editors."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from emend.evals.case import Metric, Record
from emend.evals.log.lines import CASES
from emend.evals.log.manifest import Manifest
from emend.evals.log.record_fields import read_fields
from emend.evals.log.records import read_lines
from emend.evals.show.trace.filters import ALL_RECORDS, AnswerFilter, RecordFilter
from emend.evals.show.trace.verdicts import (
    VERDICTS,
    Verdict,
    check_name,
    deciding_scores,
    parse_where,
    verdict_and_score,
)
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
SCORE = re.compile(r"\s*(?P<name>[^<>=]+?)\s*(?P<sign><=|>=|=|<|>)\s*(?P<number>-?\d+(\.\d+)?)\s*")
# Fields of a record that identify the probe and determine the verdict.
JUDGED = (
    "setting",
    "case",
    "probe",
    "repeat",
    "checkpoint",
    "editor",
    "kind",
    "values",
    "unscored",
)
SHOWN = ("prompt", "answer", "gold")
# Setting, case, probe, repeat and checkpoint, which are equal for all editors asked the same probe.
AskedProbe = tuple[str, str, str, int, int]


class AnswerRow(FrozenModel):
    """An answer with the correct answers, its verdict and its score."""

    case: str
    number: int
    """Number of the case in its setting, from 1."""
    setting: str
    editor: str
    kind: str
    probe: str
    prompt: str
    answer: str | None
    gold: tuple[str, ...]
    verdict: Verdict
    score: str
    """Deciding score, such as `match=0.0`, or the reason why there is none."""


class ScoreCondition(NamedTuple):
    """A condition on a score."""

    name: str
    sign: str
    number: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a condition such as `em=0` or `magnitude<0.5`.

        Raises:
            BadSettings: the text is malformed.
        """
        match = SCORE.fullmatch(text)
        if match is None:
            raise BadSettings(
                f"--score '{text[:40]}': write a score, a sign and a number, such as em=0."
            )
        return cls(match["name"], match["sign"], float(match["number"]))

    def holds(self, record: Record) -> bool:
        """Return True if the record has the score and it satisfies the condition."""
        value = record.values.get(self.name)
        return value is not None and SIGNS[self.sign](value, self.number)


def list_answers(
    folder: Path, answers: AnswerFilter, records: RecordFilter = ALL_RECORDS
) -> list[AnswerRow]:
    """Return the answers that match both filters, sorted by setting, case and probe.

    An answer is right if its deciding score (see `deciding_scores`) is 1, and wrong if it is less.

    Raises:
        BadSettings: an editor, kind or score is unknown, or a condition is malformed.
        BadData: the folder does not contain a run, or a line is damaged.
    """
    manifest = Manifest.read(folder)
    editors = parse_where(answers.where, manifest.config.editors)
    check_name("the run has no editor", records.editor, manifest.config.editors)
    conditions = [ScoreCondition.parse(text) for text in answers.score]
    if editors is None:
        probes = None
    else:
        probes = _where(folder, editors, manifest.metrics)
    verdicts = [name for name in ("right", "wrong") if getattr(answers, name)] or VERDICTS
    numbers = {
        (line["setting"], line["case"]): line["number"] for line in read_lines(folder, CASES)
    }
    kinds, scores, rows = set[str](), set[str](), list[AnswerRow]()
    for record in read_fields(folder, (*SHOWN, *JUDGED), None):
        kinds.add(record.kind)
        scores.update(record.values, record.unscored)
        chosen = probes is None or (_asked(record) in probes and record.editor in (editors or {}))
        if (
            chosen
            and records.fits(record)
            and all(condition.holds(record) for condition in conditions)
        ):
            row = _row(record, manifest.metrics, numbers.get((record.setting, record.case), 0))
            if row.verdict in verdicts:
                rows += [row]
    check_name("the run has no probes of kind", records.kind, sorted(kinds))
    for condition in conditions:
        check_name("the run has no score", condition.name, sorted(scores))
    return _by_case(rows)


def _by_case(rows: Sequence[AnswerRow]) -> list[AnswerRow]:
    """Sort answers by case, and within a case by its probes in the order in which they occur."""
    place: dict[tuple[str, str, str], int] = {}
    for row in rows:
        place.setdefault((row.setting, row.case, row.probe), len(place))
    return sorted(
        rows, key=lambda row: (row.setting, row.number, place[row.setting, row.case, row.probe])
    )


def _where(
    folder: Path, editors: Mapping[str, Verdict], metrics: Sequence[Metric]
) -> set[AskedProbe]:
    """Return the probes on which every editor has the given verdict."""
    fitting: dict[AskedProbe, int] = {}
    for record in read_fields(folder, JUDGED, None, editor=editors):
        if editors.get(record.editor) == _verdict_of(record, metrics)[0]:
            fitting[_asked(record)] = fitting.get(_asked(record), 0) + 1
    return {probe for probe, count in fitting.items() if count == len(editors)}


def _asked(record: Record) -> AskedProbe:
    return record.setting, record.case, record.probe, record.repeat, record.checkpoint


def _verdict_of(record: Record, metrics: Sequence[Metric]) -> tuple[Verdict, str]:
    return verdict_and_score(deciding_scores(metrics, record.kind), record.values, record.unscored)


def _row(record: Record, metrics: Sequence[Metric], number: int) -> AnswerRow:
    verdict, score = _verdict_of(record, metrics)
    fields = {
        name: getattr(record, name)
        for name in AnswerRow.model_fields
        if name in Record.model_fields
    }
    return AnswerRow(number=number, verdict=verdict, score=score, **fields)
