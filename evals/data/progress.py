"""Says how a download is getting on: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

Told = Callable[[int, int | None], None]
EVERY_SECONDS = 5.0


class Progress(Protocol):
    """What a pull tells while it works."""

    def file(self, name: str, size: int | None) -> AbstractContextManager[Told]:
        """A file begins; inside the `with`, call with the bytes that are there and those there will be."""
        ...


class Quiet:
    """Says nothing."""

    @contextmanager
    def file(self, name: str, size: int | None) -> Iterator[Told]:
        """A file that nothing is said of."""
        yield lambda done, total: None


class Lines:
    """A plain line every few seconds."""

    def __init__(self, stream: TextIO, every: float = EVERY_SECONDS) -> None:
        self._stream, self._every = stream, every

    @contextmanager
    def file(self, name: str, size: int | None) -> Iterator[Told]:
        """Say now and then how much of the file is there."""
        began = last = time.monotonic()

        def told(done: int, total: int | None) -> None:
            nonlocal last
            if time.monotonic() - last < self._every:
                return
            last = time.monotonic()
            of = f" of {total:,}" if total else ""
            rate = done / max(last - began, 1e-9) / 1e6
            self._stream.write(f"{name}: {done:,}{of} bytes, {rate:.1f} MB/s\n")
            self._stream.flush()

        yield told


class Bars:
    """A bar with bytes, rate and remaining time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def file(self, name: str, size: int | None) -> Iterator[Told]:
        """Show the file's bar while it comes."""
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=None),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
        )
        with progress.Progress(*columns, console=Console(file=self._stream), transient=True, expand=True) as bars:
            task = bars.add_task(name, total=size)
            yield lambda done, total: bars.update(task, completed=done, total=total)


def fitting(stream: TextIO | None = None) -> Progress:
    """A bar when the stream is a terminal, lines when it is not."""
    chosen = stream or sys.stderr
    return Bars(chosen) if chosen.isatty() else Lines(chosen)
