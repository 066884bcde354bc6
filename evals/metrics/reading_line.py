"""One-line explanation of a score: the passage, the compared words, and the deciding rule."""

from typing import NamedTuple

from emend.evals.case import Record
from emend.evals.metrics.protocols import protocol_of
from emend.evals.metrics.scores import AnswerReading
from emend.evals.metrics.scoring.base import Output
from emend.evals.metrics.scoring.registry import own_outputs, scorer_of
from emend.memory.probe import Answer, Probe

# Characters of a passage that a line shows.
LONGEST = 160
VERDICTS = (("yes", "no"), ("true", "false"))
# Scorers that only need the fields of probe and answer that a record stores.
REPEATABLE = ("contains", "exact_match", "value_match", "choice", "reasoning", "abstention")


class ReadingLine(NamedTuple):
    """The explanation of one score of an answer."""

    score: str
    """The output, such as `contains`."""
    passage: str
    """The text that was read."""
    value: str
    """The words of it that were compared with the right answer; empty where none were found."""
    verdict: str
    """`right` or `wrong`, of an output that says something else `yes` or `no`, or `unscored`."""
    rule: str
    """Why, in words."""

    def text(self) -> str:
        """The line without its score: `"The capital is Paris" · Paris · right: as it is`."""
        if len(self.passage) <= LONGEST:
            passage = self.passage
        else:
            passage = f"{self.passage[:LONGEST]} ..."
        is_whole = self.value.casefold() == self.passage.casefold().rstrip(".")
        compared = f" · {self.value}" if self.value and not is_whole else ""
        return f'"{" ".join(passage.split())}"{compared} · {self.verdict}: {self.rule}'


def reading_lines(record: Record) -> list[ReadingLine]:
    """Return a line for each score of a record that is based on its text.

    Words and rule are those stored at scoring. For runs of earlier versions, which lack them,
    answers are read with the current rules, and the line says so if these give another score.
    """
    if record.answer is None:
        return []
    readings = _stored_readings(record) or _readings_of_today(record)
    lines = []
    for name in (*record.values, *record.unscored):
        output = own_outputs().get(name, Output(name))
        reading = readings.get(name)
        if name in record.values and reading is not None:
            lines.append(_scored_line(record, output, reading))
        elif name in record.unscored and output.reads:
            reason = record.unscored[name]
            lines.append(ReadingLine(name, _passage(record, output), "", "unscored", reason))
    return lines


def _stored_readings(record: Record) -> dict[str, AnswerReading]:
    return {
        name: AnswerReading(record.values.get(name) == 1.0, record.compared.get(name, ""), rule)
        for name, rule in record.rules.items()
    }


def _scored_line(record: Record, output: Output, reading: AnswerReading) -> ReadingLine:
    """Return the line of a score, with the stored verdict."""
    stored, rule = record.values[output.name], reading.rule
    is_right = stored == 1.0
    if reading.right != is_right:
        rule = f"{rule} (stored: {stored:g}, by other rules or options)"
    verdict = _verdict(output, reading.right)
    return ReadingLine(output.name, _passage(record, output), reading.value, verdict, rule)


def _verdict(output: Output, is_right: bool) -> str:
    says_right = output.is_right or bool(protocol_of(output.name))
    words = ("wrong", "right") if says_right else ("no", "yes")
    return words[is_right]


def _passage(record: Record, output: Output) -> str:
    """The text that an output reads."""
    if output.reads == "answer" or record.passage is None:
        return record.answer or ""
    return record.passage


def _readings_of_today(record: Record) -> dict[str, AnswerReading]:
    """Return the current readings of an answer by the possible scorers of its outputs; of two
    scorers of an output, the one that reproduces the stored score.
    """
    gold = next(iter(record.gold), "").lower()
    probe = Probe(
        kind=record.kind,
        prompt=record.prompt,
        gold=record.gold,
        rival=record.rival,
        choices=next((pair for pair in VERDICTS if gold in pair), ()),
    )
    answer = Answer(text=record.answer, passage=record.passage, log_probs=record.log_probs)
    readings: dict[str, AnswerReading] = {}
    for name in REPEATABLE:
        for output, reading in scorer_of(name)(probe, answer).readings.items():
            is_stored = reading.right == (record.values.get(output) == 1.0)
            if is_stored or output not in readings:
                readings[output] = reading
    return readings
