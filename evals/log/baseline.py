"""Lines of `baseline.jsonl`: answers of the unedited model, or the errors instead."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, TypeAdapter, ValidationError

from emend.evals.log.line_parser import LineParser, struct_of
from emend.evals.log.lines import BASELINE, parser_of
from emend.evals.log.records import read_models, read_parsed
from emend.memory.edit import FrozenModel
from emend.memory.errors import ContextOverflow, ModelReplyError
from emend.memory.json_files import JsonLine
from emend.memory.probe import Answer, Step, Usage
from emend.memory.redaction import hide_keys
from emend.memory.steps import keep_steps, usage_until


class BaselineAnswer(FrozenModel):
    """A line of `baseline.jsonl`: the answer to one probe, or the reason why the model's reply was
    unusable.
    """

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
        """Create the line from an answer or from the error raised instead."""
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
        error = (
            ContextOverflow(self.error)
            if overflow
            else ModelReplyError(self.error, self.reply or "", Usage())
        )
        keep_steps(error, self.steps)
        raise error

    @property
    def usage(self) -> Usage:
        """Tokens and calls, including those of an error."""
        try:
            return self.result().usage
        except (ModelReplyError, ContextOverflow) as error:
            return usage_until(error)


def is_baseline_answer(line: bytes, key: str) -> bool:
    """Return whether this is the unchanged line of `baseline.jsonl` with this key."""
    try:
        return BaselineAnswer.model_validate_json(line).key == key
    except ValidationError:
        return False


class _AnswerUsage(BaseModel):
    usage: Usage


class _UsageLine(BaseModel):
    """Key and usage in a line of `baseline.jsonl`; for an error, the usage is None and contained in
    its steps.
    """

    key: str
    answer: _AnswerUsage | None = None


def baseline_offsets(folder: Path) -> dict[str, int]:
    """Return the offsets of the unedited model's answers by key."""
    return {line.fields[0]: line.offset for line in _read_usage(folder)}


def baseline_usage(folder: Path) -> Counter[str]:
    """Return the total usage of the unedited model's answers, by field of `Usage`."""
    used = Counter[str]()
    for line in _read_usage(folder):
        used.update({name: getattr(line.fields[1], name) for name in Usage.model_fields})
    return used


def _read_usage(folder: Path) -> Iterator[JsonLine]:
    """Yield key and usage of each answer; most lines are read without their steps, 100,000 of them
    in 0.3 s.
    """
    full = parser_of(TypeAdapter(BaselineAnswer))
    short = LineParser(struct_of(_UsageLine), parser_of(TypeAdapter(_UsageLine)))

    def parse(line: bytes, where: str) -> tuple[str, Usage]:
        fields = short(line, where)
        return fields.key, fields.answer.usage if fields.answer else full(line, where).usage

    return read_parsed(folder / BASELINE, parse)


def read_baseline(folder: Path) -> Iterator[tuple[int, BaselineAnswer]]:
    """Yield offset and content of the unedited model's answers; unreadable ones are skipped with a
    warning.
    """
    return read_models(folder / BASELINE, BaselineAnswer)
