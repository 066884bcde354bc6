"""Says how a run is getting on: bars on a terminal, a plain line now and then elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

EVERY_SECONDS = 5.0
EARLY = 16
"""Units whose pace tells little of the rest: an editor may work ahead for so many, and then asks them quickly."""


class Progress(Protocol):
    """What a run tells while it works; called by one thread at a time."""

    def start(self, total: int, skipped: int) -> None:
        """So many units in all, of which so many were finished earlier."""
        ...

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        """One unit is through."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...


class Tally:
    """The counts that every kind of progress shows; says nothing itself."""

    def __init__(self) -> None:
        self.total = self.skipped = self.done = self.failed = self.unscored = self.tokens = 0
        self.began = time.monotonic()
        self.editor = ""

    def start(self, total: int, skipped: int) -> None:
        """Begin to count."""
        self.total, self.skipped, self.began = total, skipped, time.monotonic()

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        """Count one unit."""
        self.editor = editor
        self.done += not failed
        self.failed += failed
        self.unscored += unscored
        self.tokens += tokens
        self.show()

    def show(self) -> None:
        """Shown by subclasses."""

    def close(self) -> None:
        """Nothing to end."""

    @property
    def through(self) -> int:
        """Units that need no more work in this process."""
        return self.skipped + self.done + self.failed

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None while the first units tell little of it."""
        worked = self.done + self.failed
        if not worked or worked < min(EARLY, (self.total - self.skipped) / 10):
            return None
        return (time.monotonic() - self.began) / worked * (self.total - self.through)

    def line(self) -> str:
        """All of it in one line."""
        parts = [f"{self.through}/{self.total} units"]
        if self.skipped:
            parts.append(f"{self.skipped} from before")
        parts += [f"{self.failed} failed", f"{self.unscored} unscored", f"{self.tokens:,} tokens"]
        left = self.seconds_left
        if left is not None and self.through < self.total:
            parts.append(f"{duration(left)} left")
        return f"{self.editor}: {', '.join(parts)}" if self.editor else ", ".join(parts)


Quiet = Tally


class Lines(Tally):
    """A plain line every few seconds, and one at the end."""

    def __init__(self, file: TextIO | None = None, every: float = EVERY_SECONDS) -> None:
        super().__init__()
        self._file = file or sys.stderr
        self._every = every
        self._last = time.monotonic()

    def show(self) -> None:
        """Write the line if the last one is old enough."""
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._write()

    def close(self) -> None:
        """Write the last line."""
        self._write()

    def _write(self) -> None:
        self._file.write(self.line() + "\n")
        self._file.flush()


class Bar(Tally):
    """One bar on a terminal."""

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bars = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}", style="dim", markup=False),
            console=Console(file=file or sys.stderr),
            transient=True,
            expand=True,
        )

    def start(self, total: int, skipped: int) -> None:
        """Show the bar."""
        super().start(total, skipped)
        self._task = self._bars.add_task("starting", total=total, completed=skipped, told="")
        self._bars.start()

    def show(self) -> None:
        """Move the bar."""
        left = self.seconds_left
        told = [f"{self.tokens:,} tokens"]
        if self.failed:
            told.append(f"{self.failed} failed")
        if self.unscored:
            told.append(f"{self.unscored} unscored")
        if left is not None:
            told.append(f"{duration(left)} left")
        self._bars.update(self._task, completed=self.through, description=self.editor, told=" · ".join(told))

    def close(self) -> None:
        """Take the bar away."""
        self._bars.stop()


def duration(seconds: float) -> str:
    """As a person would say it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def fitting(file: TextIO | None = None) -> Progress:
    """Bars when the stream is a terminal, lines when it is not."""
    stream = file or sys.stderr
    return Bar(stream) if stream.isatty() else Lines(stream)


@contextmanager
def heartbeat(told: Callable[[], str], every: float = EVERY_SECONDS) -> Iterator[None]:
    """Meanwhile a line of what is told on standard error every few seconds, for work that has no units to count."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(every):
            sys.stderr.write(f"{told()}\n")

    thread = threading.Thread(target=beat, name="emend-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
