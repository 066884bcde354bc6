"""The memory of one pass over a stream: which turns it has observed, also those of a process that was killed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

from emend.evals.stream.turn import StreamQuestion, Turn
from emend.memory.edit import content_id
from emend.memory.errors import BadData
from emend.memory.files import open_file, private_folder, replace_file

OBSERVED = "observed"
"""File with the ids of the turns that a store has, one a line, in order."""
STORE = "store"


class StreamSession:
    """Gives turns to a memory system; each stream has a memory of its own.

    A store that was kept is used on if its turns are the first ones of the stream, and made anew where it is ahead of
    a question, for an answer must not know what comes later.

    Args:
        make: makes the system over a folder, or without one.
        folder: where its stores are kept; None for systems that keep nothing.
    """

    def __init__(self, make: Callable[[Path | None], Any], folder: Path | None) -> None:
        self._make, self._home = make, folder
        self._temporary: TemporaryDirectory[str] | None = None
        self._lock: FileLock | None = None
        self._system: Any = None
        self._stream: str | None = None
        self._stored: list[str] = []
        self.turns: list[Turn] = []
        """Turns of the present stream so far."""
        self.places: dict[str, int] = {}
        self.injections: list[int] = []
        """For each poisoned turn since the last question, the number of calls by which it changed the store."""

    def __enter__(self) -> Self:
        if self._home is not None:
            self._lock = FileLock(private_folder(self._home) / "lock", timeout=0)
            try:
                self._lock.acquire()
            except Timeout:  # a process with another repeat of the same pass uses the store
                self._temporary, self._lock = TemporaryDirectory(prefix="emend-stream-"), None
                self._home = Path(self._temporary.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if self._lock is not None:
            self._lock.release()
        if self._temporary is not None:
            self._temporary.cleanup()

    def observe(self, turn: Turn) -> None:
        """Give the next turn to the system, unless its store has it already."""
        if turn.stream != self._stream:
            self._open(turn.stream)
        self.places[turn.id] = len(self.turns)
        self.turns.append(turn)
        place = len(self.turns) - 1
        if place < len(self._stored) and self._stored[place] != turn.id:
            self._start_anew()
        elif place >= len(self._stored):
            self._give(turn)

    def system_at(self, question: StreamQuestion) -> Any:
        """The system with all turns before a question, and no other.

        Raises:
            BadData: no turn of the question's stream comes before it.
        """
        if self._system is None or question.stream != self._stream:
            raise BadData(f"question '{question.text[:60]}' comes before every turn of its stream '{question.stream}'.")
        if len(self._stored) > len(self.turns):
            self._start_anew()
        return self._system

    def _open(self, stream: str) -> None:
        self._close()
        self._stream, self.turns, self.places = stream, [], {}
        self._stored = self._read_stored()
        self._system = self._make(self._store)

    @property
    def _folder(self) -> Path | None:
        return None if self._home is None else self._home / (content_id("stream", self._stream))

    @property
    def _store(self) -> Path | None:
        return None if self._folder is None else private_folder(self._folder / STORE)

    def _read_stored(self) -> list[str]:
        """The turns that the store has; a line that a killed process left unfinished is none."""
        if self._folder is None:
            return []
        private_folder(self._folder)
        file = self._folder / OBSERVED
        if not file.exists():
            return []
        with open_file(file) as opened:
            content = opened.read()
        whole, _, _ = content.rpartition(b"\n")
        replace_file(file, whole + b"\n" if whole else b"")
        return whole.decode().split("\n") if whole else []

    def _give(self, turn: Turn) -> None:
        before = getattr(self._system, "changes", None)
        self._system.observe(turn.without_gold())
        if turn.kind == "injection" and before is not None:
            self.injections.append(self._system.changes - before)
        self._stored.append(turn.id)
        if self._folder is not None:  # after the turn: a system takes the same turn again without effect
            with open_file(self._folder / OBSERVED, "ab") as file:
                file.write(f"{turn.id}\n".encode())

    def _start_anew(self) -> None:
        """Forget the store, and observe the turns so far."""
        self._close()
        if self._folder is not None:
            (self._folder / OBSERVED).unlink(missing_ok=True)  # before the store: what is not listed is observed again
            shutil.rmtree(self._folder / STORE, ignore_errors=True)
        self._stored = []
        self._system = self._make(self._store)
        for turn in self.turns:
            self._give(turn)

    def _close(self) -> None:
        if close := getattr(self._system, "close", None):
            close()
        self._system = None
