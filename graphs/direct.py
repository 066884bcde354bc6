"""The probe alone, for a model without edits or with edited weights."""

from dataclasses import dataclass
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.answer import build_prompt
from emend.graphs.respond import RespondContext, RespondState, respond
from emend.memory.probe import Probe

RECURSION_LIMIT = 4
"""Two nodes."""


class DirectState(RespondState, total=False):
    """The state of `respond`; `probe` (and `targets`) go in."""

    probe: dict[str, Any]


@dataclass(frozen=True)
class DirectContext(RespondContext):
    """The model and the prompt template."""

    wording: str = "new_fact"


def compose(state: DirectState, runtime: Runtime[DirectContext]) -> DirectState:
    """Build the prompt, which is the probe alone."""
    return {"prompt": build_prompt(Probe.model_validate(state["probe"]), (), (), runtime.context.wording)}


def build() -> CompiledStateGraph[DirectState, DirectContext, DirectState, DirectState]:
    """Compose -> respond."""
    graph = StateGraph(DirectState, context_schema=DirectContext)
    graph.add_node("compose", compose)
    graph.add_node("respond", respond)
    graph.add_edge(START, "compose")
    graph.add_edge("compose", "respond")
    graph.add_edge("respond", END)
    return graph.compile(name="direct").with_config(recursion_limit=RECURSION_LIMIT)
