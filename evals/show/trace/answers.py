"""Records and steps of a run that fit a filter, and answers that were right or wrong, or in which editors differ."""

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

from pydantic import Field

from emend.evals.case import Metric, Record
from emend.evals.log.lines import CASES, retries_of
from emend.evals.log.manifest import Manifest
from emend.evals.log.record_fields import read_fields
from emend.evals.log.records import read_lines
from emend.evals.metrics.scores import CONTAINS, PROTOCOLS
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


class RecordFilter(FrozenModel):
    """Selects records by probe, editor and kind; None fits all."""

    probe: str | None = Field(default=None, description="Show only this probe: the beginning of its id.")
    editor: str | None = Field(default=None, description="Show only this editor.")
    kind: str | None = Field(default=None, description="Show only probes of this kind, such as efficacy.")

    def fits(self, record: Record) -> bool:
        """Return whether the record fits everything that is given."""
        return (
            (self.probe is None or record.probe.startswith(self.probe))
            and self.editor in (None, record.editor)
            and self.kind in (None, record.kind)
        )

    def __str__(self) -> str:
        fields = self.model_dump(exclude_none=True)
        return ", ".join(f"{name} '{value}'" for name, value in fields.items())


class StepFilter(FrozenModel):
    """Selects steps; a step must fit everything that is given.

    `errors` selects steps that failed or had to call a provider again, and probes with an unscored value.
    """

    node: str | None = Field(default=None, description="Show only steps of this node of the editor's graph.")
    grep: str | None = Field(
        default=None, description="Show only steps whose prompts, replies or state contain this text, ignoring case."
    )
    errors: bool = Field(default=False, description="Show only what failed, was retried or is unscored.")

    @property
    def is_empty(self) -> bool:
        """True if every step fits."""
        return self.node is None and not self.grep and not self.errors

    def __str__(self) -> str:
        parts = [f"node '{self.node}'"] if self.node is not None else []
        parts += [f"text '{self.grep}'"] if self.grep else []
        return " and ".join([*parts, *(["--errors"] if self.errors else [])])

    def fits(self, step: dict[str, Any]) -> bool:
        """Return whether the step fits."""
        return (
            (self.node is None or step["node"] == self.node)
            and (not self.grep or self._has_text([text_of(step)]))
            and (not self.errors or bool(step["error"] or retries_of(step)))
        )

    def fits_failure(self, line: dict[str, Any]) -> bool:
        """Return whether a failed unit fits: by its message, or by one of the steps that led to it."""
        message = self.node is None and self._has_text([f"{line['error']}: {line['message']}"])
        return message or any(self.model_copy(update={"errors": False}).fits(step) for step in line["steps"])

    def matching(self, steps: Sequence[dict[str, Any]], record: "Record") -> list[dict[str, Any]] | None:
        """Return the fitting steps of a probe; None when nothing of the probe fits.

        If a probe is unscored, and all its steps went well, the last one shows what could not be scored.
        """
        fitting = [step for step in steps if self.fits(step)]
        if fitting or self.is_empty:
            return fitting
        if self.node is not None or not self._has_text(texts_of(record)):
            return None
        if self.errors:
            return list(steps[-1:]) if record.unscored else None
        return []

    def _has_text(self, texts: Sequence[str]) -> bool:
        return not self.grep or self.grep.casefold() in "\n".join(texts).casefold()

    def check_node(self, known: Iterable[str], where: str) -> None:
        """Check that the node exists.

        Raises:
            BadSettings: there is no such node; names the nearest.
        """
        check_name(f"{where} has no node", self.node, sorted(set(known)))


class AnswerFilter(FrozenModel):
    """Selects answers by how they were scored; all conditions that are given must hold."""

    wrong: bool = Field(default=False, description="List the wrong answers, with what would be right.")
    right: bool = Field(default=False, description="List the right answers.")
    score: tuple[str, ...] = Field(
        default=(), description="List answers with such a score, as em=0 or magnitude<0.5; repeatable."
    )
    where: str | None = Field(
        default=None,
        description="List probes by the answers of several editors, as 'rag right, mello wrong' (or unscored).",
    )

    @property
    def is_empty(self) -> bool:
        """True if nothing is selected by it."""
        return not (self.wrong or self.right or self.score or self.where)


ALL_RECORDS = RecordFilter()
ALL_STEPS = StepFilter()


def texts_of(record: "Record") -> list[str]:
    """List the texts of a record."""
    texts = (record.prompt, *record.gold, record.rival, record.answer, record.reply, *record.unscored.values())
    return [text for text in texts if text]


def text_of(step: dict[str, Any]) -> str:
    """Join all texts of a step: its update, prompts and replies of models, retries, and its error."""
    texts = list(_texts(step["update"]))
    for call in step["calls"]:
        texts += [*_texts(call["messages"]), *_texts(call["reply"]), call["error"] or ""]
    for retry in retries_of(step):  # as a trace shows them
        status = f" (HTTP {retry.status})" if retry.status else ""
        texts.append(f"attempt {retry.attempt} failed: {retry.error}{status}")
    return "\n".join([step["node"], *texts, step["error"] or ""])


def _texts(value: Any) -> Iterator[str]:
    """The strings within, so that a text is found as it reads and not as JSON writes it; numbers as JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)
    else:
        yield json.dumps(value)


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
    check_name("the run has no editor", records.editor, manifest.config.editors)
    conditions = [ScoreCondition.parse(text) for text in answers.score]
    probes = None if editors is None else _where(folder, editors, manifest.metrics)
    verdicts = [name for name in ("right", "wrong") if getattr(answers, name)] or VERDICTS
    numbers = {(line["setting"], line["case"]): line["number"] for line in read_lines(folder, CASES)}
    kinds, scores, rows = set[str](), set[str](), list[AnswerRow]()
    for record in read_fields(folder, (*SHOWN, *JUDGED), None):
        kinds.add(record.kind)
        scores.update(record.values, record.unscored)
        chosen = probes is None or (_asked(record) in probes and record.editor in (editors or {}))
        if chosen and records.fits(record) and all(condition.holds(record) for condition in conditions):
            row = _row(record, manifest.metrics, numbers.get((record.setting, record.case), 0))
            rows += [row] if row.verdict in verdicts else []
    check_name("the run has no probes of kind", records.kind, sorted(kinds))
    for condition in conditions:
        check_name("the run has no score", condition.name, sorted(scores))
    return rows if probes is None else sorted(rows, key=lambda row: (row.setting, row.number, row.probe))


def check_name(problem: str, name: str | None, known: Sequence[str]) -> None:
    """Check that a name that a user gave is known.

    Raises:
        BadSettings: it is not; says the problem, and names the nearest.
    """
    if name is not None and name not in known:
        raise BadSettings(f"{problem} '{name}': {nearest(name, list(known))}")


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
        check_name("the run has no editor", editor.strip(), known)
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
    if name in values:
        return "right" if values[name] >= 1 else "wrong", f"{name}={values[name]:g}"
    return "unscored", unscored.get(name, "no score")


def _row(record: Record, metrics: Sequence[Metric], number: int) -> AnswerRow:
    verdict, score = _verdict(record, metrics)
    fields = {name: getattr(record, name) for name in AnswerRow.model_fields if name in Record.model_fields}
    return AnswerRow(number=number, verdict=verdict, score=score, **fields)
