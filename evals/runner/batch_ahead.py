"""Lets an editor work ahead for the edits of mode `single`, in the same portions however often a run was interrupted.

A portion is solved whole, those of its edits too whose units are finished: what is solved together can move the last
digits, and records must not depend on where a run was interrupted.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from emend.editors.base import NO_COST, EditCost, Foreseeing
from emend.editors.costing import Meter
from emend.evals.runner.units import Group, Pass
from emend.memory.edit import Edit

PORTION = 16
"""Groups that are worked ahead for at a time; one whose portion was interrupted costs as much again."""


class Ahead:
    """Works ahead for one pass, if its mode and its editor are such.

    Args:
        one: the pass.
        meter: makes what measures it.
    """

    def __init__(self, one: Pass, meter: Callable[[], Meter]) -> None:
        self._editor = one.editor if one.mode == "single" and isinstance(one.editor, Foreseeing) else None
        self._meter = meter
        self._waiting: list[Sequence[Edit]] = []
        self._each = NO_COST

    def through(self, groups: Iterator[Group]) -> Iterator[Group]:
        """The groups as they come, a portion at a time."""
        while portion := list(islice(groups, PORTION if self._editor else 1)):
            self._waiting = [group.edits for group in portion]
            yield from portion

    def share(self, count: int) -> EditCost:
        """What working ahead has cost for so many edits; done now, for the whole portion, if it was not done yet."""
        if self._editor and self._waiting:
            with self._meter() as meter:
                told = self._editor.foresee(self._waiting)
            number = max(1, sum(map(len, self._waiting)))
            self._each, self._waiting = _divided(meter.cost(number, told), number), []
        return EditCost(
            seconds=self._each.seconds * count,
            cpu_seconds=self._each.cpu_seconds * count,
            tokens=self._each.tokens * count,
            peak_bytes=self._each.peak_bytes,
        )


def _divided(cost: EditCost, number: int) -> EditCost:
    """For each of so many edits."""
    seconds, cpu_seconds = cost.seconds / number, cost.cpu_seconds / number
    return EditCost(
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        tokens=round(cost.tokens / number),
        peak_bytes=cost.peak_bytes,
    )
