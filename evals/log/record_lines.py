"""Lines of `records.jsonl`, of which there are a million: sound ones are parsed in a fifth of the time.

`msgspec` parses them into objects with the fields of a record. It refuses whatever it is not sure of: a field that it
does not know, another type, a number that is none, half a surrogate pair. `pydantic` reads such a line, or refuses it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import msgspec
from pydantic import BaseModel, TypeAdapter

from emend.evals.case import Record
from emend.evals.log.lines import RecordHead, RecordPlace, parser_of

T = TypeVar("T")
NO_NUMBER = "the value is not a finite number"
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_RECORD = parser_of(TypeAdapter(Record))


def _fast(schema: Any, parse: Callable[[bytes, str], T]) -> Callable[[bytes, str], T]:
    """Parser of a line by `msgspec`, and by `parse` where it refuses."""
    decode = msgspec.json.Decoder(schema).decode

    def parse_line(line: bytes, where: str) -> T:
        try:
            return cast("T", decode(line))
        except _REFUSED:
            return parse(line, where)

    return parse_line


def _struct_of(model: type[BaseModel]) -> type[msgspec.Struct]:
    """A struct with the fields and defaults of a model, and no others; a field by an older name is no field of it."""
    needed, further = list[Any](), list[Any]()  # fields without defaults come first
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        default = None if field.is_required() else field.get_default()
        if isinstance(default, BaseModel):
            kind = _struct_of(kind)
            default = kind(**dict(default))
        if field.is_required():
            needed.append((name, kind))
        else:
            further.append((name, kind, default))
    return msgspec.defstruct(model.__name__, [*needed, *further], frozen=True, gc=False, forbid_unknown_fields=True)


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


_FIELDS = _struct_of(Record)
parse_fields: Callable[[bytes, str], Record] = _fast(_FIELDS, parse_record)
"""Parses a record as `parse_record` does, into an object that has its fields and no methods."""
parse_head = _fast(RecordHead, parser_of(TypeAdapter(RecordHead)))
parse_place = _fast(RecordPlace, parser_of(TypeAdapter(RecordPlace)))
_decode: Callable[[bytes], Record] = cast("Any", msgspec.json.Decoder(_FIELDS).decode)


def parse_block(lines: Sequence[bytes], name: str, number: int) -> list[Record]:
    """Parse lines as `parse_fields` does.

    Args:
        lines: that follow each other.
        name: of their file, for an error.
        number: of the first one.

    Raises:
        BadData: one is damaged; names file, line and field.
    """
    try:
        return list(map(_decode, lines))
    except _REFUSED:
        return [parse_fields(line, f"{name}, line {at}") for at, line in enumerate(lines, number)]
