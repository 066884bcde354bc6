"""The relevant fact before the probe: an upper bound of editing by prompt, without retrieval."""

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
    """The context of direct, with the function that chooses the facts for a probe."""

    facts_for: Callable[[Probe], Sequence[str]] = no_facts


def choose(state: DirectState, runtime: Runtime[InContextContext]) -> DirectState:
    """Choose the facts relevant to the probe; if there are none, an irrelevant applied one, as in real use."""
    return {"facts": list(runtime.context.facts_for(state["probe"]))}


def build() -> Graph:
    """Choose -> compose -> respond."""
    return linear_graph("in_context", DirectState, InContextContext, choose, compose, respond)
