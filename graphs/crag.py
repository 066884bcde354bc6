"""CRAG (Yan et al. 2024): evaluate the retrieved passages, then refine them, search elsewhere, or
both.

The action is chosen as in the authors' code: `correct` if any passage reaches the upper threshold,
else `ambiguous` if any reaches the lower one, else `incorrect`. A correct retrieval uses the
refined passages, an incorrect one the passages of a wider search, and an ambiguous one both. The
wider search can use any retriever; without one, the probe is asked unchanged after an incorrect
retrieval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.roles.answer import probe_prompt
from emend.agents.roles.relevance import Evaluator
from emend.graphs.crag_strips import TOP, WORST, Mode, Recomposed, decompose, recompose, too_short
from emend.graphs.execution import Graph
from emend.graphs.rag import HitState, RagContext, RagState, as_hits, retrieve
from emend.graphs.respond import prompt_state, respond
from emend.memory.probe import Usage
from emend.memory.retrieval.base import Retriever

Action = Literal["correct", "ambiguous", "incorrect"]
# Number of strips to keep from the passages of the wider search.
WEB_TOP = 5


class SearchedState(HitState):
    """Passage found by the wider search.

    `relevance` is the score of its best strip; `used` is true if the prompt has one of its strips.
    """

    relevance: float
    used: bool


class StripState(TypedDict):
    """Strip with its score.

    `entry_id` is the id of its passage; `source` says whether the passage comes from the memory
    (`internal`) or from the wider search (`external`).
    """

    entry_id: str
    source: Literal["internal", "external"]
    text: str
    relevance: float
    used: bool


class CragState(RagState, total=False):
    """State of `rag`; `hits` are the passages whose strips are used.

    `judged` has the retrieved passages with their scores, `searched` the passages of the wider
    search, `strips` the strips of both; `thresholds` are the `upper` and `lower` ones that decide
    the action; `internal` and `external` are the refined texts from the memory and from the search.
    """

    judged: list[dict[str, Any]]
    searched: list[SearchedState]
    strips: list[StripState]
    action: Action
    thresholds: dict[str, float]
    internal: str
    external: str


@dataclass(frozen=True)
class CragContext(RagContext):
    """Context of `rag`, with the evaluator, its thresholds, the strip settings and the wider
    search.

    `strips` is the mode of cutting strips; `top` is the maximum number of strips, with 0 for the
    published number of the mode; `floor` is the minimum score of a strip. `search` finds `search_k`
    passages outside the memory, and may be None.
    """

    evaluator: Evaluator | None = None
    upper: float = 0.5
    lower: float = -0.91
    strips: Mode = "selection"
    top: int = 0
    floor: float = float("-inf")
    search: Retriever | None = None
    search_k: int = 5


def act(scores: Sequence[float], upper: float, lower: float) -> Action:
    """Choose the action from the scores of the passages; without passages it is `incorrect`."""
    if any(score >= upper for score in scores):
        return "correct"
    return "ambiguous" if any(score >= lower for score in scores) else "incorrect"


def evaluate(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """Score the retrieved passages, and choose the action."""
    context = runtime.context
    passages = [hit["text"] for hit in state["hits"]]
    scores, usage = _scores(state, context, passages, [not passage.strip() for passage in passages])
    judged: list[dict[str, Any]] = [
        {**hit, "relevance": score} for hit, score in zip(state["hits"], scores, strict=True)
    ]
    action = act(scores, context.upper, context.lower)
    thresholds = {"upper": context.upper, "lower": context.lower}
    return {"judged": judged, "action": action, "thresholds": thresholds, "usage": usage}


def _scores(
    state: CragState, context: CragContext, texts: Sequence[str], worst: Sequence[bool]
) -> tuple[list[float], Usage]:
    """Return the scores of the texts and the cost; texts flagged in `worst` get the worst score
    without being evaluated.
    """
    unscored = [text for text, bad in zip(texts, worst, strict=True) if not bad]
    if not unscored or context.evaluator is None:
        return [WORST] * len(texts), Usage()
    relevance = context.evaluator.judge(state["probe"].retrieval_query, unscored)
    scores = iter(relevance.scores)
    return [WORST if bad else float(next(scores)) for bad in worst], relevance.usage


def after_evaluate(state: CragState) -> Literal["refine", "search"]:
    """Route to the search after an incorrect retrieval, else to the refinement."""
    return "search" if state["action"] == "incorrect" else "refine"


class Weighed(NamedTuple):
    """Recomposed strips, the scores of all strips in the order of the text, and the cost."""

    recomposed: Recomposed
    scores: list[float]
    usage: Usage


def refine(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """Keep the best strips of the retrieved passages, and only their passages as hits."""
    context = runtime.context
    cut, top = _cut(state["hits"], context), context.top or TOP[context.strips]
    if context.strips == "selection":  # strips are whole passages, which already have scores
        scores = [float(passage["relevance"]) for passage in state["judged"]]
        strips = [strip for strip, _ in cut]
        recomposed = recompose(
            strips, scores, top, context.floor, [False] * len(strips), context.lower
        )
        weighed = Weighed(recomposed, scores, Usage())
    else:
        weighed = _weigh(state, context, cut, top)
    used = {cut[place][1]["entry_id"]: cut[place][1] for place in weighed.recomposed.chosen}
    return {
        "internal": weighed.recomposed.text,
        "strips": _as_strips("internal", cut, weighed),
        "hits": list(used.values()),
        "usage": weighed.usage,
    }


def _cut(hits: Sequence[HitState], context: CragContext) -> list[tuple[str, HitState]]:
    """Return pairs of a strip and its passage, for all passages."""
    return [(strip, hit) for hit in hits for strip in decompose(hit["text"], context.strips)]


def _as_strips(
    source: Literal["internal", "external"], cut: Sequence[tuple[str, HitState]], weighed: Weighed
) -> list[StripState]:
    """Return the strips as JSON for the state."""
    chosen = frozenset(weighed.recomposed.chosen)
    return [
        {
            "entry_id": hit["entry_id"],
            "source": source,
            "text": strip,
            "relevance": weighed.scores[place],
            "used": place in chosen,
        }
        for place, (strip, hit) in enumerate(cut)
    ]


def _weigh(
    state: CragState, context: CragContext, cut: Sequence[tuple[str, HitState]], top: int
) -> Weighed:
    """Score the strips, and recompose the best.

    A short strip is scored only if it is a whole passage, such as a short fact.
    """
    strips, passages = [strip for strip, _ in cut], {hit["text"] for _, hit in cut}
    worst = [too_short(strip) and strip not in passages for strip in strips]
    scores, usage = _scores(state, context, strips, worst)
    return Weighed(
        recompose(strips, scores, top, context.floor, worst, context.lower), scores, usage
    )


def after_refine(state: CragState) -> Literal["search", "compose"]:
    """Route to the search if the retrieval is ambiguous, else to the prompt."""
    return "search" if state["action"] == "ambiguous" else "compose"


def search(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """Keep the best strips of the wider search, and drop the hits of an incorrect retrieval."""
    context, k = runtime.context, runtime.context.search_k
    query = state["probe"].retrieval_query
    hits = as_hits(context.search.search(query, k), k) if context.search else []
    cut = _cut(hits, context)
    weighed = _weigh(state, context, cut, context.top or WEB_TOP)
    return {
        "external": weighed.recomposed.text,
        "searched": [_searched(hit, cut, weighed) for hit in hits],
        "strips": [*state.get("strips", ()), *_as_strips("external", cut, weighed)],
        "hits": state["hits"] if state["action"] == "ambiguous" else [],
        "usage": weighed.usage,
    }


def _searched(
    hit: HitState, cut: Sequence[tuple[str, HitState]], weighed: Weighed
) -> SearchedState:
    """Return a passage of the search with the best score of its strips, and a flag that says
    whether one of them is used.
    """
    places = [place for place, (_, owner) in enumerate(cut) if owner is hit]
    best = max((weighed.scores[place] for place in places), default=WORST)
    return {
        **hit,
        "relevance": best,
        "used": any(place in weighed.recomposed.chosen for place in places),
    }


def compose(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """Build the prompt from the refined texts of both sources and the probe; without texts, it is
    just the probe.
    """
    facts = [text for text in (state.get("internal", ""), state.get("external", "")) if text]
    context = runtime.context
    prompt = probe_prompt(state["probe"], facts, (), context.wording)
    return cast(CragState, prompt_state(context.model, prompt))


def build() -> Graph:
    """Retrieve -> evaluate -> refine, search, or both -> compose -> respond."""
    graph = StateGraph(CragState, context_schema=CragContext)
    graph.add_node("retrieve", retrieve)
    graph.add_node("evaluate", evaluate)
    graph.add_edge("retrieve", "evaluate")
    graph.add_node("refine", refine)
    graph.add_node("search", search)
    graph.add_node("compose", compose)
    graph.add_node("respond", respond)
    graph.add_edge("search", "compose")
    graph.add_edge("compose", "respond")
    graph.add_edge(START, "retrieve")
    graph.add_conditional_edges("evaluate", after_evaluate)
    graph.add_conditional_edges("refine", after_refine)
    graph.add_edge("respond", END)
    return graph.compile(name="crag")
