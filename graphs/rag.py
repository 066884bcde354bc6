"""Retrieval-augmented editing: retrieve the relevant new facts, put them before the probe."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.roles.answer import probe_prompt
from emend.graphs.execution import Graph, linear_graph
from emend.graphs.respond import RespondContext, RespondState, prompt_state, respond
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Hit, Retriever, search_probe


class HitState(TypedDict):
    """A retrieved entry as JSON."""

    entry_id: str
    edit_id: str
    text: str
    score: float


class RagState(RespondState, total=False):
    """`probe` (and `targets`) go in; `hits` and `prompt` are added before the response."""

    probe: Probe
    hits: list[HitState]


@dataclass(frozen=True)
class RagContext(RespondContext):
    """Model, retriever over the applied edits, number of entries to retrieve, and template."""

    retriever: Retriever
    k: int = 1
    wording: str = "new_fact"


C = TypeVar("C", bound=RagContext)


def retrieve(state: RagState, runtime: Runtime[C]) -> RagState:
    """Retrieve up to k entries for the probe, best first."""
    context = runtime.context
    return {"hits": as_hits(search_probe(context.retriever, state["probe"], context.k), context.k)}


def as_hits(hits: Sequence[Hit], k: int) -> list[HitState]:
    """Return the first k hits as JSON for the state; a plug-in retriever may return more than k."""
    return [
        {
            "entry_id": hit.entry.id,
            "edit_id": hit.entry.edit_id,
            "text": hit.entry.text,
            "score": hit.score,
        }
        for hit in hits[:k]
    ]


def compose(state: RagState, runtime: Runtime[C]) -> RagState:
    """Build the prompt from the hits and the probe; without hits, it is just the probe, as for the
    unedited model.
    """
    facts = [hit["text"] for hit in state["hits"]]
    context = runtime.context
    return cast(
        RagState,
        prompt_state(context.model, probe_prompt(state["probe"], facts, (), context.wording)),
    )


def build() -> Graph:
    """Retrieve -> compose -> respond."""
    return linear_graph("rag", RagState, RagContext, retrieve, compose, respond)
