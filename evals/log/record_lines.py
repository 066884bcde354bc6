"""Lines of `records.jsonl`, of which there are a million: sound ones are parsed in a fifth of the time.

`msgspec` parses them into objects with the fields of a record. It refuses whatever it is not sure of: a field that it
does not know, another type, a number that is none, half a surrogate pair. `pydantic` reads such a line, or refuses it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, Generic, TypeVar, get_args

import msgspec
from pydantic import BaseModel, TypeAdapter

from emend.evals.case import Record
from emend.evals.log.lines import (
    BASELINE,
    JUDGE_EVENTS,
    JUDGEMENTS,
    RECORDS,
    BaselineLine,
    JudgementPlace,
    JudgeStepPlace,
    RecordHead,
    RecordPlace,
    parser_of,
)

T = TypeVar("T")
NO_NUMBER = "the value is not a finite number"
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_RECORD = parser_of(TypeAdapter(Record))


class LineParser(Generic[T]):
    """Parser of lines by `msgspec`, and by another function where it refuses.

    Args:
        schema: a type that `msgspec` knows.
        parse: reads a line that it refuses.
    """

    def __init__(self, schema: Any, parse: Callable[[bytes, str], T]) -> None:
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(schema).decode
        self._parse = parse

    def __call__(self, line: bytes, where: str) -> T:
        """Parse a line.

        Raises:
            BadData: it is damaged; names `where` and the field.
        """
        try:
            return self._decode(line)
        except _REFUSED:
            return self._parse(line, where)

    def block(self, lines: Sequence[bytes], name: str, number: int) -> list[T]:
        """Parse lines that follow each other.

        Args:
            lines: these.
            name: of their file, for an error.
            number: of the first one.

        Raises:
            BadData: one is damaged; names file, line and field.
        """
        try:
            return list(map(self._decode, lines))
        except _REFUSED:
            return [self(line, f"{name}, line {at}") for at, line in enumerate(lines, number)]


def struct_of(model: type[BaseModel]) -> type[msgspec.Struct]:
    """A struct with the fields and defaults of a model, for a `LineParser`; it does not know aliases of fields."""
    needed, further = list[Any](), list[Any]()  # fields without defaults come first
    for name, field in model.model_fields.items():
        kind = _converted(field.annotation)
        if field.is_required():
            needed.append((name, kind))
        else:
            default = field.get_default()
            further.append((name, kind, kind(**dict(default)) if isinstance(default, BaseModel) else default))
    strict = model.model_config.get("extra") == "forbid"
    return msgspec.defstruct(model.__name__, [*needed, *further], frozen=True, gc=False, forbid_unknown_fields=strict)


def _converted(kind: Any) -> Any:
    """The type of a field, with a struct in the place of a model, or of one of two types."""
    if isinstance(kind, UnionType):
        return reduce(or_, map(_converted, get_args(kind)))
    return struct_of(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else kind


def parse_record(line: bytes, where: str) -> Record:
    """Parse a record; a value that is no number has a reason in its place.

    Raises:
        BadData: it is damaged; names `where` and the field.
    """
    record = _RECORD(line, where)
    if all(map(math.isfinite, record.values.values())):
        return record
    values = {name: value for name, value in record.values.items() if math.isfinite(value)}
    reasons = dict.fromkeys(record.values.keys() - values, NO_NUMBER)
    return record.model_copy(update={"values": values, "unscored": record.unscored | reasons})


parse_fields = LineParser(struct_of(Record), parse_record)
"""Parses a record as `parse_record` does, into an object that has its fields and no methods."""
parse_head = LineParser(RecordHead, parser_of(TypeAdapter(RecordHead)))
LINE_KEYS: Mapping[str, tuple[LineParser[Any], str]] = {
    RECORDS: (LineParser(RecordPlace, parser_of(TypeAdapter(RecordPlace))), "case"),
    BASELINE: (LineParser(BaselineLine, parser_of(TypeAdapter(BaselineLine))), "probe"),
    JUDGEMENTS: (LineParser(JudgementPlace, parser_of(TypeAdapter(JudgementPlace))), "item"),
    JUDGE_EVENTS: (LineParser(JudgeStepPlace, parser_of(TypeAdapter(JudgeStepPlace))), "items"),
}
"""By file, or ending of a scoring's file, what parses its lines to find them again, and the field that names them."""
