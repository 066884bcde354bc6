"""CRAG (Yan et al. 2024): retrieved passages are evaluated, then refined, replaced by a wider search, or both.

The action is as in the authors' code: `correct` if any passage reaches the upper threshold, else `ambiguous` if any
reaches the lower one, else `incorrect`. Correct uses the refined passages, incorrect those of the search, ambiguous
both. The search is any retriever; without one an incorrect retrieval leaves the probe unchanged.
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
WEB_TOP = 5
"""Number of strips that are kept of the search's passages."""


class SearchedState(HitState):
    """A passage that the wider search found: `relevance` is that of its best strip, `used` whether a strip of it is."""

    relevance: float
    used: bool


class StripState(TypedDict):
    """A strip with its score; `entry_id` is that of its passage, `source` the name of the knowledge it was cut for."""

    entry_id: str
    source: Literal["internal", "external"]
    text: str
    relevance: float
    used: bool


class CragState(RagState, total=False):
    """The state of rag; `hits` are the passages of the strips that are used.

    `judged` has the passages with their scores, `searched` those of the wider search, `strips` the strips of both;
    `thresholds` are those of the action; `internal` and `external` are the refined knowledge from either source.
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
    """The context of rag, with the evaluator, its thresholds, how strips are made, and the wider search.

    `top` 0 is the published number of strips for the mode; `floor` the minimum score of a strip; `search` finds
    `search_k` passages outside the memory, and may be None.
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
    """Choose the action by the scores of the passages; no passages at all are incorrect."""
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
    """Scores of the texts; some are the worst without being evaluated."""
    unscored = [text for text, bad in zip(texts, worst, strict=True) if not bad]
    if not unscored or context.evaluator is None:
        return [WORST] * len(texts), Usage()
    relevance = context.evaluator.judge(state["probe"].retrieval_query, unscored)
    scores = iter(relevance.scores)
    return [WORST if bad else float(next(scores)) for bad in worst], relevance.usage


def after_evaluate(state: CragState) -> Literal["refine", "search"]:
    """Refine relevant passages; replace irrelevant ones."""
    return "search" if state["action"] == "incorrect" else "refine"


class Weighed(NamedTuple):
    """The recomposed strips, the score of each in their order, and the cost."""

    recomposed: Recomposed
    scores: list[float]
    usage: Usage


def refine(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """Keep the best strips of the retrieved passages; only passages of such strips stay hits."""
    context = runtime.context
    cut, top = _cut(state["hits"], context), context.top or TOP[context.strips]
    if context.strips == "selection":  # the passages whole, which have been scored
        scores = [float(passage["relevance"]) for passage in state["judged"]]
        strips = [strip for strip, _ in cut]
        recomposed = recompose(strips, scores, top, context.floor, [False] * len(strips), context.lower)
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
    """The strips of all passages, each with its passage."""
    return [(strip, hit) for hit in hits for strip in decompose(hit["text"], context.strips)]


def _as_strips(
    source: Literal["internal", "external"], cut: Sequence[tuple[str, HitState]], weighed: Weighed
) -> list[StripState]:
    """The strips in the form of the state."""
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


def _weigh(state: CragState, context: CragContext, cut: Sequence[tuple[str, HitState]], top: int) -> Weighed:
    """The best strips; a short fact that is a passage of its own is scored like any other."""
    strips, passages = [strip for strip, _ in cut], {hit["text"] for _, hit in cut}
    worst = [too_short(strip) and strip not in passages for strip in strips]
    scores, usage = _scores(state, context, strips, worst)
    return Weighed(recompose(strips, scores, top, context.floor, worst, context.lower), scores, usage)


def after_refine(state: CragState) -> Literal["search", "compose"]:
    """Search as well if the retrieval is ambiguous."""
    return "search" if state["action"] == "ambiguous" else "compose"


def search(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """Keep the best strips of the wider search; the hits of an incorrect retrieval are dropped."""
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


def _searched(hit: HitState, cut: Sequence[tuple[str, HitState]], weighed: Weighed) -> SearchedState:
    """A passage of the search, with the best score of its strips and whether one is used."""
    places = [place for place, (_, owner) in enumerate(cut) if owner is hit]
    best = max((weighed.scores[place] for place in places), default=WORST)
    return {**hit, "relevance": best, "used": any(place in weighed.recomposed.chosen for place in places)}


def compose(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """Build the prompt with the refined knowledge of either source; without any it is the probe alone."""
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
