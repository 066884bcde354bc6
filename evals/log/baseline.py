"""Lines of `baseline.jsonl`: answers of the unedited model, or why there is none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, TypeAdapter, ValidationError

from emend.evals.log.lines import BASELINE, BaselineKey, parser_of
from emend.evals.log.records import read_models, read_parsed
from emend.memory.edit import FrozenModel
from emend.memory.errors import ContextOverflow, ModelReplyError
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


def is_baseline_answer(line: bytes) -> bool:
    """True if that is a line of `baseline.jsonl` as it was written."""
    try:
        BaselineAnswer.model_validate_json(line)
    except ValidationError:
        return False
    return True


class _AnswerUsage(BaseModel):
    usage: Usage


class _UsageLine(BaseModel):
    """Usage in a line of `baseline.jsonl`; None for that of an error, which its steps have."""

    answer: _AnswerUsage | None = None


def read_baseline_usage(folder: Path) -> Iterator[Usage]:
    """Yield the usage of each of the unedited model's answers; most is read without the rest of the line."""
    full, short = parser_of(TypeAdapter(BaselineAnswer)), parser_of(TypeAdapter(_UsageLine))

    def parse(line: bytes, where: str) -> Usage:
        answer = short(line, where).answer
        return answer.usage if answer else full(line, where).usage

    return (usage for _, usage in read_parsed(folder / BASELINE, parse))


def read_baseline_keys(folder: Path) -> Iterator[tuple[int, str]]:
    """Yield offset and key of the unedited model's answers, whose lines are not read any further."""
    for offset, line in read_parsed(folder / BASELINE, parser_of(TypeAdapter(BaselineKey))):
        yield offset, line["key"]


def read_baseline(folder: Path) -> Iterator[tuple[int, BaselineAnswer]]:
    """Yield offset and content of the unedited model's answers; one that cannot be read is left out, with a warning."""
    return read_models(folder / BASELINE, BaselineAnswer)
