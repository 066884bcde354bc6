"""Pace of a run: the seconds a unit of each editor takes, and so the time that is left."""

import time
from collections import defaultdict
from collections.abc import Mapping

MEASURED = 0.25
"""Units of an editor from which on its pace is its own: the first probes load and warm up."""


class Pace:
    """Divides the time that has passed among editors: what passes until a report is the reporting editor's.

    So the mean time of a unit is that at the run's concurrency. An editor without any report is taken for as fast as
    the others, for what a unit of it passes through the model.
    """

    def __init__(self) -> None:
        self._left: dict[str, float] = {}
        self._tokens: Mapping[str, float] = {}
        self._units, self._seconds = defaultdict[str, float](float), defaultdict[str, float](float)
        self._ahead: dict[str, tuple[float, float]] = {}
        self.start()

    def start(self) -> None:
        """Begin to measure."""
        self._last = time.monotonic()

    def plan(self, units: Mapping[str, float], tokens: Mapping[str, float]) -> None:
        """Take, by editor, the number of units left, and the tokens that a unit passes through a local model."""
        self._left, self._tokens = dict(units), tokens

    def add(self, editor: str, units: float) -> None:
        """Count a unit, or a share of one."""
        now = time.monotonic()
        self._seconds[editor] += now - self._last
        self._last = now
        self._units[editor] += units
        seconds, ahead = self._ahead.get(editor, (0.0, 0.0))
        if ahead > 0:
            share = min(units, ahead) / ahead
            self._ahead[editor] = seconds * (1 - share), ahead - min(units, ahead)

    def edited(self, editor: str, seconds: float, units: int) -> None:
        """Count seconds that were spent on units of which none is asked yet."""
        before, ahead = self._ahead.get(editor, (0.0, 0.0))
        units_left = self._left.get(editor, 0.0) - self._units[editor]
        self._ahead[editor] = before + seconds, ahead + (units or max(1.0, units_left))

    def seconds_left(self, units: int) -> float | None:
        """Time for the units that are left, this many in all; None before the first unit."""
        means = {editor: self._mean(editor) for editor, count in self._units.items() if count >= MEASURED}
        if not means or sum(self._units.values()) < 1:
            return None
        weight = sum(self._units[editor] * self._tokens.get(editor, 1.0) for editor in means)
        usual = sum(self._units[editor] * mean for editor, mean in means.items()) / weight
        left = {editor: max(0.0, count - self._units[editor]) for editor, count in self._left.items()}
        if not sum(left.values()):
            left = {"": units}
        return sum(
            max(0.0, count * means.get(editor, usual * self._tokens.get(editor, 1.0)) - self._spent(editor))
            for editor, count in left.items()
        )

    def _spent(self, editor: str) -> float:
        return self._ahead.get(editor, (0.0, 0.0))[0]

    def _mean(self, editor: str) -> float:
        """Seconds of a unit, without those spent on units that are still to be asked."""
        return max(0.0, self._seconds[editor] - self._spent(editor)) / self._units[editor]
