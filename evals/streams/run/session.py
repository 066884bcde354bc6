"""Session of a memory system over streams, each with its own store that later runs can reuse."""

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.edit import content_id
from emend.memory.errors import BadData
from emend.memory.files import open_file, private_folder, read_file, replace_file

# File with the ids of the turns in a store, one per line, in order.
OBSERVED = "observed"
SYSTEM_FOLDER = "store"


class StreamSession:
    """Gives turns to a memory system, with a separate memory for each stream.

    A stored memory is reused if its turns are the first ones of the stream. It is rebuilt if it is
    ahead of a question, since an answer must not use later turns.

    Args:
        make: creates the system with a folder, or without one.
        folder: folder of its stores; None for systems that are not persistent.
    """

    def __init__(self, make: Callable[[Path | None], Any], folder: Path | None) -> None:
        self._make, self._home = make, folder
        self._temporary: TemporaryDirectory[str] | None = None
        self._lock: FileLock | None = None
        self._system: Any = None
        self._stream: str | None = None
        self._stored: list[str] = []
        self.turns: list[Turn] = []
        """Turns of the current stream so far."""
        self.positions: dict[str, int] = {}
        """Position of each turn in the stream."""
        self.injections: list[int] = []
        """Number of changes to the store by each injected document since the last question."""

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
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        if self._lock is not None:
            self._lock.release()
        if self._temporary is not None:
            self._temporary.cleanup()

    def observe(self, turn: Turn) -> None:
        """Give the next turn to the system, unless its store contains it already."""
        if turn.stream != self._stream:
            self._open(turn.stream)
        self.positions[turn.id] = len(self.turns)
        self.turns.append(turn)
        position = len(self.turns) - 1
        if position < len(self._stored) and self._stored[position] != turn.id:
            self._start_anew()
        elif position >= len(self._stored):
            self._give(turn)

    def system_at(self, question: StreamQuestion) -> Any:
        """Return the system with exactly the turns before a question.

        Raises:
            BadData: no turn of the question's stream comes before it.
        """
        if self._system is None or question.stream != self._stream:
            raise BadData(
                f"question '{question.text[:60]}' comes before every turn of its stream "
                f"'{question.stream}'."
            )
        if len(self._stored) > len(self.turns):
            self._start_anew()
        return self._system

    @property
    def system(self) -> Any:
        """The system of the current stream; None before its first turn."""
        return self._system

    def _open(self, stream: str) -> None:
        self._close()
        self._stream, self.turns, self.positions = stream, [], {}
        self._stored = self._read_stored()
        self._system = self._make(self._store)

    @property
    def _folder(self) -> Path | None:
        return None if self._home is None else self._home / (content_id("stream", self._stream))

    @property
    def _store(self) -> Path | None:
        if self._folder is None:
            return None
        return private_folder(self._folder / SYSTEM_FOLDER)

    def _read_stored(self) -> list[str]:
        """Return the ids of the stored turns, without an incomplete last line."""
        if self._folder is None:
            return []
        private_folder(self._folder)
        file = self._folder / OBSERVED
        if not file.exists():
            return []
        whole, _, _ = read_file(file).rpartition(b"\n")
        if not whole:
            replace_file(file, b"")
            return []
        replace_file(file, whole + b"\n")
        return whole.decode().split("\n")

    def _give(self, turn: Turn) -> None:
        before = getattr(self._system, "changes", None)
        self._system.observe(turn.without_gold())
        if turn.kind == "injection" and before is not None:
            self.injections.append(self._system.changes - before)
        self._stored.append(turn.id)
        # recorded after the turn, since a system may observe the same turn twice
        if self._folder is not None:
            with open_file(self._folder / OBSERVED, "ab") as file:
                file.write(f"{turn.id}\n".encode())

    def _start_anew(self) -> None:
        """Delete the store, and observe the turns so far again."""
        self._close()
        if self._folder is not None:
            # deleted before the store: turns that are not listed are observed again
            (self._folder / OBSERVED).unlink(missing_ok=True)
            shutil.rmtree(self._folder / SYSTEM_FOLDER, ignore_errors=True)
        self._stored = []
        self._system = self._make(self._store)
        for turn in self.turns:
            self._give(turn)

    def _close(self) -> None:
        if close := getattr(self._system, "close", None):
            close()
        self._system = None
