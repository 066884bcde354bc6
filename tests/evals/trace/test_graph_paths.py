"""The ways that are drawn are those that were taken: of parallel branches, of walks that fail, of routers."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from emend.evals.trace.graph_paths import Edge, Ways, drawn, failed_at, walks_of
from emend.graphs.registry import GRAPHS
from emend.graphs.running import run_graph


class Seen(TypedDict, total=False):
    """What ran, in the order in which it did."""

    seen: Annotated[list[str], operator.add]


def node(name: str) -> Any:
    """A node that says that it ran."""
    return lambda state: {"seen": [name]}


def ways_of(app: Any) -> Ways:
    told = app.get_graph().to_json()
    edges = tuple(Edge(one["source"], one["target"], bool(one.get("conditional"))) for one in told["edges"])
    names = tuple(str(one["id"]) for one in told["nodes"] if one["id"] not in (START, END))
    return Ways(graph="own", nodes=names, edges=edges)


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


def taken(app: Any, failed: str = "") -> set[str]:
    """The edges that are drawn thick after a real run, with their marks."""
    ways = ways_of(app)
    path = [step.node for step in run_graph(app, {"seen": []}, None)[1]]
    text = drawn(ways, [path], [failed])
    names = {line.split("(")[0].strip(): line.split('"')[1] for line in text.splitlines() if line.endswith(")")}
    thick = [line.split() for line in text.splitlines() if "==>" in line]
    found = {f"{names[words[0]]}>{names[words[-1]]} {' '.join(words[1:-1])[5:-2]}" for words in thick}
    known = {(edge.source, edge.target) for edge in ways.edges}
    assert all(way[:2] in known for walk in walks_of(ways, path) for way in walk.taken)
    return found


def test_branches_beside_each_other_lead_from_where_they_split_to_where_they_join() -> None:
    app = made("fan nop compose", "start>fan start>nop fan>compose nop>compose compose>end")
    assert taken(app) == {"start>fan 1", "start>nop 2", "fan>compose 3", "nop>compose 3", "compose>end 4"}


def test_branches_of_unlike_length_that_end_apart() -> None:
    app = made("a b c d", "start>a a>b a>c c>d b>end d>end")
    assert taken(app) == {"start>a 1", "a>b 2", "a>c 3", "c>d 4", "b>end 5", "d>end 5"}


def test_a_router_may_choose_several_and_one_node_several_times() -> None:
    both = made("fan a b c", "start>fan a>c b>c c>end", fan=(lambda state: ["a", "b"], ["a", "b"]))
    assert taken(both) == {"start>fan 1", "fan>a 2", "fan>b 3", "a>c 4", "b>c 4", "c>end 5"}
    sent = made("fan a c", "start>fan a>c c>end", fan=(lambda state: [Send("a", state)] * 3, ["a"]))
    assert taken(sent) == {"start>fan 1", "fan>a 2, 3, 4", "a>c 5", "c>end 6"}


def test_a_loop_ends_where_its_router_says() -> None:
    app = made("a", "start>a", a=(lambda state: "a" if len(state["seen"]) < 3 else END, ["a", END]))
    assert taken(app) == {"start>a 1", "a>a 2, 3", "a>end 4"}


def test_a_node_to_which_no_edge_leads_is_coloured_and_nothing_is_made_up() -> None:
    ways = Ways(graph="g", nodes=("jump", "land"), edges=(Edge(START, "jump"), Edge("land", END)))
    text = drawn(ways, [("jump", "land")])
    assert text.count("==>") == 2 and 'n0 ==>|"1"| n1' in text and 'n2 ==>|"3"| n3' in text
    assert "class n0,n1,n2,n3 taken" in text and "-->" not in text


@pytest.mark.parametrize(
    ("graph", "path", "failed"),
    [
        ("agent", ["plan", "use_tools", "plan"], ""),  # what it chose is missing: it broke off there
        ("agent", ["plan"], "plan"),
        ("rag", ["retrieve", "compose"], ""),
        ("rag", ["retrieve", "compose", "respond"], "respond"),  # all nodes ran, and the last one failed
    ],
)
def test_a_walk_that_failed_is_marked_where_it_did_and_has_no_end(graph: str, path: list[str], failed: str) -> None:
    ways = ways_of(GRAPHS.load(graph)())
    text = drawn(ways, [path], [failed])
    order = [START, *ways.nodes, *(end for edge in ways.edges for end in edge[:2])]
    place = {name: f"n{number}" for number, name in enumerate(dict.fromkeys(order))}
    assert f"class {place[path[-1]]} failed" in text and "classDef failed " in text
    assert not [line for line in text.splitlines() if "==>" in line and line.endswith(f" {place[END]}")]
    assert place[END] not in text.rpartition("    class n0")[2]


def test_walks_that_went_well_beside_one_that_failed() -> None:
    ways = ways_of(GRAPHS.load("rag")())
    whole = ["retrieve", "compose", "respond"]
    text = drawn(ways, [whole * 2, whole, whole], ["", "", "respond"])
    assert 'n0 ==>|"4x"| n1' in text and 'n3 ==>|"3x"| n4' in text
    assert "class n0,n1,n2,n4 taken" in text and "class n3 failed" in text
    assert "failed" not in drawn(ways, [whole * 2])


@pytest.mark.parametrize("graph", sorted({*GRAPHS.names()} - {"extract"}))
def test_probes_that_go_through_emends_graphs_twice_are_two_walks(graph: str) -> None:
    ways = ways_of(GRAPHS.load(graph)())
    paths = [[START]]
    while paths[0][-1] != END:  # the shortest way through
        first = paths.pop(0)
        paths += [[*first, edge.target] for edge in ways.edges if edge.source == first[-1]]
    path = paths[0][1:-1]
    walks = walks_of(ways, path * 2)
    assert [walk.nodes for walk in walks] == [path, path] and not any(walk.failed for walk in walks)
    assert walks[0].taken == walks[1].taken and walks[0].taken[-1].target == END


def test_the_node_that_failed_is_told_also_where_it_is_the_last_one():
    steps: list[dict[str, Any]] = [
        {"node": "compose", "error": None},
        {"node": "respond", "error": "RateLimited: wait"},
    ]
    assert failed_at(steps) == "respond"
    assert failed_at(steps[:1]) == "" and failed_at([]) == ""
