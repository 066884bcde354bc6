"""View of an editor's graph on the page of a case."""

from collections.abc import Sequence
from typing import Any

from emend.evals.show.trace.graph_paths import END, ENDS, START, GraphEdges, Pair, paths_of
from emend.evals.show.view.views import ViewData

MAX_NODES = 60


def graph_view(ways: GraphEdges | None, steps: Sequence[dict[str, Any]]) -> ViewData | None:
    """Return the view of a graph with the edges that the passes of a probe took.

    Nodes are placed by layer, counted from the start, and by column within the layer. `chosen`
    marks edges that a router chooses. Return None without a graph or steps, or if the graph has
    more than `MAX_NODES` nodes or 4 times as many edges.
    """
    if ways is None or not steps or max(len(ways.nodes), len(ways.edges) // 4) > MAX_NODES:
        return None
    paths = paths_of(ways, steps)
    walked: dict[Pair, list[int]] = {}
    for path in paths:
        for pair, number in path.edges_taken:
            walked.setdefault(pair, []).append(number)
    ran = (
        {node for path in paths for node in path.nodes}
        | {START}
        | {pair[1] for pair in walked if pair[1] == END}
    )
    failed = {path.failed for path in paths}
    layers = _layers(ways)
    columns = dict[int, int]()
    nodes = []
    for node, layer in layers.items():
        column = columns[layer] = columns.get(layer, -1) + 1
        if node in failed:
            state = "failed"
        else:
            state = ""
            if node in ran:
                state = "taken"
        nodes.append(
            ViewData(id=node, label=ENDS.get(node, node), layer=layer, column=column, state=state)
        )
    edges = [
        ViewData(
            source=edge.source,
            target=edge.target,
            label=", ".join(map(str, sorted(set(walked.get((edge.source, edge.target), ())))[:6])),
            walked=(edge.source, edge.target) in walked,
            chosen=edge.chosen,
        )
        for edge in dict.fromkeys(ways.edges)
    ]
    width = max(columns.values()) + 1
    return ViewData(
        name=ways.graph, nodes=nodes, edges=edges, layers=max(layers.values()) + 1, columns=width
    )


def _layers(ways: GraphEdges) -> dict[str, int]:
    """Assign each node a layer.

    The layer is the length of the longest path from the start, ignoring the back edges found by a
    depth-first search.
    """
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
    if layers[END] == 0:
        layers[END] = max(layers.values())
    else:
        layers[END] = max(layers[END], *layers.values())
    return dict(sorted(layers.items(), key=lambda item: item[1]))
