"""Lines of `baseline.jsonl`: answers of the unedited model, or the errors instead."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Self

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError

from emend.evals.log.line_parser import LineParser, struct_of
from emend.evals.log.lines import BASELINE, parser_of
from emend.evals.log.records import read_models, read_parsed
from emend.evals.log.table_parts import is_large
from emend.evals.log.table_sources import TableRows, TableSource
from emend.memory.edit import FrozenModel
from emend.memory.errors import ContextOverflow, ModelReplyError
from emend.memory.json_files import BEGINNING, JsonLine, LinePlace
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
    """Return the offsets of the unedited model's answers by key; for a large run from its table."""
    path = folder / BASELINE
    if not is_large(path):
        return {line.fields[0]: line.offset for line in _read_usage(path, BEGINNING)}
    # imported here, since only very large runs need DuckDB
    from emend.evals.log.run_table import RunTable

    with RunTable(folder, [BASELINE_SOURCE]) as table:
        return dict(table.rows("SELECT key, line_start FROM baseline ORDER BY line"))


def baseline_usage(folder: Path) -> Counter[str]:
    """Return the total usage of the unedited model's answers, by field of `Usage`; for a large run
    from its table.
    """
    path, names = folder / BASELINE, list(Usage.model_fields)
    if not is_large(path):
        used = Counter[str]()
        for line in _read_usage(path, BEGINNING):
            used.update({name: getattr(line.fields[1], name) for name in names})
        return used
    # imported here, since only very large runs need DuckDB
    from emend.evals.log.run_table import RunTable

    with RunTable(folder, [BASELINE_SOURCE]) as table:
        (sums,) = table.rows(
            f"SELECT {', '.join(f'coalesce(sum({name}), 0)' for name in names)} FROM baseline"
        )
        return Counter(dict(zip(names, map(int, sums), strict=True)))


def _read_usage(path: Path, start: LinePlace) -> Iterator[JsonLine]:
    """Yield key and usage of each answer from a position on; most lines are read without their
    steps.
    """
    full = parser_of(TypeAdapter(BaselineAnswer))
    short = LineParser(struct_of(_UsageLine), parser_of(TypeAdapter(_UsageLine)))

    def parse(line: bytes, where: str) -> tuple[str, Usage]:
        fields = short(line, where)
        return fields.key, fields.answer.usage if fields.answer else full(line, where).usage

    return read_parsed(path, parse, start=start)


def _usage_rows(folder: Path, start: LinePlace) -> Iterator[TableRows]:
    lines = _read_usage(folder / BASELINE, start)
    encoder, names = msgspec.json.Encoder(), Usage.model_fields
    while batch := list(islice(lines, BATCH)):
        rows = [
            {"key": key} | {name: getattr(usage, name) for name in names}
            for key, usage in (line.fields for line in batch)
        ]
        numbers, starts, ends, _ = zip(*batch, strict=True)
        yield TableRows([encoder.encode_lines(rows)], starts, ends, numbers)


# Number of answers per write.
BATCH = 2**12
_COLUMNS = {"key": "VARCHAR"} | dict.fromkeys(Usage.model_fields, "BIGINT")
BASELINE_SOURCE = TableSource("baseline", BASELINE, _COLUMNS, [*_COLUMNS], _usage_rows)


def read_baseline(folder: Path) -> Iterator[tuple[int, BaselineAnswer]]:
    """Yield offset and content of the unedited model's answers; unreadable ones are skipped with a
    warning.
    """
    return read_models(folder / BASELINE, BaselineAnswer)
