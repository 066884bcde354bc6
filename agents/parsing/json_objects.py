"""Search for JSON objects in a text, complete or broken."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

# The beginning of a JSON object; other braces belong to the prose.
OBJECT_START = re.compile(r'\{\s*"')
_BRACE = re.compile(r"\{(?=\s*[\"}])")


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text in order; none if one of them is broken, since its extent
    is unknown.
    """
    objects = []
    # models put line breaks into strings
    for each in scan_objects(text, json.JSONDecoder(strict=False)):
        if each.value is not None:
            objects.append(each.value)
        elif OBJECT_START.match(text, each.start):
            return []
    return objects


class ScannedObject(NamedTuple):
    """A JSON object in a text (None if it is broken), with its start and end."""

    value: dict[str, Any] | None
    start: int
    end: int


def scan_objects(text: str, decoder: json.JSONDecoder) -> Iterator[ScannedObject]:
    """Yield each outermost JSON object of a text, complete or broken, and stop at one that is
    nested too deeply.
    """
    end = 0
    while brace := _BRACE.search(text, end):
        value, end = None, brace.end()
        try:
            value, end = decoder.raw_decode(text, brace.start())
        except RecursionError:  # the braces within it would be nested too deeply as well
            yield ScannedObject(None, brace.start(), end)
            return
        except ValueError:
            pass
        yield ScannedObject(value, brace.start(), end)
