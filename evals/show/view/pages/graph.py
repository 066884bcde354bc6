"""The layout of a graph with the way that a probe took: nodes in layers from the start on."""

from collections.abc import Sequence
from typing import Any, Literal

from emend.evals.show.trace.graph_paths import END, ENDS, START, GraphEdges, Pair, paths_of
from emend.evals.show.view.views.case import GraphEdgeView, GraphNodeView, GraphView

MAX_NODES = 60


def graph_view(ways: GraphEdges | None, steps: Sequence[dict[str, Any]]) -> GraphView | None:
    """The graph with the edges that the probe's passes took; None without a graph, or with too large a one."""
    if ways is None or not steps or max(len(ways.nodes), len(ways.edges) // 4) > MAX_NODES:
        return None
    paths = paths_of(ways, steps)
    walked: dict[Pair, list[int]] = {}
    for path in paths:
        for pair, number in path.edges_taken:
            walked.setdefault(pair, []).append(number)
    ran = {node for path in paths for node in path.nodes} | {START} | {pair[1] for pair in walked if pair[1] == END}
    failed = {path.failed for path in paths}
    layers = _layers(ways)
    columns = dict[int, int]()
    nodes = []
    for node, layer in layers.items():
        column = columns[layer] = columns.get(layer, -1) + 1
        state: Literal["failed", "taken", ""] = "failed" if node in failed else "taken" if node in ran else ""
        nodes.append(GraphNodeView(id=node, label=ENDS.get(node, node), layer=layer, column=column, state=state))
    edges = [
        GraphEdgeView(
            source=edge.source,
            target=edge.target,
            label=", ".join(map(str, sorted(set(walked.get((edge.source, edge.target), ())))[:6])),
            walked=(edge.source, edge.target) in walked,
            chosen=edge.chosen,
        )
        for edge in dict.fromkeys(ways.edges)
    ]
    width = max(columns.values()) + 1
    return GraphView(
        name=ways.graph, nodes=tuple(nodes), edges=tuple(edges), layers=max(layers.values()) + 1, columns=width
    )


def _layers(ways: GraphEdges) -> dict[str, int]:
    """Layer of each node: the longest way from the start on which no node repeats, found by depth-first order."""
    following: dict[str, list[str]] = {}
    for edge in ways.edges:
        following.setdefault(edge.source, []).append(edge.target)
    order, back, on_way = list[str](), set[Pair](), set[str]()

    def visit(node: str) -> None:
        on_way.add(node)
        for child in following.get(node, ()):
            if child in on_way:
                back.add((node, child))
            elif child not in order:
                visit(child)
        on_way.discard(node)
        order.append(node)

    visit(START)
    layers = dict.fromkeys([START, *ways.nodes, END], 0)
    for node in reversed(order):
        for child in following.get(node, ()):
            if (node, child) not in back:
                layers[child] = max(layers.get(child, 0), layers.get(node, 0) + 1)
    layers[END] = max(layers.values()) if layers[END] == 0 else max(layers[END], *layers.values())
    return dict(sorted(layers.items(), key=lambda item: item[1]))
