"""The relevant fact before the probe: an upper bound of editing by prompt, without retrieval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from langgraph.runtime import Runtime

from emend.agents.roles.answer import probe_prompt
from emend.graphs.direct import DirectContext, DirectState
from emend.graphs.execution import Graph, linear_graph
from emend.graphs.respond import prompt_state, respond
from emend.memory.probe import Probe


class InContextState(DirectState, total=False):
    """The state of direct; `facts` precede the probe."""

    facts: list[str]


def no_facts(_: Probe) -> Sequence[str]:
    """Return no facts."""
    return ()


@dataclass(frozen=True)
class InContextContext(DirectContext):
    """The context of direct, with the function that chooses the facts for a probe."""

    facts_for: Callable[[Probe], Sequence[str]] = no_facts


def choose(state: InContextState, runtime: Runtime[InContextContext]) -> InContextState:
    """Choose the facts relevant to the probe; if there are none, an irrelevant applied one, as in real use."""
    return {"facts": list(runtime.context.facts_for(state["probe"]))}


def compose(state: InContextState, runtime: Runtime[InContextContext]) -> InContextState:
    """Build the prompt; without facts it is the probe alone, as for the unedited model."""
    context = runtime.context
    prompt = probe_prompt(state["probe"], state["facts"], (), context.wording)
    return cast(InContextState, prompt_state(context.model, prompt))


def build() -> Graph:
    """Choose -> compose -> respond."""
    return linear_graph("in_context", InContextState, InContextContext, choose, compose, respond)
