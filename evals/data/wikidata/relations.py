"""Relations whose object changes with time: properties of Wikidata with templates, in `relations.toml`."""

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.files import read_input

SHIPPED = Path(__file__).with_name("relations.toml")
EXAMPLE = """[P6]
name = "head of government"
cloze = "The head of government of {} is"
question = "Who is the head of government of {}?"
replaced_by = true"""


def _with_one_slot(template: str) -> str:
    if template.count("{}") != 1 or template.replace("{}", "").strip("{} ") == "":
        raise ValueError("a text with {} once, for the subject, is expected")
    return template


Template = Annotated[str, AfterValidator(_with_one_slot)]


class TimedRelation(FrozenModel):
    """A property of Wikidata; `{}` in its templates stands for the subject."""

    id: Annotated[str, Field(pattern=r"^P[1-9][0-9]{0,9}$")]
    name: Annotated[str, Field(min_length=1)]
    cloze: Template
    """Text that the object continues."""
    question: Template
    replaced_by: bool = False
    """Whether the qualifier P1366 names the next object of the same subject."""


class Relations(FrozenModel):
    """Relations in the order of their file."""

    relations: Annotated[tuple[TimedRelation, ...], Field(min_length=1)]

    @cached_property
    def by_id(self) -> dict[str, TimedRelation]:
        """The relations by the ids of their properties."""
        return {relation.id: relation for relation in self.relations}

    @classmethod
    def read(cls, path: Path = SHIPPED) -> Self:
        """Read a TOML file of relations.

        Raises:
            BadData: the file cannot be read, is no TOML, or has a wrong relation; names relation and field.
        """
        try:
            tables = tomllib.loads(read_input(path).decode("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise BadData(f"cannot read the relations '{path}': {error}. A relation is\n{EXAMPLE}") from error
        try:
            rows = [_named_table(name, table) for name, table in tables.items()]
            return cls(relations=TypeAdapter(tuple[TimedRelation, ...]).validate_python(rows))
        except ValidationError as error:
            raise BadData(f"{path}, {_first_fault(error, list(tables))}. A relation is\n{EXAMPLE}") from error


def _named_table(name: str, table: object) -> object:
    return {**table, "id": name} if isinstance(table, dict) else table


def _first_fault(error: ValidationError, names: list[str]) -> str:
    first = error.errors(include_url=False)[0]
    index, field = (*first["loc"], "", "")[:2]
    place = f"[{names[index]}]" if isinstance(index, int) else "relations"
    return f"{place}{f', field {field!r}' if field else ''}: {first['msg']}"
