"""Layout of graph drawings: boxes in layers, connected by curves with arrowheads."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from emend.evals.show.view.views import ViewData

NODE_WIDTH, NODE_HEIGHT, LAYER, COLUMN = 124.0, 28.0, 60.0, 156.0
Point = tuple[float, float]


class DrawnEdge(NamedTuple):
    """An edge with its path, its arrowhead and the position of its label."""

    edge: ViewData
    path: str
    head: str
    at: Point


class Drawing(NamedTuple):
    """A graph in pixels; `corners` are the top left corners of the nodes' boxes by node id.

    `words` describes the path taken, for screen readers.
    """

    left: float
    width: float
    height: float
    corners: dict[str, Point]
    edges: tuple[DrawnEdge, ...]
    words: str


def draw_graph(graph: ViewData) -> Drawing:
    """Place nodes in layers; edges that go back or skip a layer are drawn around the nodes."""
    wide = max(graph.columns, 1) * COLUMN
    places = {node.id: _center(node, graph, wide) for node in graph.nodes}
    edges = [
        _edge(edge, places, wide)
        for edge in graph.edges
        if edge.source in places and edge.target in places
    ]
    corners = {node: (x - NODE_WIDTH / 2, y - NODE_HEIGHT / 2) for node, (x, y) in places.items()}
    # edges that were taken are drawn last, on top of the others
    ordered = tuple(sorted(edges, key=lambda drawn: drawn.edge.walked))
    height = max(graph.layers, 1) * LAYER
    return Drawing(-44.0, wide + 88.0, height, corners, ordered, _words(graph))


def _words(graph: ViewData) -> str:
    labels = {node.id: node.label for node in graph.nodes}
    walk = [edge for edge in graph.edges if edge.walked]
    way = [
        f"{labels.get(edge.source, edge.source)} to {labels.get(edge.target, edge.target)}"
        for edge in walk
    ]
    return f"Graph {graph.name}; taken: {', '.join(way) or 'nothing'}"


def _center(node: ViewData, graph: ViewData, wide: float) -> Point:
    beside = [other.column for other in graph.nodes if other.layer == node.layer]
    shift = (wide - COLUMN * (max(beside) + 1)) / 2
    return shift + (node.column + 0.5) * COLUMN, (node.layer + 0.5) * LAYER


def _edge(edge: ViewData, places: dict[str, Point], wide: float) -> DrawnEdge:
    (x, y), (to_x, to_y) = places[edge.source], places[edge.target]
    half_width, half_height = NODE_WIDTH / 2, NODE_HEIGHT / 2
    if abs(to_y - y) < 1 and abs(to_x - x) > 1:  # to a node in the same layer
        side = math.copysign(1.0, to_x - x)
        start, end = x + side * half_width, to_x - side * (half_width + 6)
        points = [(start, y), (start, y), (end, y), (end, y)]
    elif abs(to_y - y - LAYER) < 1:  # to the next layer
        points = [
            (x, y + half_height),
            (x, y + LAYER / 2),
            (to_x, to_y - LAYER / 2),
            (to_x, to_y - half_height - 6),
        ]
    else:
        if to_y > y:
            side = 1.0
        else:
            side = -1.0
        bulge = 34.0 + 8.0 * min(3.0, abs(to_y - y) / LAYER)
        outside = (max(x, to_x) if side > 0 else min(x, to_x)) + side * (half_width + bulge)
        points = [
            (x + side * half_width, y),
            (outside, y),
            (outside, to_y),
            (to_x + side * (half_width + 6), to_y),
        ]
    return DrawnEdge(edge, _curve(points), _arrow(points), _middle(points))


def _curve(points: Sequence[Point]) -> str:
    (start, *rest) = [f"{x:.1f} {y:.1f}" for x, y in points]
    return f"M{start}C{' '.join(rest)}"


def _arrow(points: Sequence[Point]) -> str:
    """Return an arrowhead at the end of a path, as the corners of a triangle."""
    (before_x, before_y), (x, y) = next(
        pair for pair in reversed(list(pairwise(points))) if pair[0] != pair[1]
    )
    length = math.hypot(x - before_x, y - before_y)
    along = ((x - before_x) / length, (y - before_y) / length)
    corners = [(6.0, 0.0), (-1.0, 4.0), (-1.0, -4.0)]
    turned = (
        (x + a * along[0] - b * along[1], y + a * along[1] + b * along[0]) for a, b in corners
    )
    return " ".join(f"{corner_x:.1f},{corner_y:.1f}" for corner_x, corner_y in turned)


def _middle(points: Sequence[Point]) -> Point:
    (a, b, c, d) = points
    return round((a[0] + 3 * b[0] + 3 * c[0] + d[0]) / 8, 1), round(
        (a[1] + 3 * b[1] + 3 * c[1] + d[1]) / 8 + 4, 1
    )
