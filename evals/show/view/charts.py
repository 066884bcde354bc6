"""Geometry of the viewer's charts: intervals on axes, and curves over a sequence of edits."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from emend.evals.show.view.views import CellView, ViewData

# Padding in pixels at both ends of an axis, so that a dot at an end is not cut off.
INSET = 5.0
PANEL_WIDTH, PANEL_HEIGHT = 300.0, 190.0
# Margins of a panel of curves, in pixels.
LEFT, RIGHT, TOP, BOTTOM = 38.0, 14.0, 8.0, 34.0
# Pixels between the marks of two editors after the same number of edits, so that their intervals
# do not overlap.
DODGE = 3.0


class Whisker(NamedTuple):
    """Positions on an axis in pixels: the mean and the ends of its interval, if there is one."""

    x: float
    start: float | None
    end: float | None


def whisker(
    mean: float | None,
    low: float | None,
    high: float | None,
    axis: tuple[float, float],
    width: float = 140.0,
) -> Whisker | None:
    """Place an estimate on an axis `width` pixels wide; None without a mean."""
    if mean is None:
        return None
    if low is None or high is None:
        return Whisker(_pixels(mean, axis, width), None, None)
    return Whisker(
        _pixels(mean, axis, width), _pixels(low, axis, width), _pixels(high, axis, width)
    )


def _pixels(value: float, axis: tuple[float, float], width: float) -> float:
    return round(INSET + min(1.0, max(0.0, share_of_axis(value, axis))) * (width - 2 * INSET), 1)


def symmetric(values: Iterable[float | None]) -> tuple[float, float]:
    """Return the ends of an axis around 0 that covers all values; (-1, 1) without any."""
    reach = max((abs(value) for value in values if value is not None), default=0.0) or 1.0
    return -reach, reach


class Mark(NamedTuple):
    """A point of a curve with its interval, in pixels."""

    x: float
    y: float
    low: float | None
    high: float | None


class Series(NamedTuple):
    """The curve of an editor; `first` shows the same cases right after their own edits."""

    editor: str
    marks: tuple[Mark, ...]
    line: str
    first: str


class CurvePanel(NamedTuple):
    """The curves of all editors in one metric; axis ticks are (position in pixels, label)."""

    title: str
    unit: str
    series: tuple[Series, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]


def panels(curves: Sequence[ViewData]) -> list[CurvePanel]:
    """Return one panel for each setting, mode and metric, in order of first appearance."""
    groups: dict[tuple[str, str, str], list[ViewData]] = {}
    for curve in curves:
        if any(point.cell.mean is not None for point in curve.points):
            groups.setdefault((curve.setting, curve.mode, curve.metric), []).append(curve)
    several = len({(setting, mode) for setting, mode, _ in groups}) > 1
    drawn = list[CurvePanel]()
    for (setting, _, metric), members in groups.items():
        title = metric
        if several:
            title = f"{metric}, {setting}"
        drawn.append(_panel(title, members))
    return drawn


def _panel(title: str, curves: Sequence[ViewData]) -> CurvePanel:
    steps = sorted({point.standing for curve in curves for point in curve.points})
    wide = (float(min(steps, default=0)), float(max(steps, default=1)))
    tall = round_ends(
        min(curve.axis[0] for curve in curves), max(curve.axis[1] for curve in curves)
    )

    def across(value: float, shift: float = 0.0) -> float:
        return round(LEFT + share_of_axis(value, wide) * (PANEL_WIDTH - LEFT - RIGHT) + shift, 1)

    def up(value: float) -> float:
        return round(
            PANEL_HEIGHT - BOTTOM - share_of_axis(value, tall) * (PANEL_HEIGHT - TOP - BOTTOM), 1
        )

    def mark(standing: int, cell: CellView, shift: float) -> Mark | None:
        if cell.mean is None:
            return None
        low, high = (None if end is None else up(end) for end in (cell.low, cell.high))
        return Mark(across(standing, shift), up(cell.mean), low, high)

    series = []
    for number, curve in enumerate(curves):
        shift = (number - (len(curves) - 1) / 2) * DODGE
        now = (mark(point.standing, point.cell, shift) for point in curve.points)
        first = (mark(point.standing, point.first, shift) for point in curve.points)
        marks = tuple(filter(None, now))
        series.append(Series(curve.editor, marks, _line(marks), _line(list(filter(None, first)))))
    middle = (tall[0] + tall[1]) / 2
    return CurvePanel(
        title,
        curves[0].unit,
        tuple(series),
        tuple((across(step), f"{step:,}") for step in _some(steps)),
        tuple((up(value), f"{value:g}") for value in (tall[0], middle, tall[1])),
    )


def round_ends(low: float, high: float) -> tuple[float, float]:
    """Extend an axis outwards to round numbers.

    >>> round_ends(-31.5, 99.98), round_ends(0, 100), round_ends(0, 0.0153)
    ((-50.0, 100.0), (0.0, 100.0), (0.0, 0.02))
    """
    if not high > low:
        return low, low + 1.0
    step = 10 ** math.floor(math.log10(high - low)) / 2
    return round(math.floor(low / step) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)


def share_of_axis(value: float, ends: tuple[float, float]) -> float:
    """Return the relative position of a value on an axis, 0 to 1; 0.5 if both ends are equal."""
    if ends[1] > ends[0]:
        return (value - ends[0]) / (ends[1] - ends[0])
    return 0.5


def _some(steps: Sequence[int], most: int = 5) -> list[int]:
    """Return at most `most` evenly spaced steps, including the first and the last."""
    if len(steps) <= most:
        return list(steps)
    return [steps[round(number * (len(steps) - 1) / (most - 1))] for number in range(most)]


def _line(marks: Sequence[Mark]) -> str:
    return " ".join(f"{mark.x},{mark.y}" for mark in marks)
