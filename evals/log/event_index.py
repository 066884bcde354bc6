"""Index of `events.jsonl` by unit, so that the events of one unit are read without the others."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import TypeAdapter

from emend.evals.log.lines import EVENTS, SCHEMAS, StepLine, parser_of
from emend.memory.errors import BadData
from emend.memory.files import open_file

HEAD = re.compile(rb'\{"unit": "([^"\\]+)"')
"""Beginning of a line of a unit."""
_READ_STEP, _READ_ANY = parser_of(TypeAdapter(StepLine)), parser_of(SCHEMAS[EVENTS])


class _Span(NamedTuple):
    """Neighbouring lines of one unit: offsets of their start and end, and number of the first."""

    start: int
    end: int
    number: int


class EventIndex:
    """Reads the file once for the offsets, and then single units; a context manager.

    Args:
        folder: a run folder; one without events has none. A torn last line is left out.

    Raises:
        BadData: the file is no regular file, or another line is damaged; names file and line.
    """

    def __init__(self, folder: Path) -> None:
        self._spans: dict[str, list[_Span]] = {}
        self._path = folder / EVENTS
        self._file = open_file(self._path) if self._path.exists() else None
        offset = 0
        for number, line in enumerate(self._file or (), 1):
            if line.endswith(b"\n"):
                if head := HEAD.match(line):
                    self._add(head[1].decode(errors="replace"), _Span(offset, offset + len(line), number))
                else:
                    self._parse(_READ_ANY, line, number)  # of the run itself; anything else may have been a step
            offset += len(line)

    def _add(self, unit: str, span: _Span) -> None:
        spans = self._spans.setdefault(unit, [])
        if spans and spans[-1].end == span.start:
            spans[-1] = spans[-1]._replace(end=span.end)
        else:
            spans.append(span)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file:
            self._file.close()

    def of(self, unit: str) -> dict[str, list[dict[str, Any]]]:
        """Read the unit's events, by probe, in their order.

        Raises:
            BadData: one of its lines is damaged; names file and line.
        """
        events: dict[str, list[dict[str, Any]]] = {}
        for start, end, first in self._spans.get(unit, ()):
            assert self._file is not None
            self._file.seek(start)
            for number, line in enumerate(self._file.read(end - start).splitlines(keepends=True), first):
                event = self._parse(_READ_STEP, line, number)
                events.setdefault(event.get("probe", ""), []).append(event)
        return events

    def _parse(self, parse: Callable[[bytes, str], Any], line: bytes, number: int) -> Any:
        try:
            return parse(line, f"{self._path}, line {number}")
        except BadData as error:
            self.__exit__()
            raise BadData(
                f"{error} Restore the file from a copy, or start a new run in another folder; `emend report` does "
                "without it."
            ) from error
