"""Line parsers with `msgspec`, falling back to `pydantic`."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, get_args

import msgspec
from pydantic import BaseModel

T = TypeVar("T")

_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class LineParser(Generic[T]):
    """A line parser with `msgspec` and a fallback function.

    Args:
        schema: a type that `msgspec` supports.
        parse: parses lines that `msgspec` rejects.
    """

    def __init__(self, schema: Any, parse: Callable[[bytes, str], T]) -> None:
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(schema).decode
        self._parse = parse

    def __call__(self, line: bytes, where: str) -> T:
        """Parse a line.

        Raises:
            BadData: the line is damaged; names `where` and the field.
        """
        try:
            return self._decode(line)
        except _REFUSED:
            return self._parse(line, where)

    def block(self, lines: Sequence[bytes], name: str, number: int) -> list[T]:
        """Parse consecutive lines.

        Args:
            lines: these.
            name: the file's name, for errors.
            number: the number of the first line.

        Raises:
            BadData: a line is damaged; names file, line and field.
        """
        try:
            return list(map(self._decode, lines))
        except _REFUSED:
            return [self(line, f"{name}, line {at}") for at, line in enumerate(lines, number)]


def struct_of(model: type[BaseModel]) -> type[msgspec.Struct]:
    """Return a struct with the fields and defaults of a model, for a `LineParser`; field aliases
    are not supported.
    """
    needed, further = list[Any](), list[Any]()  # fields without defaults must come first
    for name, field in model.model_fields.items():
        kind = _bounded(_converted(field.annotation), field.metadata)
        if field.is_required():
            needed.append((name, kind))
        else:
            default = field.get_default()
            further.append(
                (name, kind, kind(**dict(default)) if isinstance(default, BaseModel) else default)
            )
    strict = model.model_config.get("extra") == "forbid"
    return msgspec.defstruct(
        model.__name__, [*needed, *further], frozen=True, gc=False, forbid_unknown_fields=strict
    )


def _converted(kind: Any) -> Any:
    """Return a field's type with models replaced by structs."""
    if isinstance(kind, UnionType):
        return reduce(or_, map(_converted, get_args(kind)))
    return struct_of(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else kind


def _bounded(kind: Any, metadata: Sequence[Any]) -> Any:
    """Return the type with a number's bounds."""
    bounds = dict[str, Any]()
    for constraint in metadata:
        for name in ("ge", "le"):
            if hasattr(constraint, name):
                bounds[name] = getattr(constraint, name)
    return Annotated[kind, msgspec.Meta(**bounds)] if bounds else kind
