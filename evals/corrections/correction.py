"""Manual scores of answers in a separate file; the run's own files are not changed."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, FiniteFloat

from emend.evals.case import Record
from emend.evals.log.folder import locked
from emend.evals.log.records import AppendLog, cut_file, json_line, read_models
from emend.memory.edit import FrozenModel

CORRECTIONS = "corrections.jsonl"
# Time to wait for another command that adds corrections.
WAIT_SECONDS = 30


class CorrectionKey(NamedTuple):
    """The key of a correction: unit and probe of an answer, and the name of a score."""

    unit: str
    probe: str
    score: str


class ScoreCorrection(FrozenModel):
    """One line of `corrections.jsonl`: a person's score of an answer."""

    unit: str
    probe: str
    case: str
    setting: str
    editor: str
    kind: str
    score: str
    """The corrected output of a scorer, such as `contains`."""
    was: FiniteFloat | None
    """The score of the run; None where the answer is unscored."""
    value: FiniteFloat | None = Field(ge=0, le=1)
    """The score by hand; None takes an earlier correction back."""
    note: str = ""
    by: str = ""
    at: str = ""

    @property
    def key(self) -> CorrectionKey:
        """The correction's key; the later of two corrections with the same key applies."""
        return CorrectionKey(self.unit, self.probe, self.score)


def read_corrections(folder: Path) -> dict[CorrectionKey, ScoreCorrection]:
    """Read the applicable corrections of a run; none without a file.

    Raises:
        BadData: a line cannot be read; names file, line and field.
    """
    lines = read_models(folder / CORRECTIONS, ScoreCorrection, "Correct the line, or remove it.")
    latest = {correction.key: correction for _, correction in lines}
    return {key: line for key, line in latest.items() if line.value is not None}


def add_corrections(folder: Path, corrections: Sequence[ScoreCorrection]) -> None:
    """Append corrections to the file of a run, in place of a line that an earlier command left
    unfinished when it was killed.

    Raises:
        BadData: the file is not a regular file.
        RunRefused: it cannot be written.
    """
    # otherwise the line that another command is writing could be taken for an unfinished one
    with locked(folder / f"{CORRECTIONS}.lock", f"correcting '{folder}'", WAIT_SECONDS):
        cut_file(folder / CORRECTIONS)
        with AppendLog(folder, [CORRECTIONS], "Make room, then give the command again.") as log:
            log.append({CORRECTIONS: b"".join(map(json_line, corrections))})


def corrected_records(
    records: Iterable[Record], corrections: Iterable[ScoreCorrection]
) -> Iterator[Record]:
    """Yield the records with their scores replaced by the corrections."""
    by_answer: dict[tuple[str, str], list[ScoreCorrection]] = {}
    for correction in corrections:
        by_answer.setdefault((correction.unit, correction.probe), []).append(correction)
    for record in records:
        yield _corrected(record, by_answer.get((record.unit, record.probe), ()))


def _corrected(record: Record, corrections: Sequence[ScoreCorrection]) -> Record:
    values, unscored = dict(record.values), dict(record.unscored)
    for correction in corrections:
        if correction.value is not None:
            values[correction.score] = correction.value
            unscored.pop(correction.score, None)
    if not corrections:
        return record
    return record.model_copy(update={"values": values, "unscored": unscored})
