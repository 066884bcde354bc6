"""Nodes and edges of graphs, paths of probes through them, and Mermaid diagrams."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from emend.evals.log.lines import split_passes
from emend.evals.log.manifest import Manifest
from emend.memory.edit import FrozenModel

START, END = "__start__", "__end__"
ENDS = {START: "start", END: "end"}
TAKEN = "fill:#ffe08a,stroke:#8a6d00,stroke-width:2px,color:#000"
FAILED = "fill:#ffc4b8,stroke:#9c2a14,stroke-width:2px,stroke-dasharray:4,color:#000"
# Maximum number of step numbers in the label of an edge; a longer label is replaced by a count.
STEPS = 6

Pair = tuple[str, str]


class Edge(NamedTuple):
    """An edge between two nodes; `chosen` is True if a router decides on it."""

    source: str
    target: str
    chosen: bool = False


class GraphEdges(FrozenModel):
    """The nodes and edges of a graph, as stored in the run's manifest."""

    graph: str
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]

    def chooses(self, node: str) -> bool:
        """Return True if a router chooses the successor of a node."""
        return any(edge.chosen for edge in self.edges if edge.source == node)


class Path(NamedTuple):
    """Path of one pass through a graph.

    It has the nodes, and the edges taken, each with the number of the step it led to. `failed` is
    the node at which the pass broke off, or empty if it reached an end.
    """

    nodes: tuple[str, ...]
    edges_taken: tuple[tuple[Pair, int], ...]
    failed: str = ""


def paths_of(graph: GraphEdges, steps: Sequence[dict[str, Any]]) -> list[Path]:
    """Return the paths of a probe through a graph, from steps as returned by `steps_from_events`.

    Later passes that do not begin at an entry node are left out: after a chain was generated,
    targets are scored by the last node alone.
    """
    passes = split_passes(steps)
    entries = {edge.target for edge in graph.edges if edge.source == START}
    whole = [part for part in passes[1:] if part[0]["node"] in entries]
    return [_path(graph, part) for part in (*passes[:1], *whole)]


def _path(graph: GraphEdges, steps: Sequence[dict[str, Any]]) -> Path:
    known = {(edge.source, edge.target) for edge in graph.edges}
    # steps without numbers are from editors without a graph, and ran in sequence
    if not all(step["place"] for step in steps):
        steps = [
            {**step, "place": number, "after": [number - 1][: number - 1]}
            for number, step in enumerate(steps, 1)
        ]
    nodes = {step["place"]: step["node"] for step in steps}
    edges_taken: dict[tuple[Pair, int], None] = {}
    left = dict(nodes)  # steps without a successor
    for step in steps:
        before = [number for number in step["after"] if (nodes.get(number), step["node"]) in known]
        # a `Command` can lead to a node without an edge
        for number in before or step["after"]:
            left.pop(number, None)
        if step["after"]:
            sources = [nodes[number] for number in before]
        else:
            sources = [START]
        edges_taken |= {((source, step["node"]), step["place"]): None for source in sources}
    failed = next((step["node"] for step in steps if step["error"]), "")
    leading_on = {source for source, _ in known}
    if not failed and any(
        (node, END) not in known and node in leading_on for node in left.values()
    ):
        failed = steps[-1]["node"]
    if failed:
        ends = []
    else:
        ends = [((node, END), len(steps) + 1) for node in left.values()]
    return Path(
        tuple(nodes.values()),
        tuple(step for step in [*edges_taken, *ends] if step[0] in known),
        failed,
    )


def edges_of(manifest: Manifest, setting: str) -> dict[str, GraphEdges]:
    """Return the edges of each editor's graph in a setting, except for editors without a graph."""
    editors = manifest.editors.get(setting, {})
    graphs = {
        editor: manifest.graphs.get(str(known.get("graph", "")))
        for editor, known in editors.items()
    }
    return {
        editor: _edges(str(editors[editor]["graph"]), drawn["json"])
        for editor, drawn in graphs.items()
        if drawn
    }


def _edges(graph: str, drawn: Any) -> GraphEdges:
    edges = tuple(
        Edge(edge["source"], edge["target"], bool(edge.get("conditional")))
        for edge in drawn["edges"]
    )
    names = (str(node["id"]) for node in drawn["nodes"])
    return GraphEdges(
        graph=graph, nodes=tuple(name for name in names if name not in ENDS), edges=edges
    )


def mermaid(graph: GraphEdges, paths: Iterable[Path]) -> str:
    """Return a graph as Mermaid text, with thick edges and coloured nodes on the paths.

    If all paths are the same, edges are labelled with the numbers of their steps, else with the
    number of times they were taken. A path that broke off does not lead to an end; the node at
    which it broke off has a different colour.
    """
    counts = Counter(paths)
    marks = _marks(counts)
    edges = dict.fromkeys(graph.edges)
    ran = dict.fromkeys(node for path in counts for node in path.nodes)
    every = dict.fromkeys(
        [START, *graph.nodes, *(node for edge in edges for node in edge[:2]), *ran]
    )
    order = {node: number for number, node in enumerate(every)}
    names = {node: f"n{number}" for node, number in order.items()}
    lines = ["graph TD", *(f"    {_node(names[node], node)}" for node in names)]
    ordered = sorted(edges, key=lambda edge: (order[edge.source], order[edge.target]))
    lines += [f"    {_edge(names, edge, marks)}" for edge in ordered]
    broke = {path.failed for path in counts}
    through = {*ran, *(node for pair in marks for node in pair)} - broke
    return "\n".join(
        [*lines, *_class("taken", TAKEN, names, through), *_class("failed", FAILED, names, broke)]
    )


def _class(name: str, style: str, names: dict[str, str], nodes: set[str]) -> list[str]:
    styled = [names[node] for node in names if node in nodes]
    if styled:
        return [f"    classDef {name} {style}", f"    class {','.join(styled)} {name}"]
    return []


def _marks(paths: Counter[Path]) -> dict[Pair, str]:
    """Return the label of each edge on the paths."""
    counts = Counter[Pair]()
    for path, times in paths.items():
        for pair, _ in path.edges_taken:
            counts[pair] += times
    same: tuple[tuple[Pair, int], ...] = ()
    if len({path.edges_taken for path in paths}) == 1:
        same = next(iter(paths)).edges_taken
    steps: dict[Pair, list[int]] = {pair: [] for pair in counts}
    for pair, step in same:
        steps[pair].append(step)
    return {pair: _mark(steps[pair], count) for pair, count in counts.items()}


def _mark(steps: list[int], count: int) -> str:
    if 0 < len(steps) <= STEPS:
        return ", ".join(map(str, steps))
    return f"{count}x"


def _node(name: str, node: str) -> str:
    label = ENDS.get(node, node).replace('"', "#quot;")
    if node in ENDS:
        return f'{name}(["{label}"])'
    return f'{name}("{label}")'


def _edge(names: dict[str, str], edge: Edge, marks: dict[Pair, str]) -> str:
    mark = marks.get((edge.source, edge.target))
    if mark:
        arrow = f'==>|"{mark}"|'
    else:
        arrow = "-->"
        if edge.chosen:
            arrow = "-.->"
    return f"{names[edge.source]} {arrow} {names[edge.target]}"
