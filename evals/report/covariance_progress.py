"""Progress of `emend covariance`."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from emend.evals.report.progress import EVERY_SECONDS


@contextmanager
def showing(total: int | None) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, a line now and then elsewhere; lends what is told texts and tokens so far."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if not sys.stderr.isatty():
        yield _Lines(total).report
        return
    counter = TextColumn("{task.fields[tokens]:,} tokens", style="dim")
    columns = (TextColumn("reading"), BarColumn(bar_width=None), MofNCompleteColumn(), counter, TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True, expand=True) as progress:
        task = progress.add_task("", total=total, tokens=0)
        yield lambda texts, count: progress.update(task, completed=texts, tokens=count)


class _Lines:
    def __init__(self, total: int | None) -> None:
        self._of = "" if total is None else f" of {total:,}"
        self._last = time.monotonic()

    def report(self, texts: int, tokens: int) -> None:
        if time.monotonic() - self._last >= EVERY_SECONDS:
            self._last = time.monotonic()
            sys.stderr.write(f"{texts:,}{self._of} texts, {tokens:,} tokens\n")
            sys.stderr.flush()
