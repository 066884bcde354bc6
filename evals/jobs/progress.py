"""Progress reports of a run, including shares of long units."""

import time
from collections.abc import Callable, Mapping
from typing import Self

# Minimum seconds between two reports from within a unit.
REPORT_SECONDS = 1.0


class Progress:
    """Receiver of a run's progress, called by one thread at a time; the base class shows
    nothing.
    """

    def start(self, total: int, skipped: int) -> None:
        """Start, with the total number of units and the number of units finished earlier."""

    def plan(self, units: Mapping[str, float], tokens: Mapping[str, float]) -> None:
        """Receive, by row, the remaining units and the estimated tokens per unit."""

    def unit(self, row: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        """Count one unit, finished or failed."""

    def probes(self, row: str, share: float) -> None:
        """Count a share of a unit in progress; it is subtracted again before the whole unit is
        counted.
        """

    def prepared(self, row: str, seconds: float, units: int) -> None:
        """Receive the time to prepare this number of units before their evaluation; 0 stands for
        all remaining units.
        """

    def waiting(self, seconds: float, reason: str) -> None:
        """Report why a call waits, and for how long."""

    def close(self) -> None:
        """End the progress; no more calls follow."""


class UnitShares:
    """Reports shares of a long unit at most once a second, and takes them back when the whole unit
    is counted.

    Args:
        report: receives a share of the unit.
        steps: number of the unit's steps.
    """

    def __init__(self, report: Callable[[float], None], steps: int) -> None:
        self._report, self._steps = report, steps
        self._finished = self._reported = 0
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._reported:
            self._report(-self._reported / self._steps)

    def add(self) -> None:
        """Count one step."""
        self._finished += 1
        if self._finished < self._steps and time.monotonic() - self._last >= REPORT_SECONDS:
            self._last = time.monotonic()
            self._report((self._finished - self._reported) / self._steps)
            self._reported = self._finished
