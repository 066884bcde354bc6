"""Writes a scoring: its judgements, and beside them the steps of the judges' graphs that led to them."""

import json
import os
import threading
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from emend.evals.judges.panel import Judgement
from emend.evals.judges.store import FOLDER, Scoring
from emend.evals.log.events import event_of
from emend.memory.errors import RunRefused
from emend.memory.redaction import hide_in_bytes


def steps_file(scoring: Scoring) -> str:
    """The name of the file, beside the judgements, of the steps that led to them."""
    return f"{scoring.id}.events.jsonl"


class ScoringFile:
    """Appends judgements and the steps of their calls; safe for many threads.

    What a killed process left half written is cut off first.
    """

    def __init__(self, folder: Path, scoring: Scoring) -> None:
        self.path = folder / FOLDER / f"{scoring.id}.jsonl"
        self._lock = threading.Lock()
        self._steps, self._file = (_opened(path) for path in (folder / FOLDER / steps_file(scoring), self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._steps.close()
        self._file.close()

    def add(self, judgements: Sequence[Judgement]) -> None:
        """Append the lines of one call.

        Raises:
            RunRefused: the disk is full or failing.
        """
        content = b"".join(one.model_dump_json().encode() + b"\n" for one in judgements)
        steps = hide_in_bytes(b"".join(_step_lines(judgements)))
        with self._lock:
            for file, lines in ((self._steps, steps), (self._file, content)):
                self._append(file, lines)

    def _append(self, file: FileIO, content: bytes) -> None:
        size = os.fstat(file.fileno()).st_size
        try:
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]
        except OSError as error:
            os.ftruncate(file.fileno(), size)
            raise RunRefused(
                f"cannot write to '{self.path}': {error.strerror}. What was judged is kept; make room and give the "
                "same command again."
            ) from error


def _opened(path: Path) -> FileIO:
    if path.exists():
        whole = path.read_bytes().rpartition(b"\n")
        os.truncate(path, len(whole[0]) + len(whole[1]))
    return path.open("ab", buffering=0)


def _step_lines(judgements: Sequence[Judgement]) -> Iterator[bytes]:
    """The steps of a call, which stand at its first judgement, with the ids of all items that it judged."""
    head: dict[str, Any] = {"items": [one.item for one in judgements]}
    for one in judgements:
        told = head | one.model_dump(include={"kind", "judge", "repeat", "swapped"})
        for step in one.steps:
            line = json.dumps(told | event_of(step), ensure_ascii=False, default=str)
            yield line.encode("utf-8", "backslashreplace") + b"\n"
