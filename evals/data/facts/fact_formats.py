"""Formats of fact files: JSON lines, JSON, CSV, YAML, datasets of the Hugging Face hub, and
published files.
"""

import ast
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from emend.evals.data.benchmarks.rows import read_text
from emend.evals.data.facts.fact_rows import FactRow
from emend.evals.data.facts.published_facts import from_published, is_left_out, rows_of_object
from emend.memory.distribution import install_command
from emend.memory.errors import BadData, MissingData, MissingExtra, path_remedy, problem_of
from emend.memory.json_files import check_yaml, parse_json, unique_keys, value_lines
from emend.memory.registry import nearest

HUB = "hf:"
LISTS = ("aliases", "paraphrases", "abstention")
QUESTIONS = ("locality", "near_locality", "multihop", "reasoning", "sub_questions")
# Separators in a table cell between items of a list, and between a question and its answer.
SEPARATOR, ARROW = "|", "=>"
# Delimiters between cells; Excel writes semicolons if the locale has a decimal comma.
DELIMITERS = ",;\t|"
# Header of an index column written by pandas, or of an empty column written by Excel.
INDEX = re.compile(r"(Unnamed: [\d.]+)?")
# Extensions of tables that are not supported.
ELSEWHERE = (".xlsx", ".xls", ".ods", ".parquet", ".feather", ".txt")
# Extension of gzip files.
PACKED = ".gz"
# Maximum number of faults listed in one error, and of further rows with the same fault.
MAX_FAULTS = 5
# Maximum number of fields of a row that are not empty; there are less than a hundred.
MAX_FIELDS = 1_000


class PlacedRow(NamedTuple):
    """A row before validation, with its position in the file."""

    place: str
    fields: Any


def is_fact_file(name: str) -> bool:
    """Return True if a name is that of a fact file, and not of a benchmark."""
    return name.startswith(HUB) or ending_of(Path(name)) in (*READERS, *ELSEWHERE)


def ending_of(path: Path) -> str:
    """Return the lower-case extension of a file; for gzip files, that of the compressed file."""
    return Path(path.stem if path.suffix.lower() == PACKED else path).suffix.lower()


# Function that fills in fields of a row before validation.
Complete = Callable[[dict[str, Any]], dict[str, Any]]


def read_facts(name: str, complete: Complete | None = None) -> list[FactRow]:
    """Read all rows of a file, each with the fields filled in by `complete`.

    Raises:
        MissingData: the file does not exist.
        MissingExtra: `datasets` is not installed, which is needed for datasets of the hub.
        BadData: a row is malformed; the error names the first with line and field.
    """
    placed, faults = placed_facts(name, complete)
    rows = [row for _, row in placed]
    if faults:
        omitted = ""
        if len(faults) > MAX_FAULTS:
            omitted = f"; and {len(faults) - MAX_FAULTS} more"
        remedy = f"All faults: emend data check {name}; all fields: emend data schema"
        text = "; ".join(fault.removesuffix(".") for fault in faults[:MAX_FAULTS]) + omitted
        stop = "" if text.endswith("?") else "."
        raise BadData(f"{text}{stop} {remedy}")
    if not rows:
        raise BadData(f"{name} has no rows: write a template with emend data new FILE.")
    return rows


def check_facts(name: str) -> tuple[list[FactRow], list[str]]:
    """Return the valid rows, and the faults of the others."""
    rows, faults = placed_facts(name)
    return [row for _, row in rows], faults


def placed_facts(
    name: str, complete: Complete | None = None
) -> tuple[list[tuple[str, FactRow]], list[str]]:
    """Return the valid rows with their positions, and the faults of the others, each once."""
    rows, faults = list[tuple[str, FactRow]](), dict[str, list[str]]()
    for place, fields in placed_rows(name):
        try:
            if isinstance(fields, BadData):
                raise fields
            if not isinstance(fields, dict):
                raise BadData(
                    f"expected an object, got {fields!r:.60}: write question and answer as fields"
                )
            if len(fields) > MAX_FIELDS:
                raise BadData(
                    f"{len(fields):,} fields, more than {MAX_FIELDS:,}: keep only those that emend "
                    "data schema names"
                )
            if is_left_out(fields):
                continue
            _refuse_control(fields)
            published = from_published(_without_empty(fields))
            present = {
                field: value for field, value in published.items() if value not in (None, "")
            }
            row = FactRow.model_validate(complete(present) if complete else present)
            rows.append((place, row))
        except ValidationError as error:
            for item in error.errors():
                faults.setdefault(f", {_fault(item)}", []).append(place)
        except BadData as error:
            faults.setdefault(f": {error}", []).append(place)
    return rows, [f"{_places(places)}{fault}" for fault, places in faults.items()]


def _places(places: Sequence[str]) -> str:
    """Return the positions of a fault: the first, and those of further rows within the file.

    >>> _places(["x.csv, line 2", "x.csv, line 3", "x.csv, line 5"])
    'x.csv, line 2 (also line 3, line 5)'
    """
    first, *others = places
    if not others:
        return first
    texts = ", ".join(place.rpartition(", ")[2] for place in others[:MAX_FAULTS])
    if len(others) > MAX_FAULTS:
        texts += f" and {len(others) - MAX_FAULTS} more"
    return f"{first} (also {texts})"


def _refuse_control(value: Any) -> None:
    """Refuse NUL characters in any text: no name has one, and many programs end a text there.

    Raises:
        BadData: a text contains one.
    """
    if isinstance(value, str) and "\0" in value:
        raise BadData(f"{value!r:.60} contains a NUL character: leave it out")
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            _refuse_control(part)


def placed_rows(name: str) -> Iterator[PlacedRow]:
    """Yield the rows of a file with their positions."""
    if name.startswith(HUB):
        yield from _hub_rows(name.removeprefix(HUB))
        return
    check_file(name)
    path = Path(name).expanduser()
    text = read_text(path, "Save it as UTF-8 (in Excel: CSV UTF-8).")
    yield from READERS[ending_of(path)](text, name)


def check_file(name: str) -> None:
    """Check that a fact file exists and has a supported suffix; datasets of the hub are not
    checked.

    Raises:
        MissingData: the file does not exist.
        BadData: its suffix is unsupported.
    """
    path = Path(name).expanduser()
    if name.startswith(HUB):
        return
    if not path.is_file():
        raise MissingData(
            f"the file '{name}' does not exist: {path_remedy(path)} A template is written "
            "by emend data new FILE."
        )
    ending = ending_of(path)
    if ending in ELSEWHERE:
        raise BadData(
            f"'{name}' is not supported: save it as .csv (in Excel: CSV UTF-8), .tsv, .jsonl, "
            ".json or .yaml."
        )
    if ending not in READERS:
        raise BadData(
            f"'{name}' has an unsupported suffix: use one of {', '.join(READERS)}, optionally "
            "followed by .gz."
        )


def _fault(item: Any) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return _unknown_field(field)
    message = problem_of(item)
    if item["type"] == "tuple_type":
        message = "it is not a list"
        if isinstance(item["input"], str):
            message = f'should be a list, such as ["{item["input"]}"]'
    return f"field '{field}': {message}, got {item['input']!r:.60}" if field else message


# Cached, since all rows of a file may have the field.
@lru_cache(maxsize=MAX_FIELDS)
def _unknown_field(field: str) -> str:
    hint = nearest(field, list(FactRow.model_fields))
    if hint.endswith("?"):
        return f"field '{field}' is unknown: {hint}"
    return f"field '{field}' is unknown"  # the list of fields is in the remedy


def _json_lines(text: str, name: str) -> Iterator[PlacedRow]:
    return itertools.starmap(PlacedRow, value_lines(text, name, unique_keys))


def _json(text: str, name: str) -> Iterator[PlacedRow]:
    try:
        content = parse_json(text, name, pairs=unique_keys)
    except BadData as error:
        raise BadData(f"{error} Correct the file there.") from error
    items = rows_of_object(content)
    if not isinstance(items, list):
        raise BadData(
            f"{name} is not a list of objects: write [{{...}}, {{...}}], or an object per line in "
            "a .jsonl file."
        )
    yield from (PlacedRow(f"{name}, item {number}", item) for number, item in enumerate(items, 1))


def _yaml(text: str, name: str) -> Iterator[PlacedRow]:
    root, construct = compose_yaml(text, name)
    if root is not None and root.id != "sequence":
        raise BadData(f"{name}, line 1: expected a list: begin each row with a hyphen.")
    for node in root.value if root is not None else ():
        yield PlacedRow(f"{name}, line {node.start_mark.line + 1}", construct(node))


def compose_yaml(text: str, name: str) -> tuple[Any, Callable[[Any], Any]]:
    """Parse YAML into nodes with line numbers; return the root, and a function that converts a node
    to texts, lists and mappings.

    Raises:
        BadData: the text is not YAML, has duplicate keys, aliases, or too many levels.
    """
    import yaml

    try:
        loader = _text_loader()
        check_yaml(text, name, loader)
        root = yaml.compose(text, loader)
        if root is not None:
            _refuse_twice(root, name)
        reader = loader("")
    except (yaml.YAMLError, RecursionError) as error:
        raise BadData(f"{name}: not valid YAML ({' '.join(str(error).split())[:200]}).") from error

    def construct(node: Any) -> Any:
        try:
            return reader.construct_object(node, deep=True)
        except (yaml.YAMLError, RecursionError) as error:
            raise BadData(
                f"{name}: not valid YAML ({' '.join(str(error).split())[:200]})."
            ) from error

    return root, construct


def _refuse_twice(node: Any, name: str) -> None:
    """Refuse duplicate keys in a YAML mapping.

    Raises:
        BadData: a key is duplicate; the error names its line.
    """
    pairs = node.value if node.id == "mapping" else ()
    keys: set[str] = set()
    # a list or a mapping as a key is refused where the node is converted
    for key in (key for key, _ in pairs if key.id == "scalar"):
        if key.value in keys:
            line = key.start_mark.line + 1
            raise BadData(
                f"{name}, line {line}: the key '{key.value:.60}' occurs twice: remove or rename "
                "one."
            )
        keys.add(key.value)
    for part in node.value if node.id == "sequence" else [value for _, value in pairs]:
        _refuse_twice(part, name)


@cache
def _text_loader() -> Any:
    """Return a YAML loader that reads every scalar except null as its literal text, including dates
    and `yes`.
    """
    import yaml

    loader: Any = type("TextLoader", (yaml.BaseLoader,), {})
    null = "tag:yaml.org,2002:null"
    loader.add_implicit_resolver(null, re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
    loader.add_constructor(null, lambda loader, node: None)
    return loader


def _table(text: str, name: str) -> Iterator[PlacedRow]:
    """Yield the rows of a table with a header, without blank rows, blank columns and index
    columns.
    """
    hint, _, rest = text.partition("\n")
    named = re.fullmatch(r'"?sep=(.)"?\r?', hint)  # separator line written by Excel
    header = (rest if named else hint).partition("\n")[0]
    delimiter = named[1] if named else max(DELIMITERS, key=header.count)
    reader = csv.reader(
        io.StringIO(rest if named else text, newline=""), strict=True, delimiter=delimiter
    )
    before = int(named is not None)
    try:
        names = [cell.strip() for cell in next(reader, [])]
        _check_header(names, f"{name}, line {before + 1}")
        rows = [(reader.line_num + before, row) for row in reader if "".join(row).strip()]
    except csv.Error as error:
        raise BadData(
            f"{name}, line {reader.line_num + before}: not valid CSV ({error})."
        ) from error
    index = set[int]()
    for position, field in enumerate(names):
        if INDEX.fullmatch(field) and _is_index(row[position : position + 1] for _, row in rows):
            index.add(position)
    for number, row in rows:
        yield PlacedRow(f"{name}, line {number}", _fields(names, row, index))


def _check_header(names: list[str], where: str) -> None:
    twice = [field for field, count in Counter(filter(None, names)).items() if count > 1]
    if twice:
        raise BadData(f"{where}: the column '{twice[0]}' occurs twice: remove or rename one.")
    if len(names) == 1 and names[0] and names[0] not in FactRow.model_fields:
        raise BadData(
            f"{where}: one column '{names[0]:.60}': separate the names of fields by a "
            "comma, ; or a tab."
        )


def _is_index(cells: Iterable[list[str]]) -> bool:
    """Return True for the cells of an index column of pandas or Excel: only numbers or blanks."""
    return all(not cell or not cell[0] or cell[0].isdigit() for cell in cells)


def _fields(names: list[str], row: list[str], index: set[int]) -> dict[str, Any] | BadData:
    if len(row) < len(names) or any(cell.strip() for cell in row[len(names) :]):
        return BadData(f"{len(row)} cells, but the first line names {len(names)} columns")
    cells = {
        names[place]: cell for place, cell in enumerate(row[: len(names)]) if place not in index
    }
    try:
        return {field: _cell(field, cell) for field, cell in cells.items() if cell.strip()}
    except BadData as error:
        return error


def _cell(field: str, text: str) -> Any:
    """Return the value of a cell: lists are separated by | (aliases by ; too) or written as JSON,
    questions contain =>.
    """
    if field not in (*LISTS, *QUESTIONS):
        return text
    if text.strip().startswith("["):
        return _written_list(field, text.strip())
    if field == "aliases" and SEPARATOR not in text:
        separator = ";"
    else:
        separator = SEPARATOR
    items = [part.strip() for part in text.split(separator) if part.strip()]
    if field in LISTS:
        return items
    return [_question(item) for item in items]


def _written_list(field: str, text: str) -> Any:
    """Parse a list written as JSON, or as Python and pandas print one.

    Raises:
        BadData: the text is not a list.
    """
    try:
        return parse_json(text, f"field '{field}'")
    except BadData:
        if "'" not in text:
            raise
    try:
        # NumPy prints no commas, and Python would concatenate the strings
        if re.search(r"""['"]\s+['"]""", text):
            raise ValueError
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise BadData(
            f'field \'{field}\' begins like a list, but is not one: write ["A", "B"], or A | B'
        ) from error


def _question(item: str) -> dict[str, str]:
    question, arrow, answer = (part.strip() for part in item.partition(ARROW))
    return {"question": question} | ({"answer": answer} if arrow else {})


def _hub_rows(name: str) -> Iterator[PlacedRow]:
    """Yield the rows of a dataset, `OWNER/NAME` or a folder, optionally followed by `:SPLIT`
    (default `train`).
    """
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtra(
            f"a data set of the hub needs a package: {install_command('datasets')}."
        ) from error
    path, _, split = name.partition(":")
    try:
        rows = load_dataset(path, split=split or "train")
    except Exception as error:
        raise MissingData(
            f"data set '{name}' cannot be loaded ({type(error).__name__}: {error})."
        ) from error
    for number, row in enumerate(rows, 1):
        yield PlacedRow(f"{HUB}{name}, row {number}", row)


def _without_empty(value: Any) -> Any:
    """Remove fields that are None, which Arrow and pandas add to objects without them."""
    if isinstance(value, dict):
        return {name: _without_empty(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value


READERS: dict[str, Callable[[str, str], Iterator[PlacedRow]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _table,
    ".tsv": _table,
    ".yaml": _yaml,
    ".yml": _yaml,
}
