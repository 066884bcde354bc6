"""All faults of a file's records, where the loaders stop at the first."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from emend.evals.data.benchmarks.files import whole_records
from emend.evals.data.shapes import Shape
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData
from emend.memory.files import open_file, without_mark
from emend.memory.json_files import parse_json

LONGEST = 80


class Fault(FrozenModel):
    """A fault of a file; `record` is its index in the file, from 0, or an id."""

    file: str
    record: str = ""
    field: str = ""
    problem: str
    value: str = ""


def records(path: Path, name: str) -> tuple[list[object], Fault | None]:
    """Read the records of a JSON file, a list or `{"data": [...]}`; of a file that is cut off, those before the cut."""
    with open_file(path, links=True) as file:
        raw = without_mark(file.read())
    try:
        content = parse_json(raw, "not whole")
    except BadData as error:
        text = raw.decode("utf-8", "replace")
        whole = [] if "\ufffd" in text else whole_records(text)[0]
        problem = f"{error} {len(whole)} whole records before it. Fetch the file again"
        return whole, Fault(file=name, record=str(len(whole)), problem=problem)
    rows = content.get("data") if isinstance(content, dict) else content
    if isinstance(rows, list):
        return rows, None
    problem = f"a list of records expected, but it holds {type(content).__name__}. Fetch the file again"
    return [], Fault(file=name, problem=problem)


def faults_of_rows(raw: Sequence[object], name: str, shape: Shape, parsed: list[Any]) -> Iterator[Fault]:
    """Yield every fault of every record: invalid fields, and records that occur twice.

    Valid rows are appended to `parsed`.
    """
    first_index: dict[object, int] = {}
    for index, record in enumerate(raw):
        try:
            row = shape.row.model_validate(record)
        except ValidationError as error:
            yield from _field_faults(error, name, index)
            continue
        parsed.append(row)
        if shape.key and (first := first_index.setdefault(value := shape.value(row), index)) != index:
            problem = f"the same as in record {first}; remove one of the two"
            yield Fault(file=name, record=str(index), field=shape.key, problem=problem, value=_short(value))


def _field_faults(error: ValidationError, name: str, index: int) -> Iterator[Fault]:
    details = error.errors(include_url=False)
    prefixes = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    for detail in details:
        if detail["loc"] in prefixes:
            continue  # pydantic also calls a list too short when an item of it is wrong
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"])
        value = _short(detail["input"])
        yield Fault(file=name, record=str(index), field=field.lstrip("."), problem=detail["msg"], value=value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
