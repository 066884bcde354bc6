"""SERAC (Mitchell et al. 2022, section 3): a classifier decides whether an edit applies to the
probe.

For a probe in scope, a second model, the counterfactual model, answers under the edit; by default
it is the base model with the edit in its prompt, as in DocTER and ELKEN. For a probe out of scope,
the base model gets the probe unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.scope.base import Scope, embed_corpus
from emend.graphs.execution import Graph
from emend.graphs.rag import HitState, RagContext, RagState, compose, retrieve
from emend.graphs.respond import RespondContext, RespondState
from emend.graphs.respond import respond as respond_by
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever
from emend.memory.retrieval.exact import best


class SeracState(RagState, total=False):
    """State of `rag`; `candidates` are the most probable edits, `hits` the candidates in scope."""

    candidates: list[HitState]


@dataclass(frozen=True)
class SeracContext(RagContext):
    """Context of `rag`, with a retriever whose scores are probabilities that an edit is in scope.

    `threshold` is the minimum probability of an edit in scope; `counterfactual` is the second
    model, or None to use the base model.
    """

    threshold: float = 0.5
    counterfactual: BaseChatModel | None = None


class ScopeRetriever:
    """Retriever that scores entries by the probability that the query is about them.

    Args:
        corpus: the entries.
        scope: the classifier.
        narrow: retriever that chooses the entries to classify; None classifies all.
        candidates: number of entries that `narrow` chooses.
    """

    def __init__(
        self, corpus: Corpus, scope: Scope, narrow: Retriever | None = None, candidates: int = 0
    ) -> None:
        self.scope, self.narrow, self.candidates = scope, narrow, candidates
        self.entries: Sequence[Entry] = corpus.entries()
        self._probability = None if narrow else scope.over(corpus)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k hits in descending order of probability, ties in corpus order."""
        entries, probability = self.entries, self._probability
        if probability is None:
            assert self.narrow is not None
            entries = [hit.entry for hit in self.narrow.search(query, self.candidates)]
            probability = self.scope.over(
                embed_corpus([entry.text for entry in entries], LexicalEmbedding(1))
            )
        if not entries:
            return []
        scores = np.asarray(probability(query))
        return [Hit(entry=entries[place], score=float(scores[place])) for place in best(scores, k)]


def classify(state: SeracState, runtime: Runtime[SeracContext]) -> SeracState:
    """Keep the retrieved edits that are in scope."""
    hits = state["hits"]
    return {
        "candidates": hits,
        "hits": [hit for hit in hits if hit["score"] >= runtime.context.threshold],
    }


def after_classify(state: SeracState) -> Literal["counterfact", "leave"]:
    """Route to the counterfactual prompt if an edit is in scope."""
    return "counterfact" if state["hits"] else "leave"


def counterfact(state: SeracState, runtime: Runtime[SeracContext]) -> RagState:
    """Build the prompt of the counterfactual model from the edits in scope and the probe."""
    context = runtime.context
    return compose(
        state, Runtime(context=replace(context, model=context.counterfactual or context.model))
    )


def leave(state: SeracState, runtime: Runtime[SeracContext]) -> RagState:
    """Build the prompt of the base model: the probe alone."""
    return compose(state, runtime)


def respond(state: SeracState, runtime: Runtime[SeracContext]) -> RespondState:
    """Respond with the counterfactual model if an edit is in scope, else with the base model."""
    second = runtime.context.counterfactual
    if not state["hits"] or second is None:
        return respond_by(state, runtime)
    return respond_by(state, Runtime(context=RespondContext(second)))


def build() -> Graph:
    """Retrieve -> classify -> counterfact or leave -> respond."""
    graph = StateGraph(SeracState, context_schema=SeracContext)
    graph.add_node("retrieve", retrieve)
    graph.add_node("classify", classify)
    graph.add_edge("retrieve", "classify")
    graph.add_node("counterfact", counterfact)
    graph.add_node("leave", leave)
    graph.add_node("respond", respond)
    graph.add_edge(START, "retrieve")
    graph.add_conditional_edges("classify", after_classify)
    graph.add_edge("counterfact", "respond")
    graph.add_edge("leave", "respond")
    graph.add_edge("respond", END)
    return graph.compile(name="serac")
