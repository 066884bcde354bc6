"""Templates of the viewer, their links and geometry: values are escaped, keys hidden, control characters visible."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from emend.evals.show.report.secondary import cost_text
from emend.evals.show.view.pages.common import text_of
from emend.evals.show.view.views import CellView, Page, ViewData
from emend.memory.escape import visible_controls
from emend.memory.redaction import hide_keys, key_hider

INSET = 5.0
"""Pixels at both ends of an axis, so that a dot there is whole."""
NODE_WIDTH, NODE_HEIGHT, LAYER, COLUMN = 124.0, 28.0, 60.0, 156.0
PANEL_WIDTH, PANEL_HEIGHT = 300.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 38.0, 14.0, 8.0, 34.0
"""Margins of a panel of curves."""
DODGE = 3.0
"""Pixels between the marks of two editors after the same number of edits, so that their intervals stay apart."""

Point = tuple[float, float]


class Whisker(NamedTuple):
    """Places on an axis in pixels: the mean, and the ends of the interval if there is one."""

    x: float
    start: float | None
    end: float | None


def whisker(
    mean: float | None, low: float | None, high: float | None, axis: tuple[float, float], width: float = 140.0
) -> Whisker | None:
    """Place an estimate on an axis of so many pixels; None without a mean."""
    if mean is None:
        return None
    if low is None or high is None:
        return Whisker(_place(mean, axis, width), None, None)
    return Whisker(_place(mean, axis, width), _place(low, axis, width), _place(high, axis, width))


def _place(value: float, axis: tuple[float, float], width: float) -> float:
    return round(INSET + min(1.0, max(0.0, _share(value, axis))) * (width - 2 * INSET), 1)


def symmetric(values: Iterable[float | None]) -> tuple[float, float]:
    """Ends of an axis around zero that holds all values; from -1 to 1 without any."""
    reach = max((abs(value) for value in values if value is not None), default=0.0) or 1.0
    return -reach, reach


class Mark(NamedTuple):
    """A point of a curve with its interval, in pixels."""

    x: float
    y: float
    low: float | None
    high: float | None


class Series(NamedTuple):
    """An editor's curve, and that of the same cases right after their own edits."""

    editor: str
    marks: tuple[Mark, ...]
    line: str
    first: str


class CurvePanel(NamedTuple):
    """The curves of all editors in one metric; ticks of the axes are places and labels."""

    title: str
    unit: str
    series: tuple[Series, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]


def panels(curves: Sequence[ViewData]) -> list[CurvePanel]:
    """One panel for each setting, mode and metric, in their order."""
    groups: dict[tuple[str, str, str], list[ViewData]] = {}
    for curve in curves:
        if any(point.cell.mean is not None for point in curve.points):
            groups.setdefault((curve.setting, curve.mode, curve.metric), []).append(curve)
    several = len({(setting, mode) for setting, mode, _ in groups}) > 1
    return [
        _panel(f"{metric}, {setting}" if several else metric, members)
        for (setting, _, metric), members in groups.items()
    ]


def _panel(title: str, curves: Sequence[ViewData]) -> CurvePanel:
    steps = sorted({point.standing for curve in curves for point in curve.points})
    wide = (float(min(steps, default=0)), float(max(steps, default=1)))
    tall = round_ends(min(curve.axis[0] for curve in curves), max(curve.axis[1] for curve in curves))

    def across(value: float, shift: float = 0.0) -> float:
        return round(LEFT + _share(value, wide) * (PANEL_WIDTH - LEFT - RIGHT) + shift, 1)

    def up(value: float) -> float:
        return round(PANEL_HEIGHT - BOTTOM - _share(value, tall) * (PANEL_HEIGHT - TOP - BOTTOM), 1)

    def mark(standing: int, cell: CellView, shift: float) -> Mark | None:
        if cell.mean is None:
            return None
        low, high = (None if end is None else up(end) for end in (cell.low, cell.high))
        return Mark(across(standing, shift), up(cell.mean), low, high)

    series = []
    for number, curve in enumerate(curves):
        shift = (number - (len(curves) - 1) / 2) * DODGE
        now = [place for point in curve.points if (place := mark(point.standing, point.cell, shift))]
        first = [place for point in curve.points if (place := mark(point.standing, point.first, shift))]
        series.append(Series(curve.editor, tuple(now), _line(now), _line(first)))
    middle = (tall[0] + tall[1]) / 2
    return CurvePanel(
        title,
        curves[0].unit,
        tuple(series),
        tuple((across(step), f"{step:,}") for step in _some(steps)),
        tuple((up(value), f"{value:g}") for value in (tall[0], middle, tall[1])),
    )


def round_ends(low: float, high: float) -> tuple[float, float]:
    """Ends of an axis, moved outwards to round numbers.

    >>> round_ends(-31.5, 99.98), round_ends(0, 100), round_ends(0, 0.0153)
    ((-50.0, 100.0), (0.0, 100.0), (0.0, 0.02))
    """
    if not high > low:
        return low, low + 1.0
    step = 10 ** math.floor(math.log10(high - low)) / 2
    return round(math.floor(low / step) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)


def _share(value: float, ends: tuple[float, float]) -> float:
    return (value - ends[0]) / (ends[1] - ends[0]) if ends[1] > ends[0] else 0.5


def _some(steps: Sequence[int], most: int = 5) -> list[int]:
    """At most so many of the steps, with the first and the last."""
    if len(steps) <= most:
        return list(steps)
    return [steps[round(place * (len(steps) - 1) / (most - 1))] for place in range(most)]


def _line(marks: Sequence[Mark]) -> str:
    return " ".join(f"{mark.x},{mark.y}" for mark in marks)


class DrawnEdge(NamedTuple):
    """An edge with its path and arrowhead, and the place of its label."""

    edge: ViewData
    path: str
    head: str
    at: Point


class Drawing(NamedTuple):
    """A graph in pixels, with the corner of each node's box by its id, and the way through it in words."""

    left: float
    width: float
    height: float
    corners: dict[str, Point]
    edges: tuple[DrawnEdge, ...]
    words: str


def draw_graph(graph: ViewData) -> Drawing:
    """Place the nodes in layers; edges that go back or pass over a layer run around the nodes."""
    wide = max(graph.columns, 1) * COLUMN
    places = {node.id: _center(node, graph, wide) for node in graph.nodes}
    edges = [_edge(edge, places, wide) for edge in graph.edges if edge.source in places and edge.target in places]
    corners = {node: (x - NODE_WIDTH / 2, y - NODE_HEIGHT / 2) for node, (x, y) in places.items()}
    # an untaken edge is drawn first, so that it crosses none that was taken
    ordered = tuple(sorted(edges, key=lambda drawn: drawn.edge.walked))
    height = max(graph.layers, 1) * LAYER
    return Drawing(-44.0, wide + 88.0, height, corners, ordered, _words(graph))


def _words(graph: ViewData) -> str:
    labels = {node.id: node.label for node in graph.nodes}
    walk = [edge for edge in graph.edges if edge.walked]
    way = [f"{labels.get(edge.source, edge.source)} to {labels.get(edge.target, edge.target)}" for edge in walk]
    return f"Graph {graph.name}; taken: {', '.join(way) or 'nothing'}"


def _center(node: ViewData, graph: ViewData, wide: float) -> Point:
    beside = [other.column for other in graph.nodes if other.layer == node.layer]
    shift = (wide - COLUMN * (max(beside) + 1)) / 2
    return shift + (node.column + 0.5) * COLUMN, (node.layer + 0.5) * LAYER


def _edge(edge: ViewData, places: dict[str, Point], wide: float) -> DrawnEdge:
    (x, y), (to_x, to_y) = places[edge.source], places[edge.target]
    half_width, half_height = NODE_WIDTH / 2, NODE_HEIGHT / 2
    if abs(to_y - y) < 1 and abs(to_x - x) > 1:  # to a node beside it
        side = math.copysign(1.0, to_x - x)
        start, end = x + side * half_width, to_x - side * (half_width + 6)
        points = [(start, y), (start, y), (end, y), (end, y)]
    elif abs(to_y - y - LAYER) < 1:  # to the next layer
        points = [(x, y + half_height), (x, y + LAYER / 2), (to_x, to_y - LAYER / 2), (to_x, to_y - half_height - 6)]
    else:
        side = 1.0 if to_y > y else -1.0
        bulge = 34.0 + 8.0 * min(3.0, abs(to_y - y) / LAYER)
        outside = (max(x, to_x) if side > 0 else min(x, to_x)) + side * (half_width + bulge)
        points = [(x + side * half_width, y), (outside, y), (outside, to_y), (to_x + side * (half_width + 6), to_y)]
    return DrawnEdge(edge, _curve(points), _arrow(points), _middle(points))


def _curve(points: Sequence[Point]) -> str:
    (start, *rest) = [f"{x:.1f} {y:.1f}" for x, y in points]
    return f"M{start}C{' '.join(rest)}"


def _arrow(points: Sequence[Point]) -> str:
    """A triangle at the end, which points along the last stretch."""
    (before_x, before_y), (x, y) = next(pair for pair in reversed(list(pairwise(points))) if pair[0] != pair[1])
    length = math.hypot(x - before_x, y - before_y)
    along = ((x - before_x) / length, (y - before_y) / length)
    corners = [(6.0, 0.0), (-1.0, 4.0), (-1.0, -4.0)]
    turned = ((x + a * along[0] - b * along[1], y + a * along[1] + b * along[0]) for a, b in corners)
    return " ".join(f"{corner_x:.1f},{corner_y:.1f}" for corner_x, corner_y in turned)


def _middle(points: Sequence[Point]) -> Point:
    (a, b, c, d) = points
    return round((a[0] + 3 * b[0] + 3 * c[0] + d[0]) / 8, 1), round((a[1] + 3 * b[1] + 3 * c[1] + d[1]) / 8 + 4, 1)


LEFT_OUT = "left-out.html"
"""Page of an export to which links lead whose page is not in it."""
_UNFIT = re.compile(r"[^A-Za-z0-9]+")


@pass_context
def page_url(context: Context, link: str) -> str:
    """A link from the viewer's root, as the page that shows it writes it."""
    path, _, place = link.partition("#")
    exported = context.get("exported")
    if exported is not None and path not in exported and not path.startswith("static/"):
        path, place = LEFT_OUT, ""
    if context.get("single") is None:
        return f"{context['page'].root}{path}" + (f"#{place}" if place else "")
    return f"#{page_key(path)}--{place}" if place else f"#{page_key(path)}"


@pass_context
def page_anchor(context: Context, name: str) -> str:
    """The id of a part of the page; in a file that holds all pages, with the page's key before it."""
    key = context.get("single")
    return name if key is None else f"{key}--{name}"


def page_key(path: str) -> str:
    """The id of a page in a file that holds all pages."""
    return _UNFIT.sub("-", path.removesuffix(".html"))


TEMPLATES, STATIC = Path(__file__).with_name("templates"), Path(__file__).with_name("static")
_hide: ContextVar[Callable[[str], str]] = ContextVar("hide", default=hide_keys)
"""Hides the keys that were known when a page began to be rendered."""


def _finalize(value: Any) -> Any:
    """Make a text of a run harmless; what templates made themselves is markup already, and stays."""
    return visible_controls(_hide.get()(value)) if type(value) is str else value


@cache
def environment() -> Environment:
    """The environment of all templates."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawing = whisker, symmetric, panels, draw_graph
    templates.globals.update({each.__name__: each for each in (*drawing, cost_text, text_of)})
    templates.globals.update(url=page_url, anchor=page_anchor)
    return templates


def render(page: Page, **variables: Any) -> str:
    """A page as HTML; an export gives its templates more variables."""
    token = _hide.set(key_hider())
    try:
        return environment().get_template(f"{page.head.name}.html").render(page=page.head, data=page.data, **variables)
    finally:
        _hide.reset(token)
