"""Reading a benchmark's files: where they lie, what they hold, and a clear word when a record is not as it must be."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from emend.memory.errors import BadData, MissingData


class Row(BaseModel):
    """Base of the rows as they stand in a file: fields that Emend does not use are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class NumberedRow(Row):
    """A row with the number that joins it to the rows of other files."""

    id: int


R = TypeVar("R", bound=NumberedRow)


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


def read_numbered(path: Path, row: type[R]) -> dict[int, R]:
    """The rows of a JSON file, a list or `{"data": [...]}`, by their id, in the file's order.

    Raises:
        BadData: not JSON, not a list, a record that is not as `row` says, or an id that comes twice.
    """
    rows: dict[int, R] = {}
    for number, raw in enumerate(_records(path)):
        try:
            parsed = row.model_validate(raw)
        except ValidationError as error:
            raise BadData(_complaint(path, number, error)) from error
        if parsed.id in rows:
            raise BadData(f"{path.name}, record {number}, field 'id': {parsed.id} is there twice; remove one.")
        rows[parsed.id] = parsed
    return rows


def _records(path: Path) -> list[object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{path.name} is not JSON in UTF-8: {error}. Fetch the file again.") from error
    records = content.get("data") if isinstance(content, dict) else content
    if not isinstance(records, list):
        raise BadData(
            f"{path.name}: a list of records or {{'data': [...]}} expected, "
            f"but it holds {type(content).__name__}. Fetch the file again."
        )
    return records


def _complaint(path: Path, number: int, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    value = repr(first["input"])
    shown = value if len(value) <= 80 else f"{value[:80]}..."
    return (
        f"{path.name}, record {number}, field '{field.lstrip('.')}': {first['msg']}; value {shown}. "
        "Correct the record or fetch the file again."
    )
