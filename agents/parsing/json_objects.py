"""JSON objects in a text, whole or broken."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

OBJECT_START = re.compile(r'\{\s*"')
"""The beginning of a JSON object; other braces are prose."""
_BRACE = re.compile(r"\{(?=\s*[\"}])")


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text in order; none where one of them is broken, since its rest is unknown."""
    objects = []
    for each in scan_objects(text, json.JSONDecoder(strict=False)):  # models break lines within a text
        if each.value is not None:
            objects.append(each.value)
        elif OBJECT_START.match(text, each.start):
            return []
    return objects


class ScannedObject(NamedTuple):
    """A JSON object in a text, None where it is broken, and where it starts and ends."""

    value: dict[str, Any] | None
    start: int
    end: int


def scan_objects(text: str, decoder: json.JSONDecoder) -> Iterator[ScannedObject]:
    """Yield each outermost JSON object of a text, whole or broken, up to one that nests too deeply."""
    end = 0
    while brace := _BRACE.search(text, end):
        value, end = None, brace.end()
        try:
            value, end = decoder.raw_decode(text, brace.start())
        except RecursionError:  # so would the braces within it
            yield ScannedObject(None, brace.start(), end)
            return
        except ValueError:
            pass
        yield ScannedObject(value, brace.start(), end)
