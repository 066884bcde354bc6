import operator
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from emend.graphs.execution import call_on_step, run_graph
from emend.memory.probe import Usage
from emend.memory.steps import steps_of


class Counting(TypedDict, total=False):
    count: int
    told: str


@dataclass(frozen=True)
class Upto:
    limit: int


def add(state: Counting, runtime: Runtime[Upto]) -> Counting:
    return {"count": state["count"] + 1}


def wait(state: Counting) -> Counting:
    time.sleep(0.1)
    return {}


def fail(state: Counting) -> Counting:
    time.sleep(0.02)
    raise ValueError("the node broke")


def again(state: Counting, runtime: Runtime[Upto]) -> str:
    return "add" if state["count"] < runtime.context.limit else END


def chain(*nodes):
    graph = StateGraph(Counting, context_schema=Upto)
    for place, node in enumerate(nodes):
        graph.add_node(f"{node.__name__}{place}", node)
    names = [START, *graph.nodes, END]
    for one, other in zip(names, names[1:], strict=False):
        graph.add_edge(one, other)
    return graph.compile()


def loop():
    graph = StateGraph(Counting, context_schema=Upto)
    graph.add_node("add", add)
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", again)
    return graph.compile()


def test_each_node_is_a_step_with_what_it_changed_and_how_long_it_took():
    final, steps = run_graph(chain(add, wait, add), {"count": 1, "told": "x"}, Upto(0))
    assert final == {"count": 3, "told": "x"}
    assert [(step.node, step.update, step.error) for step in steps] == [
        ("add0", {"count": 2}, None),
        ("wait1", {}, None),
        ("add2", {"count": 3}, None),
    ]
    assert steps[0].ms < steps[1].ms >= 100 and steps[2].ms < steps[1].ms


def test_a_loop_gives_a_step_a_round_and_leaves_the_state_that_is_handed_in():
    state = {"count": 0}
    final, steps = run_graph(loop(), state, Upto(5))
    assert final["count"] == 5 and [step.update["count"] for step in steps] == [1, 2, 3, 4, 5]
    assert state == {"count": 0}


def test_a_nodes_error_comes_out_as_it_is_with_the_steps_so_far():
    with pytest.raises(ValueError, match="the node broke") as caught:
        run_graph(chain(add, fail, add), {"count": 1}, Upto(0))
    first, last = steps_of(caught.value)
    assert (first.node, first.update, first.error) == ("add0", {"count": 2}, None)
    assert (last.node, last.update, last.error) == ("fail1", {}, "ValueError: the node broke")
    assert last.ms >= 20 and steps_of(ValueError("elsewhere")) == ()


def test_a_graph_that_never_ends_is_stopped_by_its_own_limit():
    with pytest.raises(GraphRecursionError) as caught:
        run_graph(loop().with_config(recursion_limit=4), {"count": 0}, Upto(10**9))
    assert len(steps_of(caught.value)) == 4


def test_who_listens_hears_of_each_step_before_the_next_one_begins_and_of_none_afterwards():
    heard: list[tuple[str, int]] = []
    begun: list[str] = []

    def note(state: Counting) -> Counting:
        begun.append("note")
        return {}

    app = chain(add, note, add)
    with call_on_step(lambda step: heard.append((step.node, len(begun)))):
        run_graph(app, {"count": 1}, Upto(0))
    assert heard == [("add0", 0), ("note1", 1), ("add2", 1)]
    run_graph(app, {"count": 1}, Upto(0))
    assert len(heard) == 3


def parallel(names, slow=""):
    """All of `names` beside each other, then one node that joins them."""

    def node(name):
        def run(state: Counting) -> Counting:
            time.sleep(0.05 if name == slow else 0)
            return {}

        return run

    graph = StateGraph(Counting)
    for name in (*names, "last"):
        graph.add_node(name, node(name))
    for name in names:
        graph.add_edge(START, name)
    graph.add_edge(list(names), "last")
    graph.add_edge("last", END)
    return graph.compile()


def test_steps_of_nodes_that_run_together_are_ordered_by_name_and_follow_those_before_them():
    heard: list[tuple[str, int]] = []
    with call_on_step(lambda step: heard.append((step.node, step.place))):
        _, steps = run_graph(parallel("cab", slow="a"), {"count": 0}, None)
    assert [(step.node, step.place, step.after) for step in steps] == [
        ("a", 1, ()),
        ("b", 2, ()),
        ("c", 3, ()),
        ("last", 4, (1, 2, 3)),
    ]
    assert heard == [("a", 1), ("b", 2), ("c", 3), ("last", 4)]


def test_the_order_of_steps_does_not_depend_on_when_threads_finish():
    app, interval = parallel("dcabfe"), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        orders = {tuple(step.node for step in run_graph(app, {"count": 0}, None)[1]) for _ in range(30)}
    finally:
        sys.setswitchinterval(interval)
    assert orders == {(*"abcdef", "last")}


class Collected(TypedDict, total=False):
    seen: Annotated[list[str], operator.add]
    usage: Annotated[Usage, Usage.plus]
    messages: list[AnyMessage]


def test_a_step_has_the_fields_as_json_and_as_reducers_leave_them():
    def name_it(state: Collected) -> Collected:
        return {"seen": [f"{len(state['seen'])}"], "usage": Usage(calls=1, input_tokens=2)}

    def start_again(state: Collected) -> Any:
        return {"seen": Overwrite(["new"]), "messages": [HumanMessage("Where?"), AIMessage("Here.", id="said")]}

    graph = StateGraph(Collected)
    graph.add_sequence([("first", name_it), ("second", name_it), ("third", start_again)])
    graph.add_edge(START, "first")
    final, (first, second, third) = run_graph(graph.compile(), {"usage": Usage(calls=5)}, None)
    assert (first.update["seen"], second.update["seen"], third.update["seen"]) == (["0"], ["0", "1"], ["new"])
    assert first.update["usage"] == Usage(calls=6, input_tokens=2).model_dump()
    assert second.update["usage"] == Usage(calls=7, input_tokens=4).model_dump() == final["usage"].model_dump()
    assert [(message["type"], message["data"]["id"]) for message in third.update["messages"]] == [
        ("human", None),
        ("ai", "said"),
    ]
