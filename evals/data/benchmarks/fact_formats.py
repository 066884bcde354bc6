"""Formats of a file of facts: JSON lines, JSON, CSV, YAML, a data set of the Hugging Face hub, and published files."""

import ast
import csv
import io
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from emend.evals.data.benchmarks.fact_rows import FactRow
from emend.evals.data.benchmarks.rows import read_text
from emend.memory.distribution import install_command
from emend.memory.errors import BadData, MissingData, MissingExtra
from emend.memory.json_files import parse_json
from emend.memory.registry import nearest

Fields = dict[str, Any]


def from_published(row: Fields) -> Fields:
    """The fields of a row that has one of the forms; another row as it is."""
    if {"question", "answer", "para_question", "sub_question", "sub_answer"} <= row.keys():
        return _from_unkebench(row)
    if {"src", "alt", "answers", "rephrase", "loc", "loc_ans"} <= row.keys():
        return _from_zsre(row)
    if {"prompt", "target", "subject", "rephrase", "locality"} <= row.keys():
        return _from_qaedit(row)
    return row


def is_left_out(row: Fields) -> bool:
    """True for a row of zsRE that has no new answer, which the published code skips too."""
    return {"src", "alt", "loc"} <= row.keys() and row["alt"] == ""


def _from_unkebench(row: Fields) -> Fields:
    """A text that answers a question, the question in other words, and questions about parts of the text."""
    parts = zip(row["sub_question"], row["sub_answer"], strict=True)
    return {
        "document": row["answer"],
        "question": row["question"],
        "answer": row["answer"],
        "paraphrases": [row["para_question"]],
        "sub_questions": [{"question": question, "answer": answer} for question, answer in parts],
    }


def _from_zsre(row: Fields) -> Fields:
    """A question whose answer changes, and a question that must be left alone."""
    fields = {
        "question": row["src"],
        "answer": row["alt"],
        "old_answer": row["answers"][0],
        "paraphrases": [row["rephrase"]],
        "locality": [{"question": _as_question(row["loc"].removeprefix("nq question: ")), "answer": row["loc_ans"]}],
    }
    return fields | _fact(row["src"], row.get("subject") or "", row["alt"])


def _from_qaedit(row: Fields) -> Fields:
    """A question with the answer that a model is to learn, and questions that must be left alone."""
    question = _as_question(row["prompt"])
    fields = {
        "question": question,
        "answer": row["target"],
        "paraphrases": [_as_question(row["rephrase"])],
        "locality": [{"question": _as_question(each["loc"]), "answer": each["loc_ans"]} for each in row["locality"]],
    }
    return fields | _fact(question, row["subject"], row["target"])


def _as_question(text: str) -> str:
    """The text as a question: many lost their question mark when they were published."""
    text = text.strip()
    return text if text.endswith("?") else text.rstrip(" .") + "?"


def _fact(question: str, subject: str, answer: str) -> Fields:
    """The question as the relation of its subject to the answer; as a document where it does not name it once."""
    if not subject or question.count(subject) != 1:
        return {"document": f"{question} {answer}"}
    relation = " ".join(question.replace(subject, " ").split())
    return {"subject": subject, "relation": relation, "object": answer, "prompt": question.replace(subject, "{}")}


HUB = "hf:"
LISTS = ("aliases", "paraphrases", "abstention")
QUESTIONS = ("locality", "near_locality", "multihop", "reasoning", "sub_questions")
SEPARATOR, ARROW = "|", "=>"
"""In a cell of a table, between the items of a list, and between a question and its answer."""
DELIMITERS = ",;\t|"
"""Characters between cells: a comma, Excel's semicolon where the decimal is a comma, and a tab."""
INDEX = re.compile(r"(Unnamed: [\d.]+)?")
"""Header of a column that pandas writes for its index, or Excel for nothing."""
ELSEWHERE = (".xlsx", ".xls", ".ods", ".parquet", ".feather", ".txt")
"""Endings of tables that are not read."""
MAX_FAULTS = 5
"""Faults that one error lists."""


class PlacedRow(NamedTuple):
    """A row before it is checked, and its place in the file."""

    place: str
    fields: Any


def is_fact_file(name: str) -> bool:
    """True for a name that is a file of facts and no benchmark."""
    return name.startswith(HUB) or Path(name).suffix.lower() in (*READERS, *ELSEWHERE)


Complete = Callable[[dict[str, Any]], dict[str, Any]]
"""Fills in fields of a row, before it is checked."""


def read_facts(name: str, complete: Complete | None = None) -> list[FactRow]:
    """All rows of a file, each with the fields that `complete` fills in.

    Raises:
        MissingData: there is no such file.
        MissingExtra: a data set of the hub, and `datasets` is not installed.
        BadData: a row is malformed; names the first with line and field.
    """
    placed, faults = placed_facts(name, complete)
    rows = [row for _, row in placed]
    if faults:
        omitted = f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
        remedy = f"All faults: emend data check {name}; all fields: emend data schema"
        raise BadData(f"{'; '.join(faults[:MAX_FAULTS]).removesuffix('.')}{omitted}. {remedy}")
    if not rows:
        raise BadData(f"{name} has no rows: write a template with emend data new FILE.")
    return rows


def check_facts(name: str) -> tuple[list[FactRow], list[str]]:
    """The rows that can be read, and what is wrong with the others."""
    rows, faults = placed_facts(name)
    return [row for _, row in rows], faults


def placed_facts(name: str, complete: Complete | None = None) -> tuple[list[tuple[str, FactRow]], list[str]]:
    """The rows that can be read with their places, and what is wrong with the others."""
    rows, faults = list[tuple[str, FactRow]](), list[str]()
    for place, fields in placed_rows(name):
        try:
            if isinstance(fields, BadData):
                raise fields
            if not isinstance(fields, dict):
                raise BadData(f"no object with fields but {fields!r:.60}")
            if is_left_out(fields):
                continue
            published = from_published(_without_empty(fields))
            present = {field: value for field, value in published.items() if value not in (None, "")}
            row = FactRow.model_validate(complete(present) if complete else present)
            rows.append((place, row))
        except ValidationError as error:
            faults += [f"{place}, {_fault(item)}" for item in error.errors()]
        except BadData as error:
            faults.append(f"{place}: {error}")
        except (TypeError, AttributeError, IndexError, ValueError) as error:  # a published form with other values
            faults.append(f"{place}: it has the fields of UnKEBench, zsRE or QAEdit with other values: {error}")
    return rows, faults


def placed_rows(name: str) -> Iterator[PlacedRow]:
    """The rows of a file with their places."""
    if name.startswith(HUB):
        yield from _hub_rows(name.removeprefix(HUB))
        return
    path = Path(name).expanduser()
    if not path.is_file():
        raise MissingData(f"there is no file '{name}': correct the path, or write a template with emend data new FILE.")
    if path.suffix.lower() in ELSEWHERE:
        raise BadData(f"'{name}' is not read: save it as .csv (in Excel: CSV UTF-8), .tsv, .jsonl, .json or .yaml.")
    yield from READERS[path.suffix.lower()](read_text(path, "Save it as UTF-8 (in Excel: CSV UTF-8)."), name)


def _fault(item: Any) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"field '{field}' is unknown: {nearest(field, list(FactRow.model_fields))}"
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "tuple_type":
        message = f'should be a list, such as ["{item["input"]}"]' if isinstance(item["input"], str) else "no list"
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
        loader = _text_loader()
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, loader)):
            raise BadData(f"{name} has aliases (*NAME), which are not read: write the text out.")
        root = yaml.compose(text, loader)
        if root is not None and not isinstance(root, yaml.SequenceNode):
            raise BadData(f"{name}, line 1: no list: begin each row with a hyphen.")
        reader = loader("")
        for node in root.value if root is not None else ():
            yield PlacedRow(f"{name}, line {node.start_mark.line + 1}", reader.construct_object(node, deep=True))
    except (yaml.YAMLError, RecursionError) as error:
        raise BadData(f"{name}: no YAML ({' '.join(str(error).split())[:200]}).") from error


@cache
def _text_loader() -> Any:
    """A loader of YAML that reads every scalar but null as the text that stands there, dates and yes too."""
    import yaml

    loader: Any = type("TextLoader", (yaml.BaseLoader,), {})
    null = "tag:yaml.org,2002:null"
    loader.add_implicit_resolver(null, re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
    loader.add_constructor(null, lambda loader, node: None)
    return loader


def _table(text: str, name: str) -> Iterator[PlacedRow]:
    """Rows of a table with a header; rows and columns without any text are left out, and so is an index."""
    hint, _, rest = text.partition("\n")
    named = re.fullmatch(r'"?sep=(.)"?\r?', hint)  # Excel's own first line
    header = (rest if named else hint).partition("\n")[0]
    delimiter = named[1] if named else max(DELIMITERS, key=header.count)
    reader = csv.reader(io.StringIO(rest if named else text, newline=""), strict=True, delimiter=delimiter)
    before = int(named is not None)
    try:
        names = [cell.strip() for cell in next(reader, [])]
        _check_header(names, f"{name}, line {before + 1}")
        rows = [(reader.line_num + before, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise BadData(f"{name}, line {reader.line_num + before}: no CSV ({error}).") from error
    index = [
        place for place, field in enumerate(names) if _is_index(field, [row[place : place + 1] for _, row in rows])
    ]
    for number, row in rows:
        yield PlacedRow(f"{name}, line {number}", _fields(names, row, index))


def _check_header(names: list[str], where: str) -> None:
    twice = [field for place, field in enumerate(names) if field and field in names[:place]]
    if twice:
        raise BadData(f"{where}: the column '{twice[0]}' stands there twice: remove or rename one.")
    if len(names) == 1 and names[0] and names[0] not in FactRow.model_fields:
        raise BadData(f"{where}: one column '{names[0]:.60}': separate the names of fields by a comma, ; or a tab.")


def _is_index(field: str, cells: list[list[str]]) -> bool:
    """True for a column that pandas or Excel wrote beside the data: numbers or nothing, under no name of its own."""
    return INDEX.fullmatch(field) is not None and all(not cell or not cell[0] or cell[0].isdigit() for cell in cells)


def _fields(names: list[str], row: list[str], index: list[int]) -> dict[str, Any] | BadData:
    if len(row) < len(names) or any(cell.strip() for cell in row[len(names) :]):
        return BadData(f"{len(row)} cells, and the first line names {len(names)} columns")
    cells = {names[place]: cell for place, cell in enumerate(row[: len(names)]) if place not in index}
    try:
        return {field: _cell(field, cell) for field, cell in cells.items() if cell.strip()}
    except BadData as error:
        return error


def _cell(field: str, text: str) -> Any:
    """The value of a cell: a list is separated by | (other names by ; too) or written as JSON, a question has =>."""
    if field not in (*LISTS, *QUESTIONS):
        return text
    if text.strip().startswith("["):
        return _written_list(field, text.strip())
    separator = ";" if field == "aliases" and SEPARATOR not in text else SEPARATOR
    items = [part.strip() for part in text.split(separator) if part.strip()]
    return items if field in LISTS else [_question(item) for item in items]


def _written_list(field: str, text: str) -> Any:
    """The value of a list in JSON, or as Python and pandas write one.

    Raises:
        BadData: it is none.
    """
    try:
        return parse_json(text, f"field '{field}'")
    except BadData:
        if "'" not in text:
            raise
    try:
        if re.search(r"""['"]\s+['"]""", text):  # NumPy writes no commas, and Python would make one text of all
            raise ValueError
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise BadData(f'field \'{field}\' begins as a list and is none: write ["A", "B"], or A | B') from error


def _question(item: str) -> dict[str, str]:
    question, arrow, answer = (part.strip() for part in item.partition(ARROW))
    return {"question": question} | ({"answer": answer} if arrow else {})


def _hub_rows(name: str) -> Iterator[PlacedRow]:
    """Rows of a data set, `OWNER/NAME` or a folder, with `:SPLIT` behind it (`train` by default)."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtra(f"a data set of the hub needs a package: {install_command('datasets')}.") from error
    path, _, split = name.partition(":")
    try:
        rows = load_dataset(path, split=split or "train")
    except Exception as error:
        raise MissingData(f"data set '{name}' cannot be loaded ({type(error).__name__}: {error}).") from error
    for number, row in enumerate(rows, 1):
        yield PlacedRow(f"{HUB}{name}, row {number}", row)


def _without_empty(value: Any) -> Any:
    """The value without the fields that are None, which Arrow and pandas add to objects that lack them."""
    if isinstance(value, dict):
        return {name: _without_empty(item) for name, item in value.items() if item is not None}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


READERS: dict[str, Callable[[str, str], Iterator[PlacedRow]]] = {
    ".jsonl": _json_lines,
    ".json": _json,
    ".csv": _table,
    ".tsv": _table,
    ".yaml": _yaml,
    ".yml": _yaml,
}
