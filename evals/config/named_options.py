"""Configurations made from options of the Python API, with a hint for each unknown name."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from emend.memory.errors import BadSettings, problem_of
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

C = TypeVar("C", bound=BaseModel)
# Fields whose name on the command line differs.
COMMAND_LINE_NAMES = {
    "editor": "editors",
    "setting": "settings",
    "benchmark_option": "benchmark_options",
    "protocol": "protocols",
    "set": "overrides",
    "memory": "memory_server",
    "from_": "source",
}
# Maximum number of characters of a wrong value in an error.
SHOWN = 80


def from_options(model: type[C], options: Mapping[str, Any], *others: str) -> C:
    """Create a configuration.

    Args:
        model: class of the configuration.
        options: values of the fields by name.
        others: names of the calling function's other parameters.

    Raises:
        BadSettings: an option does not exist, is missing or has the wrong type.
    """
    fields = list(model.model_fields)
    for name in options:
        if name not in fields:
            raise BadSettings(f"there is no option '{name}': {_remedy(name, [*fields, *others])}")
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise BadSettings(f"the option '{name}' is missing: give it.") from error
        value = hide_keys(repr(first["input"]))[:SHOWN]
        message = problem_of(first)
        raise BadSettings(f"the option '{name}' is {value}: {message}.") from error


def _remedy(name: str, known: list[str]) -> str:
    meant = COMMAND_LINE_NAMES.get(name)
    if meant in known:
        return f"did you mean '{meant}'?"
    return nearest(name, known)
