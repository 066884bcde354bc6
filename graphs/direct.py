"""Graph that asks the probe alone, for a model without edits or with edited weights."""

from dataclasses import dataclass
from typing import cast

from langgraph.runtime import Runtime

from emend.agents.roles.answer import probe_prompt
from emend.graphs.execution import Graph, linear_graph
from emend.graphs.respond import RespondContext, RespondState, prompt_state, respond
from emend.memory.probe import Probe


class DirectState(RespondState, total=False):
    """State of `respond`, with the `probe` and the `facts` to put before it as further input."""

    probe: Probe
    facts: list[str]


@dataclass(frozen=True)
class DirectContext(RespondContext):
    """Context with the model and the prompt template."""

    wording: str = "new_fact"


def compose(state: DirectState, runtime: Runtime[DirectContext]) -> DirectState:
    """Build the prompt from the facts and the probe; without facts, it is just the probe."""
    context = runtime.context
    prompt = probe_prompt(state["probe"], state.get("facts", ()), (), context.wording)
    return cast(DirectState, prompt_state(context.model, prompt))


def build() -> Graph:
    """Compose -> respond."""
    return linear_graph("direct", DirectState, DirectContext, compose, respond)
