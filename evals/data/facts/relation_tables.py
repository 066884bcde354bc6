"""Relations with their templates, read from TOML files; those of Wikidata are included."""

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, problem_of, reason_of
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
    """A Wikidata property with templates, in which `{}` stands for the subject."""

    id: str = ""
    """Name of the relation's table in the file."""
    name: Annotated[str, Field(min_length=1)]
    cloze: Template
    """Beginning of a sentence that ends with the object."""
    question: Template
    replaced_by: bool = False
    """True if the qualifier P1366 names the next object of the same subject."""


class Relations(FrozenModel):
    """Relations in the order of their file."""

    relations: Annotated[tuple[TimedRelation, ...], Field(min_length=1)]

    @cached_property
    def by_id(self) -> dict[str, TimedRelation]:
        """The relations by property id."""
        return {relation.id: relation for relation in self.relations}

    @classmethod
    def read(cls, path: Path = SHIPPED) -> Self:
        """Read a TOML file of relations.

        Raises:
            BadData: see `read_tables`.
        """
        tables: dict[str, TimedRelation] = read_tables(
            path, _TABLES, "the relations", f"A relation is\n{EXAMPLE}"
        )
        return cls(
            relations=tuple(each.model_copy(update={"id": name}) for name, each in tables.items())
        )


_PROPERTY = Annotated[str, Field(pattern=r"^P[1-9][0-9]{0,9}$")]

_TABLES = Annotated[dict[_PROPERTY, TimedRelation], Field(min_length=1)]


def read_tables(path: Path, form: Any, what: str, remedy: str) -> Any:
    """Read the tables of a TOML file, validated by pydantic.

    Args:
        path: the file.
        form: type to validate the tables with.
        what: name of the tables for errors, such as `the relations`.
        remedy: last sentence of an error.

    Raises:
        BadData: the file cannot be read, is not TOML, or has an invalid table; the error names
            table and field.
    """
    try:
        return TypeAdapter(form).validate_python(tomllib.loads(read_input(path).decode("utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ", ".join(f"'{part}'" for part in first["loc"])
        raise BadData(f"{path}, {place or what}: {problem_of(first)}. {remedy}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadData(f"cannot read {what} '{path}': {reason_of(error)}. {remedy}") from error
