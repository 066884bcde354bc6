"""The nodes and edges of graphs, the paths that probes took through them, and their drawing as Mermaid text."""

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
STEPS = 6
"""An edge that one path takes more often than this is labelled with a count instead of its step numbers."""

Pair = tuple[str, str]


class Edge(NamedTuple):
    """An edge from node to node; `chosen` where a router decides about it."""

    source: str
    target: str
    chosen: bool = False


class GraphEdges(FrozenModel):
    """The nodes and edges of a graph, as the run's manifest keeps them."""

    graph: str
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]

    def chooses(self, node: str) -> bool:
        """Return whether a router decides what follows the node."""
        return any(edge.chosen for edge in self.edges if edge.source == node)


class Path(NamedTuple):
    """One pass through a graph: its nodes, and the edges it took, each with the number of the step it led to.

    `failed` is the node at which the pass broke off, empty if it reached an end.
    """

    nodes: tuple[str, ...]
    edges_taken: tuple[tuple[Pair, int], ...]
    failed: str = ""


def paths_of(graph: GraphEdges, steps: Sequence[dict[str, Any]]) -> list[Path]:
    """The passes of one probe through a graph, from its steps as `steps_from_events` gives them."""
    return [_path(graph, part) for part in split_passes(steps)]


def _path(graph: GraphEdges, steps: Sequence[dict[str, Any]]) -> Path:
    known = {(edge.source, edge.target) for edge in graph.edges}
    if not all(step["place"] for step in steps):  # not numbered: an editor made them itself, one after the other
        steps = [{**step, "place": place, "after": [place - 1][: place - 1]} for place, step in enumerate(steps, 1)]
    nodes = {step["place"]: step["node"] for step in steps}
    edges_taken: dict[tuple[Pair, int], None] = {}
    left = dict(nodes)  # steps that led to no other one
    for step in steps:
        before = [place for place in step["after"] if (nodes.get(place), step["node"]) in known]
        for place in before or step["after"]:  # a node may be reached without an edge, by a `Command`
            left.pop(place, None)
        sources = [nodes[place] for place in before] if step["after"] else [START]
        edges_taken |= {((source, step["node"]), step["place"]): None for source in sources}
    failed = next((step["node"] for step in steps if step["error"]), "")
    leading_on = {source for source, _ in known}
    if not failed and any((node, END) not in known and node in leading_on for node in left.values()):
        failed = steps[-1]["node"]
    ends = [] if failed else [((node, END), len(steps) + 1) for node in left.values()]
    return Path(tuple(nodes.values()), tuple(step for step in [*edges_taken, *ends] if step[0] in known), failed)


def edges_of(manifest: Manifest, setting: str) -> dict[str, GraphEdges]:
    """By editor of a setting, the edges of its graph; without editors that have none."""
    editors = manifest.editors.get(setting, {})
    graphs = {editor: manifest.graphs.get(str(known.get("graph", ""))) for editor, known in editors.items()}
    return {editor: _edges(str(editors[editor]["graph"]), drawn["json"]) for editor, drawn in graphs.items() if drawn}


def _edges(graph: str, drawn: Any) -> GraphEdges:
    edges = tuple(Edge(edge["source"], edge["target"], bool(edge.get("conditional"))) for edge in drawn["edges"])
    names = (str(node["id"]) for node in drawn["nodes"])
    return GraphEdges(graph=graph, nodes=tuple(name for name in names if name not in ENDS), edges=edges)


def mermaid(graph: GraphEdges, paths: Iterable[Path]) -> str:
    """The graph as Mermaid text, with the edges that were taken drawn thick and their nodes in colour.

    Where all paths are the same, an edge is labelled with the numbers of its steps; else with how often it was taken. A
    path that broke off leads to no end; the node at which it did has a colour of its own.
    """
    counts = Counter(paths)
    marks = _marks(counts)
    edges = dict.fromkeys(graph.edges)
    ran = dict.fromkeys(node for path in counts for node in path.nodes)
    every = dict.fromkeys([START, *graph.nodes, *(node for edge in edges for node in edge[:2]), *ran])
    order = {node: place for place, node in enumerate(every)}
    names = {node: f"n{place}" for node, place in order.items()}
    lines = ["graph TD", *(f"    {_node(names[node], node)}" for node in names)]
    ordered = sorted(edges, key=lambda edge: (order[edge.source], order[edge.target]))
    lines += [f"    {_edge(names, edge, marks)}" for edge in ordered]
    broke = {path.failed for path in counts}
    through = {*ran, *(node for pair in marks for node in pair)} - broke
    return "\n".join([*lines, *_class("taken", TAKEN, names, through), *_class("failed", FAILED, names, broke)])


def _class(name: str, style: str, names: dict[str, str], nodes: set[str]) -> list[str]:
    styled = [names[node] for node in names if node in nodes]
    return [f"    classDef {name} {style}", f"    class {','.join(styled)} {name}"] if styled else []


def _marks(paths: Counter[Path]) -> dict[Pair, str]:
    """The label of each edge that was taken."""
    counts = Counter[Pair]()
    for path, times in paths.items():
        for pair, _ in path.edges_taken:
            counts[pair] += times
    same = next(iter(paths)).edges_taken if len({path.edges_taken for path in paths}) == 1 else ()
    return {pair: _mark([step for edge, step in same if edge == pair], count) for pair, count in counts.items()}


def _mark(steps: list[int], count: int) -> str:
    return ", ".join(map(str, steps)) if 0 < len(steps) <= STEPS else f"{count}x"


def _node(name: str, node: str) -> str:
    label = ENDS.get(node, node).replace('"', "#quot;")
    return f'{name}(["{label}"])' if node in ENDS else f'{name}("{label}")'


def _edge(names: dict[str, str], edge: Edge, marks: dict[Pair, str]) -> str:
    mark = marks.get((edge.source, edge.target))
    arrow = f'==>|"{mark}"|' if mark else "-.->" if edge.chosen else "-->"
    return f"{names[edge.source]} {arrow} {names[edge.target]}"
