"""Reading a benchmark's files: where they lie, what they hold, and a clear word when a record is not as it must be."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from emend.memory.errors import BadData, MissingData

FETCH = "Fetch the file again."
_BETWEEN = re.compile(r"[,\s]*")


class Row(BaseModel):
    """Base of the rows as they stand in a file: fields that Emend does not use are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class NumberedRow(Row):
    """A row with the number that joins it to the rows of other files."""

    id: int


R = TypeVar("R", bound=Row)
N = TypeVar("N", bound=NumberedRow)


def data_folder(benchmark: str, given: Path | None) -> Path:
    """The folder given, else `$EMEND_DATA/<benchmark>`, else `data/<benchmark>` in the working folder."""
    if given is not None:
        return Path(given).expanduser()
    return Path(os.environ.get("EMEND_DATA") or "data").expanduser() / benchmark


def require(folder: Path, files: Iterable[str], remedy: str) -> None:
    """Check that all files are in the folder.

    Raises:
        MissingData: some are not; names them and says how to get them.
    """
    names = list(files)
    if missing := [name for name in names if not (folder / name).is_file()]:
        what = f"no folder '{folder}'" if not folder.is_dir() else f"'{folder}' lacks {', '.join(missing)}"
        raise MissingData(f"{what}; needed: {', '.join(names)}. {remedy}")


def sha256(path: Path) -> str:
    """Of the file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_rows(path: Path, row: type[R], remedy: str = FETCH) -> list[R]:
    """The rows of a JSON file, a list or `{"data": [...]}`, in the file's order.

    The file's bytes are read straight into rows: as Python's own objects in between, a file with one character beyond
    the basic plane would take four bytes for each of its characters, and as much again while it is decoded.

    Args:
        path: the file.
        row: what each record must be.
        remedy: what to do about a file that is cut off or holds something else.

    Raises:
        BadData: not JSON, not a list, or a record that is not as `row` says.
    """
    content = path.read_bytes()
    wrapped = content.lstrip()[:1] == b"{"
    adapter: TypeAdapter[Any] = TypeAdapter(_Data[row] if wrapped else list[row])  # type: ignore[valid-type]
    try:
        found = adapter.validate_json(content)
    except ValidationError as error:
        raise BadData(_complaint(path, content, error, remedy)) from error
    rows: list[R] = found.data if wrapped else found
    return rows


class _Data(BaseModel, Generic[R]):
    data: list[R]


def read_numbered(path: Path, row: type[N]) -> dict[int, N]:
    """As `read_rows`, by the rows' ids.

    Raises:
        BadData: as there, or an id comes twice.
    """
    rows: dict[int, N] = {}
    for number, parsed in enumerate(read_rows(path, row)):
        if parsed.id in rows:
            first = list(rows).index(parsed.id)
            raise BadData(
                f"{path.name}, record {number}, field 'id': {parsed.id} is there twice, first in record {first}. "
                "Remove one of the two records."
            )
        rows[parsed.id] = parsed
    return rows


def _complaint(path: Path, content: bytes, error: ValidationError, remedy: str) -> str:
    """What is wrong first, by record, field and value."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"{path.name} is not JSON in UTF-8, or cut off: {first['msg']}{_torn(content)}. {remedy}"
    number, *parts = [part for part in first["loc"] if part != "data"] or [""]
    if not isinstance(number, int):
        held = type(json.loads(content)).__name__
        return f"{path.name}: a list of records or {{'data': [...]}} expected, but it holds {held}. {remedy}"
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    value = repr(first["input"])
    shown = value if len(value) <= 80 else f"{value[:80]}..."
    return (
        f"{path.name}, record {number}, field '{field.lstrip('.')}': {first['msg']}; value {shown}. "
        "Correct the record or fetch the file again."
    )


def _torn(content: bytes) -> str:
    """Which record of a list is not whole, and how it begins; "" where there is no list."""
    text = content.decode("utf-8", "replace")
    number, place, decoder = 0, _skip(text, text.find("[") + 1), json.JSONDecoder()
    while 0 < place < len(text):
        try:
            _, after = decoder.raw_decode(text, place)
        except json.JSONDecodeError:
            break
        number, place = number + 1, _skip(text, after)
    return f"; record {number} is not whole, it begins {text[place : place + 60]!r}" if "[" in text else ""


def _skip(text: str, place: int) -> int:
    """The place where the next record begins."""
    return place + len(match[0]) if (match := _BETWEEN.match(text, place)) else place
