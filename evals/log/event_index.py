"""Index of `events.jsonl` by unit, so that the events of one unit are read without the others."""

import json
import re
from pathlib import Path
from typing import Any, Self

from emend.evals.log.records import EVENTS
from emend.memory.errors import BadData

HEAD = re.compile(rb'\{"unit": "([^"\\]+)"')
"""Beginning of a line of a unit."""


class EventIndex:
    """Reads the file once for the offsets, and then single units; a context manager.

    Args:
        folder: a run folder; one without events has none. A torn last line is left out.

    Raises:
        BadData: another line is damaged; names file and line.
    """

    def __init__(self, folder: Path) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        self._path = folder / EVENTS
        self._file = self._path.open("rb") if self._path.exists() else None
        offset = 0
        for line in self._file or ():
            head = HEAD.match(line)
            if line.endswith(b"\n"):
                if head:
                    self._add(head[1].decode(), offset, offset + len(line))
                else:
                    self._read(line, offset)  # of the run itself; anything else may have been a step
            offset += len(line)

    def _add(self, unit: str, start: int, end: int) -> None:
        spans = self._spans.setdefault(unit, [])
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))

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
        for start, end in self._spans.get(unit, ()):
            assert self._file is not None
            self._file.seek(start)
            for line in self._file.read(end - start).splitlines(keepends=True):
                event = self._read(line, start)
                events.setdefault(event.get("probe", ""), []).append(event)
                start += len(line)
        return events

    def _read(self, line: bytes, offset: int) -> dict[str, Any]:
        try:
            event = json.loads(line)
            if isinstance(event, dict):
                return event
            reason = f"seen: {line[:40]!r}, which is no JSON object"
        except ValueError as error:
            reason = str(error)
        assert self._file is not None
        self._file.seek(0)
        number = self._file.read(offset).count(b"\n") + 1
        self._file.close()
        raise BadData(
            f"{self._path}, line {number} is damaged ({reason}). Restore the file from a copy, or start a new run in "
            "another folder; `emend report` does without it."
        )
