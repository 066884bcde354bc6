"""The ways that are drawn are those that were taken: of parallel branches, of walks that fail, of routers."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from emend.evals.show.trace.graph_paths import Edge, GraphEdges, mermaid, paths_of
from emend.graphs.execution import run_graph
from emend.graphs.registry import GRAPHS


class Seen(TypedDict, total=False):
    """What ran, in the order in which it did."""

    seen: Annotated[list[str], operator.add]


def node(name: str) -> Any:
    """A node that says that it ran."""
    return lambda state: {"seen": [name]}


def edges_of(app: Any) -> GraphEdges:
    result = app.get_graph().to_json()
    edges = tuple(Edge(item["source"], item["target"], bool(item.get("conditional"))) for item in result["edges"])
    names = tuple(str(item["id"]) for item in result["nodes"] if item["id"] not in (START, END))
    return GraphEdges(graph="own", nodes=names, edges=edges)


def steps_through(*nodes: str, failed: bool = False) -> list[dict[str, Any]]:
    """The steps of one pass through nodes in a line; the last one may have failed."""
    return [
        {"node": name, "place": place, "after": [place - 1][: place - 1], "error": failed and place == len(nodes)}
        for place, name in enumerate(nodes, 1)
    ]


def made(nodes: str, edges: str, **chosen: Any) -> Any:
    """A compiled graph: `a>b` is an edge, `chosen` has routers by node."""
    graph = StateGraph(Seen)
    for name in nodes.split():
        graph.add_node(name, node(name))
    for edge in edges.split():
        ends = [{"start": START, "end": END}.get(name, name) for name in edge.split(">")]
        graph.add_edge(ends[0], ends[1])
    for name, (router, targets) in chosen.items():
        graph.add_conditional_edges(name, router, targets)
    return graph.compile()


def taken(app: Any) -> set[str]:
    """The edges that are drawn thick after a real run, with their marks."""
    graph = edges_of(app)
    paths = paths_of(graph, [step.model_dump() for step in run_graph(app, {"seen": []}, None)[1]])
    text = mermaid(graph, paths)
    names = {line.split("(")[0].strip(): line.split('"')[1] for line in text.splitlines() if line.endswith(")")}
    thick = [line.split() for line in text.splitlines() if "==>" in line]
    values = {f"{names[words[0]]}>{names[words[-1]]} {' '.join(words[1:-1])[5:-2]}" for words in thick}
    known = {(edge.source, edge.target) for edge in graph.edges}
    assert all(pair in known for path in paths for pair, _ in path.edges_taken)
    return values


def test_branches_lead_from_where_they_split_to_where_they_join_and_loops_end() -> None:
    app = made("fan nop compose", "start>fan start>nop fan>compose nop>compose compose>end")
    assert taken(app) == {"start>fan 1", "start>nop 2", "fan>compose 3", "nop>compose 3", "compose>end 4"}
    app = made("a b c d", "start>a a>b a>c c>d b>end d>end")
    assert taken(app) == {"start>a 1", "a>b 2", "a>c 3", "c>d 4", "b>end 5", "d>end 5"}
    app = made("a", "start>a", a=(lambda state: "a" if len(state["seen"]) < 3 else END, ["a", END]))
    assert taken(app) == {"start>a 1", "a>a 2, 3", "a>end 4"}
    app = joined("a", "b", "c")
    assert taken(app) == {"start>a 1", "start>b 2", "b>c 3", "a>join 4", "c>join 4", "join>end 5"}


def test_a_router_may_choose_several_and_nothing_is_made_up_where_no_edge_leads() -> None:
    both = made("fan a b c", "start>fan a>c b>c c>end", fan=(lambda state: ["a", "b"], ["a", "b"]))
    assert taken(both) == {"start>fan 1", "fan>a 2", "fan>b 3", "a>c 4", "b>c 4", "c>end 5"}
    sent = made("fan a c", "start>fan a>c c>end", fan=(lambda state: [Send("a", state)] * 3, ["a"]))
    assert taken(sent) == {"start>fan 1", "fan>a 2, 3, 4", "a>c 5", "c>end 6"}
    graph = GraphEdges(graph="g", nodes=("jump", "land"), edges=(Edge(START, "jump"), Edge("land", END)))
    text = mermaid(graph, paths_of(graph, steps_through("jump", "land")))
    assert text.count("==>") == 2 and 'n0 ==>|"1"| n1' in text and 'n2 ==>|"3"| n3' in text
    assert "class n0,n1,n2,n3 taken" in text and "-->" not in text


def joined(short: str, first: str, second: str) -> Any:
    """Two branches, of one node and of two, that a join waits for."""
    graph = StateGraph(Seen)
    for name in (short, first, second, "join"):
        graph.add_node(name, node(name))
    graph.add_edge(START, short)
    graph.add_edge(START, first)
    graph.add_edge(first, second)
    graph.add_edge([short, second], "join")
    graph.add_edge("join", END)
    return graph.compile()


@pytest.mark.parametrize(
    ("graph", "path", "failed"),
    [
        ("agent", ["plan", "use_tools", "plan"], False),  # what it chose is missing: it broke off there
        ("agent", ["plan"], True),
        ("rag", ["retrieve", "compose"], False),
        ("rag", ["retrieve", "compose", "respond"], True),  # all nodes ran, and the last one failed
    ],
)
def test_a_walk_that_failed_is_marked_where_it_did_and_has_no_end(graph: str, path: list[str], failed: bool) -> None:
    edges = edges_of(GRAPHS.load(graph)())
    text = mermaid(edges, paths_of(edges, steps_through(*path, failed=failed)))
    order = [START, *edges.nodes, *(end for edge in edges.edges for end in edge[:2])]
    place = {name: f"n{number}" for number, name in enumerate(dict.fromkeys(order))}
    assert f"class {place[path[-1]]} failed" in text and "classDef failed " in text
    assert not [line for line in text.splitlines() if "==>" in line and line.endswith(f" {place[END]}")]
    assert place[END] not in text.rpartition("    class n0")[2]


def test_walks_that_went_well_stand_beside_one_that_failed_in_the_order_of_their_steps() -> None:
    graph = edges_of(GRAPHS.load("rag")())
    whole = ("retrieve", "compose", "respond")
    (good,), (broken,) = paths_of(graph, steps_through(*whole)), paths_of(graph, steps_through(*whole, failed=True))
    text = mermaid(graph, [good, good, good, broken])
    assert 'n0 ==>|"4x"| n1' in text and 'n3 ==>|"3x"| n4' in text
    assert "class n0,n1,n2,n4 taken" in text and "class n3 failed" in text
    assert "failed" not in mermaid(graph, [good, good])
    nodes = ("retrieve", "compose", "respond")
    unnumbered = [{**step, "place": 0, "after": []} for step in steps_through(*nodes)]
    assert paths_of(graph, unnumbered) == paths_of(graph, steps_through(*nodes))


@pytest.mark.parametrize("graph", sorted({*GRAPHS.names()} - {"extract"}))
def test_probes_that_go_through_emends_graphs_twice_are_two_walks(graph: str) -> None:
    edges = edges_of(GRAPHS.load(graph)())
    paths = [[START]]
    while paths[0][-1] != END:  # the shortest way through
        first = paths.pop(0)
        paths += [[*first, edge.target] for edge in edges.edges if edge.source == first[-1]]
    nodes = paths[0][1:-1]
    once, again = paths_of(edges, steps_through(*nodes) * 2)
    assert once == again and once.nodes == tuple(nodes) and not once.failed
    assert once.edges_taken[-1][0][1] == END
