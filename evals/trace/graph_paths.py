"""Ways through graphs: where each node may lead, and which of the ways were taken."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from emend.evals.log.manifest import Manifest
from emend.memory.edit import FrozenModel

START, END = "__start__", "__end__"
ENDS = {START: "start", END: "end"}
TAKEN = "fill:#ffe08a,stroke:#8a6d00,stroke-width:2px,color:#000"
FAILED = "fill:#ffc4b8,stroke:#9c2a14,stroke-width:2px,stroke-dasharray:4,color:#000"
STEPS = 6
"""Of a way that is taken more often in one walk, the number of times is told and not each step."""


class Edge(NamedTuple):
    """A way from node to node; `chosen` where a router decides about it."""

    source: str
    target: str
    chosen: bool = False


class Ways(FrozenModel):
    """The nodes of a graph, and its edges, as the run's manifest keeps them."""

    graph: str
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]

    def chooses(self, node: str) -> bool:
        """Whether a router decides what follows the node."""
        return any(edge.chosen for edge in self.edges if edge.source == node)


class Way(NamedTuple):
    """An edge that was taken, and the number of the step that it led to."""

    source: str
    target: str
    step: int


class Walk:
    """One walk through a graph, told from the order in which its nodes ended: what it took of the graph's edges.

    A plain edge is taken when its target runs, however many branches run beside each other; what a router chose is told
    by the node that ran and that no plain edge leads to. `failed` is the node at which the walk broke off, or empty.
    """

    def __init__(self, ways: Ways) -> None:
        self.ways = ways
        self.nodes: list[str] = []
        self.taken: list[Way] = []
        self.failed = ""
        self._waiting: dict[tuple[str, str], None] = {}
        """Plain edges whose source ran, and whose target has not yet."""
        self._routers: dict[str, bool] = {}
        """Those that ran, the latest last, and whether their choice is still to be seen."""
        self._ran(START)

    @property
    def over(self) -> bool:
        """Whether nothing leads on but to the end."""
        return all(target == END for _, target in self._waiting) and not any(self._routers.values())

    def leads_to(self, node: str) -> list[tuple[str, str]]:
        """The edges over which the walk would come to a node next; none where it cannot."""
        if plain := [pair for pair in self._waiting if pair[1] == node]:
            return plain
        found = [one for one in reversed(self._routers) if Edge(one, node, True) in self.ways.edges]
        undecided = [one for one in found if self._routers[one]]
        if node == END:
            return [(one, node) for one in undecided[:1]]
        return [(one, node) for one in (undecided or found)[:1]]  # one that has chosen may have chosen several

    def go(self, node: str) -> None:
        """The next node has ended."""
        self._take(node)
        self.nodes.append(node)
        self._ran(node)

    def end(self, failed: str = "") -> None:
        """No more nodes ran: the walk is through, or it broke off at a node."""
        if failed:
            self.failed = failed
        elif self.leads_to(END):
            self._take(END)
        elif not self.over:
            self.failed = self.nodes[-1]

    def _take(self, node: str) -> None:
        for pair in self.leads_to(node):
            self.taken.append(Way(*pair, len(self.nodes) + 1))
            if pair in self._waiting:
                del self._waiting[pair]
            else:
                self._routers[pair[0]] = False

    def _ran(self, node: str) -> None:
        own = [edge for edge in self.ways.edges if edge.source == node]
        self._waiting |= dict.fromkeys((edge.source, edge.target) for edge in own if not edge.chosen)
        self._routers.pop(node, None)
        if any(edge.chosen for edge in own):
            self._routers[node] = True


def walks_of(ways: Ways, path: Sequence[str], failed: str = "") -> list[Walk]:
    """The walks of one probe: where a walk is over, or nothing leads on, and the graph begins so, a new one begins."""
    walks: list[Walk] = []
    for node in path:
        begins = any(edge.source == START and edge.target == node for edge in ways.edges)
        if not walks or (begins and (walks[-1].over or not walks[-1].leads_to(node))):
            walks.append(Walk(ways))
        walks[-1].go(node)
    for walk in walks:
        walk.end(failed if walk is walks[-1] else "")
    return walks


def ways_of(manifest: Manifest, setting: str) -> dict[str, Ways]:
    """By editor of a setting, the ways of its graph."""
    told = manifest.editors.get(setting, {})
    graphs = {editor: manifest.graphs.get(str(known.get("graph", ""))) for editor, known in told.items()}
    return {editor: _ways(str(told[editor]["graph"]), drawn["json"]) for editor, drawn in graphs.items() if drawn}


def _ways(graph: str, told: dict[str, Any]) -> Ways:
    edges = tuple(Edge(one["source"], one["target"], bool(one.get("conditional"))) for one in told["edges"])
    names = (str(node["id"]) for node in told["nodes"])
    return Ways(graph=graph, nodes=tuple(name for name in names if name not in ENDS), edges=edges)


def failed_at(steps: Iterable[Mapping[str, Any]]) -> str:
    """The node at which a walk failed; empty where it did not."""
    return next((step["node"] for step in steps if step["error"]), "")


def drawn(ways: Ways, paths: Iterable[Sequence[str]], failed: Iterable[str] = ()) -> str:
    """The graph as Mermaid text, with the ways that were taken drawn thick and the nodes they lead through in colour.

    Where all walks are the same, a way has the numbers of its steps; else how often it was taken. No edge is drawn that
    the graph has not, and a walk that broke off leads to no end: the node at which it did has a colour of its own.

    Args:
        ways: of the graph.
        paths: the nodes that probes went through, one sequence a probe.
        failed: for each of them the node that failed, else an empty text; without it a walk that fails is told by where
            it breaks off, which cannot be seen of one that fails at its last node.
    """
    counts = Counter((tuple(path), broken or "") for path, broken in zip_longest(paths, failed))
    walks = [(walk, count) for (path, broken), count in counts.items() for walk in walks_of(ways, path, broken)]
    marks = _marks(walks)
    edges = dict.fromkeys(ways.edges)
    ran = dict.fromkeys(node for walk, _ in walks for node in walk.nodes)
    every = dict.fromkeys([START, *ways.nodes, *(node for edge in edges for node in edge[:2]), *ran])
    order = {node: place for place, node in enumerate(every)}
    names = {node: f"n{place}" for node, place in order.items()}
    lines = ["graph TD", *(f"    {_node(names[node], node)}" for node in names)]
    ordered = sorted(edges, key=lambda edge: (order[edge.source], order[edge.target]))
    lines += [f"    {_edge(names, edge, marks)}" for edge in ordered]
    broke = {walk.failed for walk, _ in walks}
    through = {*ran, *(node for step in marks for node in step)} - broke
    return "\n".join([*lines, *_class("taken", TAKEN, names, through), *_class("failed", FAILED, names, broke)])


def _class(name: str, style: str, names: dict[str, str], nodes: set[str]) -> list[str]:
    own = [names[node] for node in names if node in nodes]
    return [f"    classDef {name} {style}", f"    class {','.join(own)} {name}"] if own else []


def _marks(walks: list[tuple[Walk, int]]) -> dict[tuple[str, str], str]:
    """What stands on each way that was taken."""
    taken = Counter[tuple[str, str]]()
    for walk, count in walks:
        for way in walk.taken:
            taken[way[:2]] += count
    same = walks[0][0].taken if len({tuple(walk.taken) for walk, _ in walks}) == 1 else []
    return {step: _mark([way.step for way in same if way[:2] == step], count) for step, count in taken.items()}


def _mark(steps: list[int], count: int) -> str:
    return ", ".join(map(str, steps)) if 0 < len(steps) <= STEPS else f"{count}x"


def _node(name: str, node: str) -> str:
    label = ENDS.get(node, node).replace('"', "#quot;")
    return f'{name}(["{label}"])' if node in ENDS else f'{name}("{label}")'


def _edge(names: dict[str, str], edge: Edge, marks: dict[tuple[str, str], str]) -> str:
    mark = marks.get((edge.source, edge.target))
    arrow = f'==>|"{mark}"|' if mark else "-.->" if edge.chosen else "-->"
    return f"{names[edge.source]} {arrow} {names[edge.target]}"
