"""Execution of compiled graphs with a record of the steps of their nodes."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, messages_to_dict
from langgraph.channels import BinaryOperatorAggregate
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.types import StreamMode
from pydantic import BaseModel

from emend.agents.calls import CallRecorder, record_calls
from emend.memory.probe import Step
from emend.memory.steps import keep_steps

# Type of a compiled graph, for modules that may not import langgraph.
Graph = CompiledStateGraph[Any, Any, Any, Any]


def linear_graph(name: str, state: type, context: type, *nodes: Callable[..., Any]) -> Graph:
    """Return a graph of nodes that run one after the other, each named after its function."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state, context_schema=context)
    graph.add_sequence(list(nodes))
    graph.add_edge(START, nodes[0].__name__)
    graph.add_edge(nodes[-1].__name__, END)
    return graph.compile(name=name)


def graph_in(source: object) -> Graph | None:
    """Return the compiled graph of an object, which is the object itself or its `graph` or `app`;
    None if there is no graph.
    """
    for candidate in (source, getattr(source, "graph", None), getattr(source, "app", None)):
        if isinstance(candidate, StateGraph):
            return candidate.compile()
        if isinstance(candidate, CompiledStateGraph):
            return candidate
    return None


_ON_STEP: ContextVar[Callable[[Step], None] | None] = ContextVar("on_step", default=None)


@contextmanager
def call_on_step(callback: Callable[[Step], None]) -> Iterator[None]:
    """Call `callback` with each step of the graphs that run inside the `with` block, as soon as the
    step's superstep has ended.
    """
    token = _ON_STEP.set(callback)
    try:
        yield
    finally:
        _ON_STEP.reset(token)


def run_graph(
    app: Graph, state: dict[str, Any], context: object
) -> tuple[dict[str, Any], tuple[Step, ...]]:
    """Run a graph, and return its final state and one step per node run.

    The steps are ordered by superstep and, within a superstep, by the name of the node. A node's
    exception is raised unchanged, with the steps up to it attached; read them with `steps_of`.
    """
    final: dict[str, Any] = dict(state)
    with record_calls() as recorder:
        log = _StepLog(app, recorder)
        try:
            modes: list[StreamMode] = ["tasks", "values"]
            events: Iterator[Any] = app.stream(state, context=context, stream_mode=modes)
            for mode, event in events:
                if mode == "values":
                    final = event
                elif "input" in event:
                    log.start(event)
                else:
                    log.end(event)
        except Exception as error:
            log.close_superstep()
            keep_steps(error, tuple(log.steps))
            raise
    return final, tuple(log.steps)


def as_json(value: Any) -> Any:
    """Return a value as it is stored in a trace: a pydantic model as its fields, a conversation in
    LangChain's format, anything else unchanged.
    """
    if isinstance(value, BaseModel) and not isinstance(value, BaseMessage):
        return value.model_dump()
    if isinstance(value, list) and value and all(isinstance(item, BaseMessage) for item in value):
        # LangGraph gives messages without an id a random one, so that traces of equal runs would
        # differ.
        return messages_to_dict(
            [item if item.type == "ai" else item.model_copy(update={"id": None}) for item in value]
        )
    return value


class _Task(NamedTuple):
    """Run of a node: its start (wall clock and performance counter), input state and triggers."""

    at: float
    clock: float
    state: Any
    triggers: tuple[str, ...]


class _StepLog:
    """Log of the steps of one run.

    LangGraph reports the nodes of a superstep in the order in which their threads finish. Steps are
    therefore held back until all nodes of the superstep have ended, and are numbered then.
    """

    def __init__(self, app: Graph, recorder: CallRecorder) -> None:
        self.steps: list[Step] = []
        self._recorder = recorder
        self._tasks: dict[str, _Task] = {}
        self._ended: dict[str, Step] = {}
        self._previous: tuple[int, ...] = ()
        # A join waits for nodes of several supersteps; LangGraph names its trigger after the nodes.
        self._joins = {
            f"join:{'+'.join(nodes)}:{end}": nodes for nodes, end in app.builder.waiting_edges
        }
        channels = app.builder.channels.items()
        self._reduced = {
            name: channel
            for name, channel in channels
            if isinstance(channel, BinaryOperatorAggregate)
        }

    def start(self, event: dict[str, Any]) -> None:
        """Record the start of a node."""
        self._tasks[event["id"]] = _Task(
            time.time(), time.perf_counter(), event["input"], tuple(event["triggers"])
        )

    def end(self, event: dict[str, Any]) -> None:
        """Record the end of a node, and close the superstep after its last node."""
        task = self._tasks[event["id"]]
        ms = (time.perf_counter() - task.clock) * 1000
        error = event["error"]  # an exception or its text, depending on langgraph's stream version
        message = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
        before = task.state if isinstance(task.state, dict) else {}
        changes = (event["result"] or {}).items()
        update = {name: as_json(self._value_after(name, value, before)) for name, value in changes}
        calls = self._recorder.take(event["id"], before, update)
        self._ended[event["id"]] = Step(
            node=event["name"],
            update=update,
            ms=ms,
            error=message,
            at=task.at,
            calls=calls,
            after=self._after(task),
        )
        if len(self._ended) == len(self._tasks):
            self.close_superstep()

    def _value_after(self, name: str, value: Any, before: Mapping[str, Any]) -> Any:
        """Return a field's value after the node, with its reducer applied, which readers of a trace
        do not know.
        """
        if name not in self._reduced or name not in before:
            return value
        channel = self._reduced[name].from_checkpoint(before[name])
        channel.update([value])
        return channel.get()

    def close_superstep(self) -> None:
        """Number the steps of the superstep, and pass them to the listener."""
        # in the order of their start, which the sort keeps for runs of the same node
        ended = [self._ended[task] for task in self._tasks if task in self._ended]
        first = len(self.steps) + 1
        ordered = sorted(ended, key=lambda step: step.node)
        numbered = [
            step.model_copy(update={"place": place}) for place, step in enumerate(ordered, first)
        ]
        self.steps += numbered
        self._previous = tuple(step.place for step in numbered)
        self._tasks, self._ended = {}, {}
        if callback := _ON_STEP.get():
            for step in numbered:
                callback(step)

    def _after(self, task: _Task) -> tuple[int, ...]:
        awaited = {node for trigger in task.triggers for node in self._joins.get(trigger, ())}
        latest = {step.node: step.place for step in self.steps if step.node in awaited}
        return tuple(sorted({*self._previous, *latest.values()}))
