"""Columns of DuckDB for the fields of a model."""

from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}
NAMES = {"case": "case_id"}
"""Columns whose field is a keyword of SQL."""


def json_columns(model: type[BaseModel]) -> dict[str, str]:
    """The types of a model's fields by their names in JSON."""
    return {name: column_type(field.annotation) for name, field in model.model_fields.items()}


def table_columns(model: type[BaseModel]) -> list[str]:
    """Expressions for columns: one for each field, and for each field of a model in it."""
    return [column for name, field in model.model_fields.items() for column in _columns(name, field)]


def _columns(name: str, field: FieldInfo) -> Iterator[str]:
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for inner, part in kind.model_fields.items():
            yield f"coalesce({quoted(name)}.{quoted(inner)}, {_default(part)}) AS {quoted(f'{name}_{inner}')}"
        return
    yield f"coalesce({quoted(name)}, {_default(field)}) AS {quoted(NAMES.get(name, name))}"


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if isinstance(default, bool | int | float):
        return str(default)
    if isinstance(default, str):
        return text(default)
    if isinstance(default, tuple):
        return f"[]::{column_type(field.annotation)}"
    if isinstance(default, dict):
        kind = column_type(field.annotation)
        return f"MAP {{}}::{kind}" if kind.startswith("MAP") else f"'{{}}'::{kind}"
    return f"NULL::{column_type(field.annotation)}"


def column_type(kind: Any) -> str:
    """The type of DuckDB for a field's type; JSON where a field may hold several."""
    origin, args = get_origin(kind), get_args(kind)
    if kind in TYPES:
        return TYPES[kind]
    if origin in (Union, UnionType):
        inner = [arg for arg in args if arg is not type(None)]
        return column_type(inner[0]) if len(inner) == 1 else "JSON"
    if origin is tuple:
        return f"{column_type(args[0])}[]"
    if origin is dict and args[1] in TYPES:
        return f"MAP(VARCHAR, {TYPES[args[1]]})"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        parts = (f"{quoted(name)} {column_type(field.annotation)}" for name, field in kind.model_fields.items())
        return f"STRUCT({', '.join(parts)})"
    return "JSON"


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
