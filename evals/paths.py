"""Ways through graphs: where each node may lead, and which of the ways were taken."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from emend.evals.manifest import Manifest
from emend.memory.edit import Word

START, END = "__start__", "__end__"
ENDS = {START: "start", END: "end"}
STEPS = 6
"""Of a way that is taken more often in one walk, the number of times is told and not each step."""


class Edge(NamedTuple):
    """A way from node to node; `chosen` where a router decides about it."""

    source: str
    target: str
    chosen: bool = False


class Ways(Word):
    """The nodes of a graph, and its edges, as the run's manifest keeps them."""

    graph: str
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]

    def chooses(self, node: str) -> bool:
        """Whether a router decides what follows the node."""
        return any(edge.chosen for edge in self.edges if edge.source == node)

    def walks(self, path: Sequence[str]) -> list[tuple[str, ...]]:
        """The nodes by walk through the graph: where no edge leads on, a new walk begins."""
        known = {(edge.source, edge.target) for edge in self.edges}
        found: list[list[str]] = []
        for node in path:
            if not found or (found[-1][-1], node) not in known:
                found.append([])
            found[-1].append(node)
        return [tuple(walk) for walk in found]


def ways_of(manifest: Manifest, setting: str) -> dict[str, Ways]:
    """By editor of a setting, the ways of its graph."""
    told = manifest.editors.get(setting, {})
    graphs = {editor: manifest.graphs.get(str(known.get("graph", ""))) for editor, known in told.items()}
    return {editor: _ways(str(told[editor]["graph"]), drawn["json"]) for editor, drawn in graphs.items() if drawn}


def _ways(graph: str, told: dict[str, Any]) -> Ways:
    edges = tuple(Edge(one["source"], one["target"], bool(one.get("conditional"))) for one in told["edges"])
    names = (str(node["id"]) for node in told["nodes"])
    return Ways(graph=graph, nodes=tuple(name for name in names if name not in ENDS), edges=edges)


def drawn(ways: Ways, paths: Iterable[Sequence[str]]) -> str:
    """The graph as Mermaid text, with the ways that were taken drawn thick and the nodes they lead through in colour.

    Where all walks are the same, a way has the numbers of its steps; else how often it was taken.

    Args:
        ways: of the graph.
        paths: the nodes that probes went through, one sequence a probe.
    """
    walks = [walk for path in paths for walk in ways.walks(path)]
    steps = [list(pairwise((START, *walk, END))) for walk in walks]
    taken = Counter(step for walk in steps for step in walk)
    same = len(set(walks)) == 1
    marks = {step: _mark(steps[0] if same else [], step, count) for step, count in taken.items()}
    edges = list(ways.edges)
    known = {(edge.source, edge.target) for edge in edges}
    edges += [Edge(*step) for step in taken if step not in known]  # a walk that broke off, or an unknown node
    every = dict.fromkeys([START, *ways.nodes, *(node for edge in edges for node in edge[:2])])
    order = {node: place for place, node in enumerate(every)}
    names = {node: f"n{place}" for node, place in order.items()}
    edges.sort(key=lambda edge: (order[edge.source], order[edge.target]))
    lines = ["graph TD", *(f"    {_node(names[node], node)}" for node in names)]
    lines += [f"    {_edge(names, edge, marks)}" for edge in edges]
    lines.append("    classDef taken fill:#ffe08a,stroke:#8a6d00,stroke-width:2px,color:#000")
    through = [names[node] for node in names if any(node in step for step in taken)]
    return "\n".join([*lines, f"    class {','.join(through)} taken"] if through else lines)


def _mark(walk: list[tuple[str, str]], step: tuple[str, str], count: int) -> str:
    numbers = [str(number) for number, one in enumerate(walk, 1) if one == step]
    return ", ".join(numbers) if 0 < len(numbers) <= STEPS else f"{count}x"


def _node(name: str, node: str) -> str:
    label = ENDS.get(node, node).replace('"', "#quot;")
    return f'{name}(["{label}"])' if node in ENDS else f'{name}("{label}")'


def _edge(names: dict[str, str], edge: Edge, marks: dict[tuple[str, str], str]) -> str:
    mark = marks.get((edge.source, edge.target))
    arrow = f'==>|"{mark}"|' if mark else "-.->" if edge.chosen else "-->"
    return f"{names[edge.source]} {arrow} {names[edge.target]}"
