"""Rows of a benchmark's files: the data folder, row models, and errors that name record, field and value."""

import codecs
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from emend.memory.errors import BadData, MissingData
from emend.memory.files import open_file, without_mark
from emend.memory.json_files import parse_json

Text = Annotated[str, StringConstraints(min_length=1)]
Tags = dict[str, str | int | float | bool]
"""Tags of a case or a probe."""
ASKED_BY_OTHER = "asked_by_other_edit"
"""Tag of a probe out of scope that another case's edit asks verbatim: with both applied, it is not out of scope."""


def check_slot(prompt: str) -> str:
    """Return the prompt, if it has exactly one `{}` for the subject; other braces are text.

    Raises:
        ValueError: it has none or several.
    """
    if prompt.count("{}") != 1:
        raise ValueError("exactly one {} expected")
    return prompt


ClozePrompt = Annotated[Text, AfterValidator(check_slot)]


def aliases_field(name: str) -> AliasChoices:
    """Both spellings of a field of aliases: `answer_alias`, `answer_aliases`."""
    return AliasChoices(name, f"{name}es")


class BenchmarkRow(BaseModel):
    """Base of the row models; fields that Emend does not use are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class NumberedRow(BenchmarkRow):
    """A row with the number that joins it to the rows of other files."""

    id: int


class WikidataEntity(BenchmarkRow):
    """A Wikidata entity: its label, which the files call `str`, and its id."""

    label: Text = Field(validation_alias="str")
    id: str | None = None


class HopRow(BenchmarkRow):
    """One hop of a multi-hop question."""

    question: str
    answer: Text
    answer_alias: tuple[str, ...] = Field((), validation_alias=aliases_field("answer_alias"))


class ChainTriples(BenchmarkRow):
    """Wikidata ids (subject, relation, object) of the hops after the record's edits, and of these edits."""

    new_triples: tuple[tuple[str, str, str], ...]
    edit_triples: tuple[tuple[str, str, str], ...]
    new_triples_labeled: tuple[tuple[str, str, str], ...] = ()


def contaminated_ids(chains: Mapping[int, ChainTriples]) -> frozenset[int]:
    """Ids of the rows with a hop, edited or not, to which another row's edit gives another object."""
    objects: dict[tuple[str, str], set[str]] = {}
    for orig in chains.values():
        for subject, relation, target in orig.edit_triples:
            objects.setdefault((subject, relation), set()).add(target)
    return frozenset(
        number
        for number, orig in chains.items()
        if any(objects.get((subject, relation), set()) - {target} for subject, relation, target in orig.new_triples)
    )


def golds(answer: str, aliases: Iterable[str]) -> tuple[str, ...]:
    """The answer, then each alias once; blank aliases are dropped."""
    return tuple(dict.fromkeys([answer, *(alias for alias in aliases if alias.strip())]))


FETCH = "Fetch the file again."
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BETWEEN = re.compile(r"[,\s]*")


R = TypeVar("R", bound=BenchmarkRow)
N = TypeVar("N", bound=NumberedRow)


def data_folder(benchmark: str, folder: Path | None) -> Path:
    """Return the given folder, else `$EMEND_DATA/<benchmark>`, else `data/<benchmark>` in the working folder."""
    if folder is not None:
        return Path(folder).expanduser()
    return Path(os.environ.get("EMEND_DATA") or "data").expanduser() / benchmark


def require(folder: Path, files: Iterable[str], remedy: str) -> None:
    """Check that all files are in the folder.

    Raises:
        MissingData: some are not; names them and ends with the remedy.
    """
    names = list(files)
    if missing := [name for name in names if not (folder / name).is_file()]:
        what = f"no folder '{folder}'" if not folder.is_dir() else f"'{folder}' lacks {', '.join(missing)}"
        raise MissingData(f"{what}; needed: {', '.join(names)}. {remedy}")


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with open_file(path, links=True) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed asks for readinto


def read_text(path: Path, remedy: str = FETCH) -> str:
    """Read a text in UTF-8, such as a prompt, or in UTF-16 with its mark, as Excel writes one.

    Args:
        path: the file.
        remedy: ends the error.

    Raises:
        BadData: it is no such text.
    """
    with open_file(path, links=True) as file:
        content = file.read()
    try:
        return without_mark(content).decode("utf-16" if content.startswith(UTF_16) else "utf-8")
    except UnicodeDecodeError as error:
        raise BadData(f"{path.name} is not a text in UTF-8: {error}. {remedy}") from error


def read_rows(path: Path, row: type[R], remedy: str = FETCH) -> list[R]:
    """Read the rows of a JSON file, a list or `{"data": [...]}`, in the file's order.

    pydantic parses the bytes directly: as a str, a file with one character beyond the basic plane would take four bytes
    per character, and as much again while it is decoded.

    Args:
        path: the file.
        row: the model of a record.
        remedy: ends the error about a file that is cut off or holds something else.

    Raises:
        BadData: not JSON, not a list, or a record that does not validate.
    """
    with open_file(path, links=True) as file:
        content = without_mark(file.read())
    wrapped = content.lstrip()[:1] == b"{"
    adapter: TypeAdapter[Any] = TypeAdapter(_Data[row] if wrapped else list[row])  # type: ignore[valid-type]
    try:
        parsed = adapter.validate_json(content)
    except ValidationError as error:
        raise BadData(_describe(path, content, error, remedy)) from error
    rows: list[R] = parsed.data if wrapped else parsed
    return rows


class _Data(BaseModel, Generic[R]):
    data: list[R]


def read_numbered(path: Path, row: type[N]) -> dict[int, N]:
    """Read the rows of a JSON file by their ids.

    Raises:
        BadData: as in `read_rows`, or an id occurs twice.
    """
    rows: dict[int, N] = {}
    for number, record in enumerate(read_rows(path, row)):
        if record.id in rows:
            first = list(rows).index(record.id)
            raise BadData(
                f"{path.name}, record {number}, field 'id': {record.id} occurs twice, first in record {first}. "
                "Remove one of the two records."
            )
        rows[record.id] = record
    return rows


def _describe(path: Path, content: bytes, error: ValidationError, remedy: str) -> str:
    """Describe the first error by record, field and value."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        text = content.decode("utf-8", "replace")
        records, position = whole_records(text)
        begins = f"; record {len(records)} is not whole, it begins {text[position : position + 60]!r}"
        return f"{path.name} is not JSON in UTF-8, or cut off: {first['msg']}{begins if '[' in text else ''}. {remedy}"
    number, *parts = [part for part in first["loc"] if part != "data"] or [""]
    if not isinstance(number, int):
        holds = type(parse_json(content, path.name)).__name__
        return f"{path.name}: a list of records or {{'data': [...]}} expected, but it holds {holds}. {remedy}"
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    value = repr(first["input"])
    short = value if len(value) <= 80 else f"{value[:80]}..."
    return (
        f"{path.name}, record {number}, field '{field.lstrip('.')}': {first['msg']}; value {short}. "
        "Correct the record or fetch the file again."
    )


def whole_records(text: str) -> tuple[list[object], int]:
    """Return the records of a JSON list before the position at which it breaks off, and that position."""
    records: list[object] = []
    decoder, position = json.JSONDecoder(), _skip(text, text.find("[") + 1)
    while 0 < position < len(text):
        try:
            record, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        records.append(record)
        position = _skip(text, end)
    return records, position


def _skip(text: str, position: int) -> int:
    """Return the position at which the next record begins."""
    return position + len(match[0]) if (match := _BETWEEN.match(text, position)) else position


COT_PROMPT = "Question: {question}\nThoughts:"


def chain_fields(question: str, examples: str) -> dict[str, Any]:
    """The fields of a probe that asks for a chain of thought after solved examples; without any, it asks directly."""
    if not examples:
        return {"prompt": question, "style": "question"}
    prompt = COT_PROMPT.format(question=question)
    return {"prompt": prompt, "style": "raw", "query": question, "examples": examples, "reading": "thoughts"}
