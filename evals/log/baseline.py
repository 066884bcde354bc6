"""Lines of `baseline.jsonl`: answers of the unedited model, or why there is none."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, TypeAdapter, ValidationError

from emend.evals.log.file_summary import keep_summary, read_summary
from emend.evals.log.lines import BASELINE, parser_of
from emend.evals.log.record_lines import LineParser, struct_of
from emend.evals.log.records import read_models, read_parsed
from emend.memory.edit import FrozenModel
from emend.memory.errors import ContextOverflow, ModelReplyError
from emend.memory.json_files import LinePlace
from emend.memory.probe import Answer, Step, Usage
from emend.memory.redaction import hide_keys
from emend.memory.steps import keep_steps, usage_until


class BaselineAnswer(FrozenModel):
    """A line of `baseline.jsonl`: the answer to one probe, or why the model's reply was unusable."""

    key: str
    probe: str
    repeat: int = 0
    answer: Answer | None = None
    error: str = ""
    kind: str = ""
    """Class of the error."""
    reply: str | None = None
    steps: tuple[Step, ...] = ()
    """Steps that led to the error."""
    seconds: float = 0.0

    @classmethod
    def of(cls, outcome: Answer | Exception, **fields: Any) -> Self:
        """Make the line from an answer or from the error that took its place."""
        if isinstance(outcome, Answer):
            return cls(answer=outcome, **fields)
        reply = outcome.reply if isinstance(outcome, ModelReplyError) else None
        error, steps = hide_keys(str(outcome)), getattr(outcome, "steps", ())
        return cls(error=error, kind=type(outcome).__name__, reply=reply, steps=steps, **fields)

    def result(self) -> Answer:
        """Return the answer.

        Raises:
            ModelReplyError: the reply was unusable.
            ContextOverflow: the prompt did not fit.
        """
        if self.answer is not None:
            return self.answer
        overflow = self.kind == ContextOverflow.__name__
        error = ContextOverflow(self.error) if overflow else ModelReplyError(self.error, self.reply or "", Usage())
        keep_steps(error, self.steps)
        raise error

    @property
    def usage(self) -> Usage:
        """Tokens and calls, of an error too."""
        try:
            return self.result().usage
        except (ModelReplyError, ContextOverflow) as error:
            return usage_until(error)


def is_baseline_answer(line: bytes, key: str) -> bool:
    """True if that is the line of `baseline.jsonl` with that key as it was written."""
    try:
        return BaselineAnswer.model_validate_json(line).key == key
    except ValidationError:
        return False


class _AnswerUsage(BaseModel):
    usage: Usage


class _UsageLine(BaseModel):
    """Key and usage in a line of `baseline.jsonl`; the usage is None in that of an error, whose steps have it."""

    key: str
    answer: _AnswerUsage | None = None


@dataclass
class BaselineSummary:
    """Offsets of the unedited model's answers by key, and what all of them used."""

    offsets: dict[str, int] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, offset: int, usage: Usage) -> None:
        """Add an answer."""
        self.offsets[key] = offset
        for name in Usage.model_fields:
            self.used[name] += getattr(usage, name)

    def packed(self) -> dict[str, bytes]:
        """Parts by name, for `unpacked`."""
        return {"answers": json.dumps([self.offsets, self.used]).encode()}

    @classmethod
    def unpacked(cls, parts: Mapping[str, bytes]) -> Self:
        """Make a summary of its parts; an empty one of none."""
        offsets, used = json.loads(parts.get("answers", b"[{}, {}]"))
        return cls(offsets, Counter(used))


def summarise_baseline(folder: Path) -> BaselineSummary:
    """Summarise the unedited model's answers; most lines are read without the steps of their answers."""
    full = parser_of(TypeAdapter(BaselineAnswer))
    short = LineParser(struct_of(_UsageLine), parser_of(TypeAdapter(_UsageLine)))

    def parse(line: bytes, where: str) -> tuple[str, Usage]:
        fields = short(line, where)
        return fields.key, fields.answer.usage if fields.answer else full(line, where).usage

    path = folder / BASELINE
    earlier = read_summary(path)
    summary, place, number = BaselineSummary.unpacked(earlier.parts), earlier.place, earlier.place.lines
    for line in read_parsed(path, parse, start=earlier.place):
        key, usage = line.fields
        summary.add(key, line.offset, usage)
        place, number = LinePlace(line.end, line.number), number + 1
    if number == place.lines:  # else a line cannot be read, which is to be said at every reading
        keep_summary(path, summary.packed, earlier.place, place)
    return summary


def read_baseline(folder: Path) -> Iterator[tuple[int, BaselineAnswer]]:
    """Yield offset and content of the unedited model's answers; one that cannot be read is left out, with a warning."""
    return read_models(folder / BASELINE, BaselineAnswer)
