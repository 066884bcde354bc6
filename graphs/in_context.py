"""Graph that puts the relevant fact before the probe, without retrieval.

This is an upper bound of editing by prompt.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langgraph.runtime import Runtime

from emend.graphs.direct import DirectContext, DirectState, compose
from emend.graphs.execution import Graph, linear_graph
from emend.graphs.respond import respond
from emend.memory.probe import Probe


def no_facts(_: Probe) -> Sequence[str]:
    """Return no facts."""
    return ()


@dataclass(frozen=True)
class InContextContext(DirectContext):
    """Context of `direct`, with the function that chooses the facts for a probe."""

    facts_for: Callable[[Probe], Sequence[str]] = no_facts


def choose(state: DirectState, runtime: Runtime[InContextContext]) -> DirectState:
    """Choose the facts relevant to the probe; if there are none, `facts_for` may choose an
    irrelevant applied fact, as in real use.
    """
    return {"facts": list(runtime.context.facts_for(state["probe"]))}


def build() -> Graph:
    """Choose -> compose -> respond."""
    return linear_graph("in_context", DirectState, InContextContext, choose, compose, respond)
