"""Answers shared by units: each is requested once per run, by the first unit that needs it."""

import threading
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from emend.evals.log.baseline import BaselineAnswer, baseline_offsets, is_baseline_answer
from emend.evals.log.lines import BASELINE
from emend.evals.log.records import RunLog, json_line
from emend.memory.files import open_file
from emend.memory.probe import Usage

# Number of locks: different answers are requested in parallel, the same one only once.
STRIPES = 64
# Requests an answer, passes it with its usage to a function that stores it, and returns its line.
AskAnswer = Callable[[Callable[[BaselineAnswer, Usage], bytes]], bytes]


class AnswerStore(Protocol):
    """A store of shared answers by key; thread-safe."""

    def get(self, key: str, ask: AskAnswer) -> bytes:
        """Return an answer's line; if there is none, `ask` is called, by one thread at a time per
        key.
        """
        ...


class AnswerFile:
    """Shared answers in the run folder, with only their offsets in memory.

    Args:
        log: of the run.
        others: folders of other runs, from which answers to the same questions are copied.
    """

    def __init__(self, log: RunLog, others: Iterable[Path] = ()) -> None:
        self._log, self._lock = log, threading.Lock()
        self._others: dict[str, tuple[Path, int]] = {}
        for folder in others:
            for key, offset in baseline_offsets(folder).items():
                self._others[key] = folder, offset
        self._offsets = baseline_offsets(log.folder)
        self._key_locks = [threading.Lock() for _ in range(STRIPES)]
        self.usage = Usage()
        """Usage of the answers that this process added."""

    @property
    def keys(self) -> Set[str]:
        """Keys of the answers."""
        return self._offsets.keys()

    def get(self, key: str, ask: AskAnswer) -> bytes:
        """Return an answer's line."""
        line = self.find(key)
        if line is None:
            with self._key_locks[int(key, 16) % STRIPES]:
                line = self.find(key) or self.copy(key)
                line = line or ask(
                    lambda answer, usage: self.add_line(key, json_line(answer), usage)
                )
        return line

    def copy(self, key: str) -> bytes | None:
        """Copy an answer's line from another run; return None if there is none."""
        if key not in self._others:
            return None
        folder, offset = self._others[key]
        with suppress(OSError), open_file(folder / BASELINE) as file:
            file.seek(offset)
            line = file.readline()
            if is_baseline_answer(line, key):
                return self.add_line(key, line, Usage())
        return None

    def find(self, key: str) -> bytes | None:
        """Return an answer's line; None if there is none or it was damaged from outside."""
        offset = self._offsets.get(key)
        line = None if offset is None else self._log.baseline_at(offset)
        return line if line and is_baseline_answer(line, key) else None

    def add_line(self, key: str, line: bytes, usage: Usage) -> bytes:
        """Write an answer's line and count its usage; return the stored line."""
        offset = self._offsets[key] = self._log.baseline(line)
        with self._lock:
            self.usage = self.usage.plus(usage)
        return self._log.baseline_at(offset)
