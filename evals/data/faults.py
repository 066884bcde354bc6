"""Finds every fault of a file's records, where the loaders stop at the first."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from emend.evals.data.shapes import Shape
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData

LONGEST = 80
_FIELD = re.compile(r"field '([^']+)': (.*?)(?:; value (.*))?\. (?:[A-Z].*)?$", re.S)


class Fault(FrozenModel):
    """One thing that is wrong; `record` is the place in the file, from 0, or an id."""

    file: str
    record: str = ""
    field: str = ""
    problem: str
    value: str = ""


def records(path: Path, name: str) -> tuple[list[object], Fault | None]:
    """The records of a JSON file, a list or `{"data": [...]}`; of a file that is cut off those before the cut."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
    except UnicodeDecodeError as error:
        return [], Fault(file=name, problem=f"not in UTF-8: {error}. Fetch the file again")
    except ValueError as error:
        whole = _whole(text)
        said = f"not JSON, or cut off: {error}; {len(whole)} whole records stand before it. Fetch the file again"
        return whole, Fault(file=name, record=str(len(whole)), problem=said)
    rows = content.get("data") if isinstance(content, dict) else content
    if isinstance(rows, list):
        return rows, None
    said = f"a list of records expected, but it holds {type(content).__name__}. Fetch the file again"
    return [], Fault(file=name, problem=said)


def _whole(text: str) -> list[object]:
    """The records before the place where the text stops to be JSON."""
    decoder, rows = json.JSONDecoder(), []
    place = text.find("[") + 1
    while place:
        try:
            row, place = decoder.raw_decode(text, _past(text, place, " \t\r\n,"))
        except ValueError:
            break
        rows.append(row)
    return rows


def _past(text: str, place: int, letters: str) -> int:
    while place < len(text) and text[place] in letters:
        place += 1
    return place


def faults_of_rows(raw: Sequence[object], name: str, shape: Shape, parsed: list[Any]) -> Iterator[Fault]:
    """Every fault of every record: fields, conversion to cases, and records that are there twice.

    The rows that have the right fields are put into `parsed`.
    """
    seen: dict[object, int] = {}
    for number, record in enumerate(raw):
        try:
            row = shape.row.model_validate(record)
            parsed.append(row)
            shape.convert(row)
        except ValidationError as error:
            yield from _field_faults(error, name, number)
            continue
        except BadData as error:
            yield _told(error, name, number)
        if shape.key is None:
            continue
        field, value = shape.key(row)
        if (first := seen.setdefault(value, number)) != number:
            said = f"the same as in record {first}; remove one of the two"
            yield Fault(file=name, record=str(number), field=field, problem=said, value=_short(value))


def _field_faults(error: ValidationError, name: str, number: int) -> Iterator[Fault]:
    errors = error.errors(include_url=False)
    deeper = {found["loc"][:depth] for found in errors for depth in range(len(found["loc"]))}
    for found in errors:
        if found["loc"] in deeper:
            continue  # a list is also said to be too short when what is in it is wrong
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"])
        yield Fault(
            file=name,
            record=str(number),
            field=field.lstrip("."),
            problem=found["msg"],
            value=_short(found["input"]),
        )


def _told(error: BadData, name: str, number: int) -> Fault:
    """A converter's own complaint, which names the field in its text."""
    if found := _FIELD.search(str(error)):
        field, problem, value = found.groups()
        return Fault(file=name, record=str(number), field=field, problem=problem, value=value or "")
    return Fault(file=name, record=str(number), problem=str(error))


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."
