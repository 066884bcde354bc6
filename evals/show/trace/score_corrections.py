"""Selection of answers to correct, and creation of corrections."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from emend.evals.case import Metric, Record
from emend.evals.corrections.correction import ScoreCorrection
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.show.trace.case_trace import find_case
from emend.evals.show.trace.filters import RecordFilter
from emend.evals.show.trace.verdicts import check_name, deciding_scores
from emend.memory.errors import BadSettings
from emend.memory.escape import one_line

# Scores that can be given as words; `scored` reverts a correction.
WORDS: dict[str, float | None] = {"right": 1.0, "wrong": 0.0, "scored": None}


def parse_score(text: str, where: str) -> float | None:
    """Parse a score given by a person: right, wrong, a number from 0 to 1, or scored.

    Raises:
        BadSettings: the text is something else; the message begins with `where`.
    """
    word = text.strip().casefold()
    if word in WORDS:
        return WORDS[word]
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if 0 <= number <= 1:
        return number
    raise BadSettings(
        f"{where} '{one_line(text, 40)}': write right, wrong, a number from 0 to 1, or scored, "
        "which takes a correction back."
    )


def find_answer(folder: Path, case: str, chosen: RecordFilter) -> Record:
    """Return the only answer of a case that matches a filter.

    Raises:
        BadSettings: no or several answers match; the message says how to select one.
    """
    manifest = Manifest.read(folder)
    chosen = chosen.with_full_name(manifest.config.editors)
    check_name("the run has no editor", chosen.editor, manifest.config.editors)
    with RunIndex(folder) as index:
        records = list(index.records(find_case(index, case)["case"]))
    check_name(f"case {case} has no kind", chosen.kind, sorted({record.kind for record in records}))
    fitting = [record for record in records if chosen.fits(record)]
    if len(fitting) == 1:
        return fitting[0]
    raise BadSettings(f"{len(fitting)} answers of case {case} fit: {_advice(fitting or records)}")


def _advice(records: Sequence[Record]) -> str:
    """Return a hint on the option that distinguishes the answers."""
    for name in ("editor", "kind", "probe"):
        names = sorted({getattr(record, name) for record in records})
        if len(names) > 1:
            return f"name one by --{name}: {', '.join(names[:8])}."
    return "they were asked several times: correct them by a table, see --export."


def score_of(record: Record, metrics: Sequence[Metric], name: str | None = None) -> str:
    """Return the name of the score to correct: the given one, else the deciding score.

    Raises:
        BadSettings: the answer does not have the given score.
    """
    scores = [*record.values, *record.unscored]
    if name is not None:
        check_name("the answer has no score", name, scores)
        return name
    deciding = deciding_scores(metrics, record.kind)
    return next((each for each in deciding if each in scores), next(iter(scores), ""))


def correction_of(
    record: Record, score: str, value: float | None, note: str = "", by: str = ""
) -> ScoreCorrection:
    """Create a correction of a score of an answer, with the current time."""
    return ScoreCorrection(
        unit=record.unit,
        probe=record.probe,
        case=record.case,
        setting=record.setting,
        editor=record.editor,
        kind=record.kind,
        score=score,
        was=record.values.get(score),
        value=value,
        note=note.strip(),
        by=by.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def answers_to_correct(
    folder: Path, chosen: RecordFilter, wrong: bool = False
) -> Iterator[tuple[Record, str]]:
    """Yield the matching answers, each with the name of its deciding score.

    If `wrong` is True, only answers with a score below 1 are yielded.

    Raises:
        BadSettings: the editor is unknown.
        BadData: the folder does not contain a run, or a line is damaged.
    """
    manifest = Manifest.read(folder)
    chosen = chosen.with_full_name(manifest.config.editors)
    check_name("the run has no editor", chosen.editor, manifest.config.editors)
    for record in read_records(folder):
        score = score_of(record, manifest.metrics)
        is_wrong = record.values.get(score, 1.0) < 1
        if score and chosen.fits(record) and (is_wrong or not wrong):
            yield record, score
