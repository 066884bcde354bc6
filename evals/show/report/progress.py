"""Progress of a run, with an estimate of the remaining time.

It is shown as a bar on a terminal, and as plain lines elsewhere.
"""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any, TextIO

from emend.evals.jobs.progress import Progress
from emend.memory.escape import safe

# Number of units after which the measured pace of an editor is used; the first probes include
# loading and warm-up.
MEASURED = 0.25


class Pace:
    """Estimator of the remaining time, from the time spent per editor.

    The time since the previous report is attributed to the editor that reports, so that the mean
    time of a unit accounts for the concurrency of the run. An editor without reports is assumed to
    take as long per token as the other editors.
    """

    def __init__(self) -> None:
        self._left: dict[str, float] = {}
        self._tokens: Mapping[str, float] = {}
        self._units, self._seconds = defaultdict[str, float](float), defaultdict[str, float](float)
        self._ahead: dict[str, tuple[float, float]] = {}
        self.start()

    def start(self) -> None:
        """Start measuring."""
        self._last = time.monotonic()

    def plan(self, units: Mapping[str, float], tokens: Mapping[str, float]) -> None:
        """Set, by editor, the number of remaining units and of tokens per unit in a local model."""
        self._left, self._tokens = dict(units), tokens

    def add(self, editor: str, units: float) -> None:
        """Count a unit or a fraction of one."""
        now = time.monotonic()
        self._seconds[editor] += now - self._last
        self._last = now
        self._units[editor] += units
        seconds, ahead = self._ahead.get(editor, (0.0, 0.0))
        if ahead > 0:
            share = min(units, ahead) / ahead
            self._ahead[editor] = seconds * (1 - share), ahead - min(units, ahead)

    def edited(self, editor: str, seconds: float, units: int) -> None:
        """Count seconds spent on editing for units whose probes have not been asked yet."""
        before, ahead = self._ahead.get(editor, (0.0, 0.0))
        units_left = self._left.get(editor, 0.0) - self._units[editor]
        self._ahead[editor] = before + seconds, ahead + (units or max(1.0, units_left))

    def seconds_left(self, units: int) -> float | None:
        """Estimate the seconds for `units` remaining units; None before the first unit is done."""
        means = {
            editor: self._mean(editor) for editor, count in self._units.items() if count >= MEASURED
        }
        if not means or sum(self._units.values()) < 1:
            return None
        weight = sum(self._units[editor] * self._tokens.get(editor, 1.0) for editor in means)
        usual = sum(self._units[editor] * mean for editor, mean in means.items()) / weight
        left = {
            editor: max(0.0, count - self._units[editor]) for editor, count in self._left.items()
        }
        if not sum(left.values()):
            left = {"": units}
        return sum(
            max(
                0.0,
                count * means.get(editor, usual * self._tokens.get(editor, 1.0))
                - self._spent(editor),
            )
            for editor, count in left.items()
        )

    def _spent(self, editor: str) -> float:
        return self._ahead.get(editor, (0.0, 0.0))[0]

    def _mean(self, editor: str) -> float:
        """Return the mean seconds of a unit, without time spent on units not asked yet."""
        return max(0.0, self._seconds[editor] - self._spent(editor)) / self._units[editor]


EVERY_SECONDS, UPDATE_SECONDS = 5.0, 0.5


class RunProgress(Progress):
    """Silent progress that counts units; base class of the visible ones."""

    def __init__(self) -> None:
        self.total = self.skipped = self.done = self.failed = self.unscored = self.tokens = 0
        self.start_time = time.monotonic()
        self.pace = Pace()
        self.editor = self._wait = ""
        self._wait_end = float("-inf")

    def start(self, total: int, skipped: int) -> None:
        """Start counting."""
        self.total, self.skipped, self.start_time = total, skipped, time.monotonic()
        self.pace.start()

    def plan(self, units: Mapping[str, float], tokens: Mapping[str, float]) -> None:
        """Set the remaining work, from which the remaining time is estimated."""
        self.pace.plan(units, tokens)

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        """Count one unit and show the counts."""
        self.editor = editor
        self.done += not failed
        self.failed += failed
        self.unscored += unscored
        self.tokens += tokens
        self.pace.add(editor, 1.0)
        self.show()

    def probes(self, editor: str, share: float) -> None:
        """Count a fraction of a unit in progress and show the counts."""
        self.pace.add(editor, share)
        if share > 0:
            self.editor = editor
            self.show()

    def edited(self, editor: str, seconds: float, units: int) -> None:
        """Count the seconds of editing for units that are not asked yet, and show the counts."""
        self.pace.edited(editor, seconds, units)
        self.editor = editor
        self.show()

    def waiting(self, seconds: float, reason: str) -> None:
        """Show the reason of a wait beside the counts until the wait is over.

        Waits of less than a second are not shown.
        """
        if seconds >= 1 and time.monotonic() + seconds > self._wait_end:
            self._wait, self._wait_end = reason, time.monotonic() + seconds
            self.show()

    @property
    def waits(self) -> list[str]:
        """Reason of the longest current wait; empty if there is none."""
        if time.monotonic() < self._wait_end:
            return [self._wait]
        return []

    def show(self) -> None:
        """Do nothing; subclasses show the counts."""

    @property
    def processed(self) -> int:
        """Number of units that need no more work in this process."""
        return self.skipped + self.done + self.failed

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining seconds; None before the first unit is done."""
        return self.pace.seconds_left(self.total - self.processed)

    def line(self) -> str:
        """Format all counts as one line."""
        parts = [f"{self.processed}/{self.total} units"]
        if self.skipped:
            parts.append(f"{self.skipped} from before")
        parts += [f"{self.failed} failed", f"{self.unscored} unscored", f"{self.tokens:,} tokens"]
        left = self.seconds_left
        if left is not None and self.processed < self.total:
            parts.append(f"{duration(left)} left")
        parts += self.waits
        if self.editor:
            return f"{self.editor}: {', '.join(parts)}"
        return ", ".join(parts)


class Lines(RunProgress):
    """Progress as a plain line every few seconds, and one at the end."""

    def __init__(self, file: TextIO | None = None, every: float = EVERY_SECONDS) -> None:
        super().__init__()
        self._file = file or sys.stderr
        self._every = every
        self._last = time.monotonic()

    def waiting(self, seconds: float, reason: str) -> None:
        """Write a line at once for a long wait, as there may be no other line until it is over."""
        if seconds >= self._every and not self.waits:
            self._last = float("-inf")
        super().waiting(seconds, reason)

    def show(self) -> None:
        """Write the line if the last one is old enough."""
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._write()

    def close(self) -> None:
        """Write the last line."""
        self._write()

    def _write(self) -> None:
        self._file.write(safe(self.line()) + "\n")
        self._file.flush()


class Bar(RunProgress):
    """Progress as a bar on a terminal."""

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
            TextColumn("{task.fields[counts]}", style="dim", markup=False),
            console=Console(file=file or sys.stderr),
            transient=True,
            expand=True,
        )

    def start(self, total: int, skipped: int) -> None:
        """Show the bar."""
        super().start(total, skipped)
        self._task = self._bars.add_task("starting", total=total, completed=skipped, counts="")
        self._bars.start()

    def show(self) -> None:
        """Update the bar."""
        counts = [f"{self.tokens:,} tokens"]
        if self.failed:
            counts.append(f"{self.failed} failed")
        if self.unscored:
            counts.append(f"{self.unscored} unscored")
        if (left := self.seconds_left) is not None:
            counts.append(f"{duration(left)} left")
        counts += self.waits
        text = safe(" · ".join(counts))
        self._bars.update(
            self._task, completed=self.processed, description=safe(self.editor), counts=text
        )

    def close(self) -> None:
        """Remove the bar."""
        self._bars.stop()


class NotebookBar(RunProgress):
    """Progress as a bar below a notebook cell, updated every `UPDATE_SECONDS`."""

    def __init__(self) -> None:
        super().__init__()
        self._last = float("-inf")

    def start(self, total: int, skipped: int) -> None:
        """Show the bar."""
        super().start(total, skipped)
        self._display = import_module("IPython.display").display(self._shown(), display_id=True)

    def show(self) -> None:
        """Update the bar if the last update is old enough."""
        if time.monotonic() - self._last >= UPDATE_SECONDS:
            self._last = time.monotonic()
            self._display.update(self._shown())

    def close(self) -> None:
        """Show the last counts."""
        self._display.update(self._shown())

    def _shown(self) -> Any:
        return import_module("IPython.display").HTML(
            f'<progress value="{self.processed}" max="{max(1, self.total)}" '
            f'style="width:20em"></progress> '
            f"<span>{escape(safe(self.line()))}</span>"
        )


def duration(seconds: float) -> str:
    """Format a duration: `12 s`, `3 min 05 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def progress_on() -> Progress:
    """Return a bar if standard error is a terminal, else plain lines."""
    return Bar() if sys.stderr.isatty() else Lines()


@contextmanager
def heartbeat(line: Callable[[], str], every: float = EVERY_SECONDS) -> Iterator[None]:
    """Write a line to standard error every few seconds while the context is active.

    Use it for work without countable units.
    """
    over = threading.Event()

    def beat() -> None:
        while not over.wait(every):
            sys.stderr.write(f"{safe(line())}\n")

    thread = threading.Thread(target=beat, name="emend-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def counter(
    label: str, unit: str, total: int | None = None
) -> Iterator[Callable[[int, str], None]]:
    """Show a count: as a bar on a terminal, as a line every few seconds elsewhere.

    Yield `update(count, note)`; `total` is None if the number of units is unknown.
    """
    if not sys.stderr.isatty():
        yield _count_lines(unit, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    note = TextColumn("{task.fields[note]}", style="dim", markup=False)
    columns = (
        TextColumn(label),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        note,
        TimeElapsedColumn(),
    )
    with RichProgress(
        *columns, console=Console(file=sys.stderr), transient=True, expand=True
    ) as bars:
        task = bars.add_task("", total=total, note="")
        yield lambda count, note: bars.update(task, completed=count, note=note)


def _count_lines(unit: str, total: int | None) -> Callable[[int, str], None]:
    last = time.monotonic()
    if total is None:
        goal = ""
    else:
        goal = f" of {total:,}"

    def update(count: int, note: str) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_SECONDS:
            last = time.monotonic()
            sys.stderr.write(safe(f"{count:,}{goal} {unit}{', ' * bool(note)}{note}") + "\n")

    return update
