"""Types of events: who plays their roles, and what they certainly change."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from emend.evals.data.wikidata.relations import Template
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.files import read_input

SHIPPED = Path(__file__).with_name("event_types.toml")
UNKNOWN = "unknown"
"""The object that an event makes unknown."""
STEP = " / "


class EventRole(FrozenModel):
    """Those who can play a role: subjects or objects of a relation, what a path leads to, or names of something new."""

    subject_of: str = ""
    object_of: str = ""
    path: str = ""
    names: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    without: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(map(bool, (self.subject_of, self.object_of, self.path, self.names))) != 1:
            raise ValueError("exactly one of subject_of, object_of, path and names expected")
        return self


class EventImpact(FrozenModel):
    """A relation of a role that has a new object after the event: a role, a path from one, or `unknown`."""

    subject: str
    relation: Annotated[str, Field(min_length=1)]
    object: str
    question: Template


class EventType(FrozenModel):
    """A type of events."""

    split: Literal["train", "test"]
    template: str
    roles: dict[str, EventRole]
    impacts: Annotated[tuple[EventImpact, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        heads = [impact.subject for impact in self.impacts]
        heads += [impact.object.partition(STEP)[0] for impact in self.impacts if impact.object != UNKNOWN]
        heads += [role.path.partition(STEP)[0] for role in self.roles.values() if role.path]
        if missing := sorted({*heads} - self.roles.keys()):
            raise ValueError(f"there is no role '{missing[0]}'")
        if not self.named_roles:
            raise ValueError("the template has no role in braces, such as {A}")
        return self

    @property
    def named_roles(self) -> tuple[str, ...]:
        """The roles that the template names."""
        return tuple(role for role in self.roles if f"{{{role}}}" in self.template)


_TYPES = TypeAdapter(dict[str, EventType])


def read_event_types(path: Path = SHIPPED) -> dict[str, EventType]:
    """Read a TOML file of event types.

    Raises:
        BadData: the file cannot be read, is no TOML, or has a wrong type; names type and field.
    """
    try:
        return _TYPES.validate_python(tomllib.loads(read_input(path).decode("utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ", ".join(f"'{part}'" for part in first["loc"])
        raise BadData(f"{path}, {place}: {first['msg']}. Take {SHIPPED.name} of Emend as a pattern.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadData(f"cannot read the event types '{path}': {error}. Take {SHIPPED.name} as a pattern.") from error
