"""Lines of judgements in the folder of a scoring."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat, TypeAdapter

from emend.evals.jobs.line import JobLine
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.scorings.manifest import FOLDER, JOB, Scoring
from emend.evals.log.lines import RECORDS, parser_of
from emend.evals.log.records import read_job_lines
from emend.evals.log.run_index import RESTORE, RunIndex, damage

SETTING = "items"
# Fields with the same name in a judgement and a line.
SHARED = (
    "kind",
    "repeat",
    "swapped",
    "values",
    "reason",
    "quote",
    "dispute",
    "reply",
    "usage",
    "seconds",
)


class JudgementLine(JobLine):
    """Judgement as a line, with the judge as `editor` and `model`, the item as `case` and `probe`,
    and the call as unit.

    Attributes:
        swapped: whether the parts of the item were shown in swapped order.
        reason: the judge's reason.
        quote: words of the judged reply that the judge quotes.
        dispute: reason why an acceptance is disputed, empty if it is not; None for a judge that
            does not compare replies.
        reply: the judge's reply.
    """

    job: str = JOB
    values: dict[str, FiniteFloat] = {}
    swapped: bool = False
    reason: str = ""
    quote: str = ""
    dispute: str | None = None
    reply: str = ""

    @property
    def judgement(self) -> Judgement:
        """Judgement of the line."""
        shared: dict[str, Any] = {name: getattr(self, name) for name in SHARED}
        problem = next(iter(self.unscored.values()), "")
        return Judgement.model_construct(
            item=self.case, judge=self.editor, problem=problem, **shared
        )


_LINE = parser_of(TypeAdapter(JudgementLine))


def call_labels(item: str, judge: str, repeat: int) -> dict[str, Any]:
    """Return the fields that identify the subject of a line or of a failed call.

    Args:
        item: id of the item; the first one of a call about several items.
        judge: name of the model that judges.
        repeat: number of the repeat, from 0.
    """
    names = {"case": item, "probe": item, "editor": judge, "model": judge}
    return names | {"setting": SETTING, "mode": "single", "repeat": repeat}


def judgement_line(unit: str, size: int, judgement: Judgement, output: str) -> JudgementLine:
    """Return the line of a judgement.

    Args:
        unit: key of the call.
        size: number of items of the call.
        judgement: the judgement.
        output: name of the judge's main output, which is unscored if the judgement has a problem.
    """
    shared = {name: getattr(judgement, name) for name in SHARED}
    unscored = {output: judgement.problem} if judgement.problem else {}
    labels = call_labels(judgement.item, judgement.judge, judgement.repeat)
    path = tuple(step.node for step in judgement.steps)
    return JudgementLine(**(labels | shared), unit=unit, of=size, unscored=unscored, path=path)


def records_file(scoring: Scoring) -> str:
    """Return the path of a scoring's file of lines, relative to the run's folder."""
    return f"{FOLDER}/{scoring.id}/{RECORDS}"


def read_judgement_lines(
    folder: Path,
    scoring: Scoring,
    items: Collection[str] | None = None,
    index: RunIndex | None = None,
) -> Iterator[JudgementLine]:
    """Yield the lines of a scoring's calls, without incomplete calls of a killed process.

    Args:
        folder: the run folder.
        scoring: one of its scorings.
        items: ids of the items whose lines are yielded; by default all.
        index: index of the run, to read only the lines about `items`.

    Raises:
        BadData: a line cannot be read.
    """
    name = records_file(scoring)
    if not (folder / name).exists():
        return
    if items is not None and index:
        for line in index.lines(name, items):
            with damage(folder, name):
                judged = _LINE(line.content, f"{folder / name}, line {line.number}")
            yield judged
        return
    for judged in read_job_lines(scoring.folder(folder), JudgementLine, RESTORE):
        if items is None or judged.case in items:
            yield judged
