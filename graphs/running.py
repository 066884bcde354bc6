"""Running a compiled graph so that what each node did can be shown afterwards."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from langgraph.graph.state import CompiledStateGraph, StateGraph

from emend.agents.calls import Journal, recording
from emend.memory.probe import Step

Graph = CompiledStateGraph[Any, Any, Any, Any]
"""A compiled graph, for those who may not import langgraph."""


def graph_in(found: object) -> Graph | None:
    """The graph that something is, or has as its `graph` or `app`, as judges and editors do; compiled if need be."""
    for one in (found, getattr(found, "graph", None), getattr(found, "app", None)):
        if isinstance(one, StateGraph):
            return one.compile()
        if isinstance(one, CompiledStateGraph):
            return one
    return None


_LISTENER: ContextVar[Callable[[Step], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(told: Callable[[Step], None]) -> Iterator[None]:
    """Inside the `with` each step of a graph that this thread runs is told as soon as it has ended."""
    kept = _LISTENER.set(told)
    try:
        yield
    finally:
        _LISTENER.reset(kept)


def run_graph(app: Graph, state: dict[str, Any], context: object) -> tuple[dict[str, Any], tuple[Step, ...]]:
    """The final state, and one step per node run, in the order in which they ended.

    A node's exception comes out as it is, with the steps so far (its own last, with the error) put on it: `steps_of`.
    """
    final: dict[str, Any] = dict(state)
    steps: list[Step] = []
    begun: dict[str, _Begun] = {}
    with recording() as journal:
        try:
            events: Iterator[Any] = app.stream(state, context=context, stream_mode=["tasks", "values"])
            for mode, event in events:
                if mode == "values":
                    final = event
                elif "input" in event:
                    begun[event["id"]] = _Begun(time.time(), time.perf_counter(), event["input"])
                else:
                    steps.append(_step(event, begun.pop(event["id"]), len(steps) + 1, journal))
                    if listener := _LISTENER.get():
                        listener(steps[-1])
        except Exception as error:
            keep_steps(error, tuple(steps))
            raise
    return final, tuple(steps)


class _Begun(NamedTuple):
    """When a node began, by two clocks, and what it was given."""

    at: float
    began: float
    state: Any


def _step(event: dict[str, Any], begun: _Begun, place: int, journal: Journal) -> Step:
    ms = (time.perf_counter() - begun.began) * 1000
    error = event["error"]  # an exception, or its text, by langgraph's streaming version
    told = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
    update = event["result"] or {}
    calls = journal.take(event["id"], begun.state if isinstance(begun.state, dict) else None, update)
    return Step(node=event["name"], update=update, ms=ms, error=told, at=begun.at, place=place, calls=calls)


def keep_steps(error: Exception, steps: tuple[Step, ...]) -> None:
    """Puts the steps that led to an error on it, for whoever records the failure."""
    error.steps = steps  # type: ignore[attr-defined]


def steps_of(error: BaseException) -> tuple[Step, ...]:
    """The steps that led to an error out of `run_graph`; empty for any other."""
    return getattr(error, "steps", ())
