"""Where the events of each unit stand in `events.jsonl`, so that those of one are read without the others."""

import json
import re
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from emend.evals.records import EVENTS

HEAD = re.compile(rb'\{"unit": "([^"\\]+)"')
"""How a line of a unit begins."""


class EventIndex:
    """Reads the file once for the places, and then single units; a context manager.

    Args:
        folder: a run folder; one without events has none.
    """

    def __init__(self, folder: Path) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        path = folder / EVENTS
        self._file = path.open("rb") if path.exists() else None
        offset = 0
        for line in self._file or ():
            head = HEAD.match(line)
            if head and line.endswith(b"\n"):
                self._put(head[1].decode(), offset, offset + len(line))
            offset += len(line)

    def _put(self, unit: str, start: int, end: int) -> None:
        spans = self._spans.setdefault(unit, [])
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()

    def of(self, unit: str) -> dict[str, list[dict[str, Any]]]:
        """By probe, the unit's events in their order."""
        found: dict[str, list[dict[str, Any]]] = {}
        for start, end in self._spans.get(unit, ()):
            assert self._file is not None
            self._file.seek(start)
            for line in self._file.read(end - start).splitlines():
                told = json.loads(line)
                found.setdefault(told.get("probe", ""), []).append(told)
        return found
