"""Templates with fields of a row, `{country}` or `{aside.question}`, filled by plain
substitution.
"""

import re
from collections.abc import Mapping
from typing import Any

from emend.memory.errors import BadData
from emend.memory.registry import nearest

# A field, or a doubled brace, which stands for a single one; `{}` is kept, as prompts of edits
# contain it.
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
# Maximum length of a filled template in characters: an untrusted template may repeat a long field
# many times.
MAX_LENGTH = 1_000_000


def fill(template: str, fields: Mapping[str, Any]) -> str:
    """Return the template with its fields filled in.

    Raises:
        BadData: a field is absent or not a text or number, or the result is too long.
    """
    pieces, length, end = list[str](), 0, 0
    for match in _FIELD.finditer(template):
        pieces += [template[end : match.start()], _replacement(match, fields)]
        length += len(pieces[-1]) + len(pieces[-2])
        if length > MAX_LENGTH:
            raise BadData(
                f"'{template:.40}' is longer than {MAX_LENGTH:,} characters once it is filled in"
            )
        end = match.end()
    return "".join([*pieces, template[end:]])


def _replacement(match: re.Match[str], fields: Mapping[str, Any]) -> str:
    if match[1] is None:
        return match[0][0]
    value = value_of(match[1], fields)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadData(
            f"field '{match[1]:.40}' is {value!r:.40}, but a template accepts only texts and "
            "numbers"
        )
    return str(value)


def fill_all(template: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of a template; a template of a single list field, such as `{answers}`, gives
    all items.

    Raises:
        BadData: see `fill`; or an item of the list is not a text or number.
    """
    match = _FIELD.fullmatch(template)
    if match is not None and match[1]:
        value = value_of(match[1], fields)
    else:
        value = None
    if not isinstance(value, list):
        return (fill(template, fields),)
    return tuple(fill("{item}", {"item": item}) for item in value)


def value_of(path: str, fields: Mapping[str, Any]) -> Any:
    """Return the value of a field, or of a nested field given with dots.

    Raises:
        BadData: the field does not exist.
    """
    value: Any = fields
    for name in path.strip().split("."):
        if not isinstance(value, Mapping) or name not in value:
            if isinstance(value, Mapping):
                names = [str(key) for key in value]
            else:
                names = []
            if names:
                hint = nearest(name, names)
            else:
                hint = f"'{path}' is within {value!r:.40}."
            raise BadData(f"no field '{name:.40}': {hint.rstrip('.')}")
        value = value[name]
    return value


def has_value(path: str, fields: Mapping[str, Any]) -> bool:
    """Return True if a field of a row is not empty."""
    try:
        return value_of(path, fields) not in (None, "", [], {})
    except BadData:
        return False
