"""Reading of CSV tables filled in with a spreadsheet program."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from emend.memory.errors import BadData
from emend.memory.files import read_input

# Maximum size of a table in bytes; a larger file is not a sheet.
LARGEST = 64_000_000


def spreadsheet_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line numbers and rows of a CSV file in any encoding and with any separator that
    spreadsheet programs use.

    Raises:
        BadData: the file cannot be read, is too large, or is not a table.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise BadData(f"'{path}' has more than {LARGEST} bytes: it is not a sheet.")
        content = read_input(path)
        encoding = "utf-8-sig"
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            encoding = "utf-16"
        # labels are ASCII; a comment may be in another code page
        text = content.decode(encoding, errors="replace")
        first = text.partition("\n")[0]
        delimiter = max(",;\t", key=first.count)
        # strict: a quote that is never closed would swallow all later rows
        reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
        yield from ((reader.line_num, row) for row in reader)
    except OSError as error:
        raise BadData(f"cannot read '{path}': {error.strerror}. Name a filled table.") from error
    except csv.Error as error:
        raise BadData(f"'{path}' is not a table: {error}. Save it as CSV again.") from error
