"""Rows of a file of facts: JSON lines, JSON, CSV, YAML or a data set of the Hugging Face hub, with their places."""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from emend.evals.benchmarks.fact_file.rows import FactRow
from emend.evals.benchmarks.files import read_text
from emend.memory.errors import BadData, MissingData, MissingExtra
from emend.memory.json_files import parse_json
from emend.memory.registry import nearest

HUB = "hf:"
LISTS = ("aliases", "paraphrases")
QUESTIONS = ("locality", "multihop")
SEPARATOR, ARROW = "|", "=>"
"""In a cell of a table, between the items of a list, and between a question and its answer."""
MAX_FAULTS = 5
"""Faults that one error lists."""


class PlacedRow(NamedTuple):
    """A row before it is checked, and its place in the file."""

    place: str
    fields: Any


def is_fact_file(name: str) -> bool:
    """True for a name that is a file of facts and no benchmark."""
    return name.startswith(HUB) or Path(name).suffix.lower() in READERS


def read_facts(name: str) -> list[FactRow]:
    """All rows of a file.

    Raises:
        MissingData: there is no such file.
        MissingExtra: a data set of the hub, and `datasets` is not installed.
        BadData: a row is malformed; names the first with line and field.
    """
    rows, faults = check_facts(name)
    if faults:
        omitted = f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
        remedy = f"All faults: emend data check {name}; all fields: emend data schema"
        raise BadData(f"{'; '.join(faults[:MAX_FAULTS])}{omitted}. {remedy}")
    if not rows:
        raise BadData(f"{name} has no rows: write a template with emend data new FILE.")
    return rows


def check_facts(name: str) -> tuple[list[FactRow], list[str]]:
    """The rows that can be read, and what is wrong with the others."""
    rows, faults = list[FactRow](), list[str]()
    for place, fields in placed_rows(name):
        try:
            if isinstance(fields, BadData):
                raise fields
            if not isinstance(fields, dict):
                raise BadData(f"no object with fields but {fields!r:.60}")
            rows.append(FactRow.model_validate({k: v for k, v in fields.items() if v not in (None, "")}))
        except ValidationError as error:
            faults += [f"{place}, {_fault(item)}" for item in error.errors()]
        except BadData as error:
            faults.append(f"{place}: {error}")
    return rows, faults


def placed_rows(name: str) -> Iterator[PlacedRow]:
    """The rows of a file with their places."""
    if name.startswith(HUB):
        yield from _hub_rows(name.removeprefix(HUB))
        return
    path = Path(name).expanduser()
    if not path.is_file():
        raise MissingData(f"there is no file '{name}': correct the path, or write a template with emend data new FILE.")
    yield from READERS[path.suffix.lower()](read_text(path), name)


def _fault(item: Any) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"field '{field}' is unknown: {nearest(field, list(FactRow.model_fields))}"
    message = item["msg"].removeprefix("Value error, ")
    return f"field '{field}': {message}, got {item['input']!r:.60}" if field else message


def _json_lines(text: str, name: str) -> Iterator[PlacedRow]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{name}, line {number}"
            yield PlacedRow(place, parse_json(line, place))


def _json(text: str, name: str) -> Iterator[PlacedRow]:
    items = parse_json(text, name)
    if not isinstance(items, list):
        raise BadData(
            f"{name} is no list of objects: write [{{...}}, {{...}}], or an object per line in a .jsonl file."
        )
    yield from (PlacedRow(f"{name}, item {number}", item) for number, item in enumerate(items, 1))


def _yaml(text: str, name: str) -> Iterator[PlacedRow]:
    import yaml

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.BaseLoader)):
            raise BadData(f"{name} has aliases (*NAME), which are not read: write the text out.")
        root = yaml.compose(text, yaml.BaseLoader)
        if root is not None and not isinstance(root, yaml.SequenceNode):
            raise BadData(f"{name}, line 1: no list: begin each row with a hyphen.")
        loader = yaml.BaseLoader("")  # which reads every scalar as the text that stands there, dates and yes too
        for node in root.value if root is not None else ():
            yield PlacedRow(f"{name}, line {node.start_mark.line + 1}", loader.construct_object(node, deep=True))
    except (yaml.YAMLError, RecursionError) as error:
        raise BadData(f"{name}: no YAML ({' '.join(str(error).split())[:200]}).") from error


def _csv(text: str, name: str) -> Iterator[PlacedRow]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            place = f"{name}, line {reader.line_num}"
            if None in row or None in row.values():
                cells_there = sum(value is not None for value in row.values()) + len(row.get(None) or [""]) - 1
                message = f"{cells_there} cells, and the first line names {len(reader.fieldnames or ())} columns"
                yield PlacedRow(place, BadData(message))
            else:
                cells = {field.strip(): cell for field, cell in row.items() if cell.strip()}
                yield PlacedRow(place, {field: _cell(field, cell) for field, cell in cells.items()})
    except csv.Error as error:
        raise BadData(f"{name}, line {reader.line_num}: no CSV ({error}).") from error


def _cell(field: str, text: str) -> Any:
    """The value of a cell: lists are separated by |, and a question from its answer by =>."""
    if field not in (*LISTS, *QUESTIONS):
        return text
    items = [part.strip() for part in text.split(SEPARATOR) if part.strip()]
    return items if field in LISTS else [_question(item) for item in items]


def _question(item: str) -> dict[str, str]:
    question, arrow, answer = (part.strip() for part in item.partition(ARROW))
    return {"question": question} | ({"answer": answer} if arrow else {})


def _hub_rows(name: str) -> Iterator[PlacedRow]:
    """Rows of a data set, `OWNER/NAME` or a folder, with `:SPLIT` behind it (`train` by default)."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtra("a data set of the hub needs a package: pip install 'emend[datasets]'.") from error
    path, _, split = name.partition(":")
    try:
        rows = load_dataset(path, split=split or "train")
    except Exception as error:
        raise MissingData(f"data set '{name}' cannot be loaded ({type(error).__name__}: {error}).") from error
    for number, row in enumerate(rows, 1):
        yield PlacedRow(f"{HUB}{name}, row {number}", _without_empty(row))


def _without_empty(value: Any) -> Any:
    """The value without the fields that are None, which Arrow adds to objects that lack them."""
    if isinstance(value, dict):
        return {name: _without_empty(item) for name, item in value.items() if item is not None}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


READERS: dict[str, Callable[[str, str], Iterator[PlacedRow]]] = {
    ".jsonl": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".yaml": _yaml,
    ".yml": _yaml,
}
