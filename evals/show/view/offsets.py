"""Single lines of a run's files, read at the offsets of its index."""

from pathlib import Path
from typing import Any

from emend.evals.case import Record
from emend.evals.log.lines import CASES, SCHEMAS, parser_of
from emend.evals.log.record_lines import parse_record
from emend.memory.files import open_file

_CASE = parser_of(SCHEMAS[CASES])


def read_case(path: Path, start: int) -> dict[str, Any]:
    """The line of `cases.jsonl` at an offset.

    Raises:
        BadData: it is damaged.
    """
    return _CASE(_line(path, start), f"{path}, offset {start}")  # type: ignore[no-any-return]


def read_record(path: Path, start: int) -> Record:
    """The record at an offset.

    Raises:
        BadData: it is damaged.
    """
    return parse_record(_line(path, start), f"{path}, offset {start}")


def _line(path: Path, start: int) -> bytes:
    with open_file(path) as file:
        file.seek(start)
        return file.readline()
