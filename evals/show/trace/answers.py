"""Answers of a run that were right or wrong, that have a score, or in which editors differ."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Self, cast

from emend.evals.case import Metric, Record
from emend.evals.log.lines import CASES
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines
from emend.evals.log.table.record_fields import read_fields
from emend.evals.metrics.protocols import CONTAINS, PROTOCOLS
from emend.evals.show.trace.filters import ALL_RECORDS, AnswerFilter, RecordFilter
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

Verdict = Literal["right", "wrong", "unscored"]
VERDICTS: list[str] = ["right", "wrong", "unscored"]
SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
SCORE = re.compile(r"\s*(?P<name>[^<>=]+?)\s*(?P<sign><=|>=|=|<|>)\s*(?P<number>-?\d+(\.\d+)?)\s*")
JUDGED = ("setting", "case", "probe", "repeat", "checkpoint", "editor", "kind", "values", "unscored")
"""Fields of a record by which an answer is right or wrong, and that say what was asked."""
SHOWN = ("prompt", "answer", "gold")
AskedProbe = tuple[str, str, str, int, int]
"""Setting, case, probe, repeat and checkpoint: what several editors were asked alike."""


class AnswerRow(FrozenModel):
    """An answer beside what would be right, and its score."""

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
    """Output that the verdict is about, `match=0.0`, or the reason why there is none."""


class ScoreCondition(NamedTuple):
    """A condition on an output of a scorer."""

    name: str
    sign: str
    number: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `em=0`, `magnitude<0.5` and the like.

        Raises:
            BadSettings: the text has another form.
        """
        match = SCORE.fullmatch(text)
        if match is None:
            raise BadSettings(f"--score '{text[:40]}': write a score, a sign and a number, such as em=0.")
        return cls(match["name"], match["sign"], float(match["number"]))

    def holds(self, record: Record) -> bool:
        """True if the record has the score, and it is such."""
        value = record.values.get(self.name)
        return value is not None and SIGNS[self.sign](value, self.number)


def list_answers(folder: Path, answers: AnswerFilter, records: RecordFilter = ALL_RECORDS) -> list[AnswerRow]:
    """The answers that fit both filters, in the order of the records; with `where`, probe by probe.

    An answer is right if the first metric of its kind of probe that is a share gives it 1, and wrong if it gives less.

    Raises:
        BadSettings: no such editor, kind or score, or a condition of another form.
        BadData: the folder holds no run, or a damaged line.
    """
    manifest = Manifest.read(folder)
    editors = parse_where(answers.where, manifest.config.editors)
    if records.editor is not None and records.editor not in manifest.config.editors:
        raise BadSettings(
            f"the run has no editor '{records.editor}': {nearest(records.editor, list(manifest.config.editors))}"
        )
    conditions = [ScoreCondition.parse(text) for text in answers.score]
    probes = None if editors is None else _where(folder, editors, manifest.metrics)
    verdicts = [name for name in ("right", "wrong") if getattr(answers, name)] or VERDICTS
    numbers = {(line["setting"], line["case"]): line["number"] for line in read_lines(folder, CASES)}
    known, rows = _Known(), list[AnswerRow]()
    for record in read_fields(folder, (*SHOWN, *JUDGED), None):
        known.add(record)
        chosen = probes is None or (_asked(record) in probes and record.editor in (editors or {}))
        if chosen and records.fits(record) and all(condition.holds(record) for condition in conditions):
            row = _row(record, manifest.metrics, numbers.get((record.setting, record.case), 0))
            rows += [row] if row.verdict in verdicts else []
    known.check(records, conditions)
    return rows if probes is None else sorted(rows, key=lambda row: (row.setting, row.number, row.probe))


class _Known:
    """Kinds of probes and names of scores in a run."""

    def __init__(self) -> None:
        self.kinds, self.scores = set[str](), set[str]()

    def add(self, record: Record) -> None:
        self.kinds.add(record.kind)
        self.scores.update(record.values, record.unscored)

    def check(self, records: RecordFilter, conditions: Sequence[ScoreCondition]) -> None:
        if records.kind is not None and records.kind not in self.kinds:
            raise BadSettings(
                f"the run has no probes of kind '{records.kind}': {nearest(records.kind, sorted(self.kinds))}"
            )
        for condition in conditions:
            if condition.name not in self.scores:
                raise BadSettings(
                    f"the run has no score '{condition.name}': {nearest(condition.name, sorted(self.scores))}"
                )


def parse_where(text: str | None, known: Sequence[str]) -> dict[str, Verdict] | None:
    """Parse `rag right, mello wrong`; None gives None.

    Raises:
        BadSettings: the text has another form, or names an editor that the run does not have.
    """
    if text is None:
        return None
    verdicts: dict[str, Verdict] = {}
    for part in text.split(","):
        editor, _, verdict = part.strip().rpartition(" ")
        if not editor or verdict not in VERDICTS:
            raise BadSettings(
                f"--where '{text[:60]}': write editors and right, wrong or unscored: 'rag right, ike wrong'."
            )
        if editor.strip() not in known:
            raise BadSettings(f"the run has no editor '{editor.strip()}': {nearest(editor.strip(), list(known))}")
        verdicts[editor.strip()] = cast("Verdict", verdict)
    return verdicts


def _where(folder: Path, editors: Mapping[str, Verdict], metrics: Sequence[Metric]) -> set[AskedProbe]:
    """The probes about which each of the editors has that verdict."""
    fitting: dict[AskedProbe, int] = {}
    for record in read_fields(folder, JUDGED, None, editor=editors):
        if editors.get(record.editor) == _verdict(record, metrics)[0]:
            fitting[_asked(record)] = fitting.get(_asked(record), 0) + 1
    return {probe for probe, count in fitting.items() if count == len(editors)}


def _asked(record: Record) -> AskedProbe:
    return record.setting, record.case, record.probe, record.repeat, record.checkpoint


def _verdict(record: Record, metrics: Sequence[Metric]) -> tuple[Verdict, str]:
    return verdict_and_score(deciding_scores(metrics, record.kind), record.values, record.unscored)


def deciding_scores(metrics: Sequence[Metric], kind: str) -> tuple[str, ...]:
    """Names of the scores by which an answer to a probe of that kind is right or wrong; its first one counts.

    That is `contains` where a run has it beside the papers' match, as it reads an answer as a person does.
    """
    names = [metric.value for metric in metrics if metric.share and kind in (metric.kinds or (kind,))]
    return tuple(sorted(names, key=lambda name: name != PROTOCOLS[CONTAINS].value))


def verdict_and_score(
    names: Sequence[str], values: Mapping[str, float], unscored: Mapping[str, str]
) -> tuple[Verdict, str]:
    """The verdict, and the score that it is about, by the names that `deciding_scores` gives."""
    name = next((name for name in names if name in values or name in unscored), "")
    score = f"{name}={values[name]:g}" if name in values else unscored.get(name, "no score")
    return verdict_of(names, values, unscored), score


def verdict_of(names: Sequence[str], values: Mapping[str, float], unscored: Mapping[str, str]) -> Verdict:
    """The verdict, by the names that `deciding_scores` gives."""
    for name in names:
        if name in values:
            return "right" if values[name] >= 1 else "wrong"
        if name in unscored:
            break
    return "unscored"


def _row(record: Record, metrics: Sequence[Metric], number: int) -> AnswerRow:
    verdict, score = _verdict(record, metrics)
    fields = {name: getattr(record, name) for name in AnswerRow.model_fields if name in Record.model_fields}
    return AnswerRow(number=number, verdict=verdict, score=score, **fields)
