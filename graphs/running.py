"""Running a compiled graph so that what each node did can be shown afterwards."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from emend.memory.probe import Step

Graph = CompiledStateGraph[Any, Any, Any, Any]
"""A compiled graph, for those who may not import langgraph."""


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
    began: dict[str, float] = {}
    try:
        events: Iterator[Any] = app.stream(state, context=context, stream_mode=["tasks", "values"])
        for mode, event in events:
            if mode == "values":
                final = event
            elif "input" in event:
                began[event["id"]] = time.perf_counter()
            else:
                steps.append(_step(event, began.pop(event["id"])))
                if listener := _LISTENER.get():
                    listener(steps[-1])
    except Exception as error:
        keep_steps(error, tuple(steps))
        raise
    return final, tuple(steps)


def _step(event: dict[str, Any], began: float) -> Step:
    ms = (time.perf_counter() - began) * 1000
    error = event["error"]  # an exception, or its text, by langgraph's streaming version
    told = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
    return Step(node=event["name"], update=event["result"] or {}, ms=ms, error=told)


def keep_steps(error: Exception, steps: tuple[Step, ...]) -> None:
    """Puts the steps that led to an error on it, for whoever records the failure."""
    error.steps = steps  # type: ignore[attr-defined]


def steps_of(error: BaseException) -> tuple[Step, ...]:
    """The steps that led to an error out of `run_graph`; empty for any other."""
    return getattr(error, "steps", ())
