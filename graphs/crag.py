"""CRAG (Yan et al. 2024): what was retrieved is judged, then refined, replaced by a wider search, or both.

The action is the authors' code's: `correct` if any passage reaches the upper threshold, else `ambiguous` if any reaches
the lower one, else `incorrect`. Correct uses the refined passages, incorrect what the search finds, ambiguous both. The
search is whatever retriever one plugs in; without one an incorrect retrieval leaves the probe as it is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.roles.answer import build_prompt
from emend.agents.roles.relevance import Evaluator
from emend.graphs.crag_strips import TOP, WORST, Mode, Recomposed, decompose, recompose, too_short
from emend.graphs.rag import HitState, RagContext, RagState, as_hits, retrieve
from emend.graphs.respond import respond, spent
from emend.memory.probe import Probe, Usage
from emend.memory.retrieval.base import Retriever

Action = Literal["correct", "ambiguous", "incorrect"]
RECURSION_LIMIT = 10
"""Six nodes."""
WEB_TOP = 5
"""How many strips of what a search found are kept."""


class SearchedState(HitState):
    """A passage that the wider search found: `relevance` is that of its best strip, `kept` whether one is used."""

    relevance: float
    kept: bool


class StripState(TypedDict):
    """A strip with its score; `entry_id` is that of its passage, `source` the name of the knowledge it was cut for."""

    entry_id: str
    source: Literal["internal", "external"]
    text: str
    relevance: float
    kept: bool


class CragState(RagState, total=False):
    """As for rag; `hits` are the passages from which the used strips come.

    `judged` has the passages with their scores, `searched` those of the wider search, `strips` what either were cut
    into; `internal` and `external` are the refined knowledge from either source.
    """

    judged: list[dict[str, Any]]
    searched: list[SearchedState]
    strips: list[StripState]
    action: Action
    internal: str
    external: str


@dataclass(frozen=True)
class CragContext(RagContext):
    """As for rag, with the evaluator, its thresholds, how strips are made, and the wider search.

    `top` 0 is the published number of strips for the mode; `floor` the least score of a strip; `search` finds
    `search_k` passages outside the memory, and is None where there is nothing to search.
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
    """What follows from the scores of a question's passages; no passages at all are incorrect."""
    if any(score >= upper for score in scores):
        return "correct"
    return "ambiguous" if any(score >= lower for score in scores) else "incorrect"


def evaluate(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """Scores what was retrieved, and decides.

    Raises:
        ModelReplyError: a model that judges replied with no score.
    """
    context = runtime.context
    passages = [hit["text"] for hit in state["hits"]]
    scores, usage = _scores(state, context, passages, [not passage.strip() for passage in passages])
    judged: list[dict[str, Any]] = [
        {**hit, "relevance": score} for hit, score in zip(state["hits"], scores, strict=True)
    ]
    action = act(scores, context.upper, context.lower)
    return {"judged": judged, "action": action, "usage": spent(state, usage)}


def _scores(
    state: CragState, context: CragContext, texts: Sequence[str], worst: Sequence[bool]
) -> tuple[list[float], Usage]:
    """One score a text; some are worst without being asked about."""
    asked = [text for text, bad in zip(texts, worst, strict=True) if not bad]
    if not asked or context.evaluator is None:
        return [WORST] * len(texts), Usage()
    told = context.evaluator.judge(Probe.model_validate(state["probe"]).retrieval_query, asked)
    found = iter(told.scores)
    return [WORST if bad else float(next(found)) for bad in worst], told.usage


def after_evaluate(state: CragState) -> Literal["refine", "search"]:
    """What is worth something is refined; what is not is replaced."""
    return "search" if state["action"] == "incorrect" else "refine"


class Weighed(NamedTuple):
    """Strips put together again, the score of each in their order, and what scoring them cost."""

    made: Recomposed
    scores: list[float]
    usage: Usage


def refine(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """The best strips of what was retrieved; only passages that gave one count as found.

    Raises:
        ModelReplyError: a model that judges replied with no score.
    """
    context, hits = runtime.context, state["hits"]
    cut = _cut(hits, context)
    passages = frozenset(hit["text"] for hit in hits)
    weighed = _refined(state, context, [strip for strip, _ in cut], passages, context.top or TOP[context.strips])
    used = {cut[place][1]["entry_id"]: cut[place][1] for place in weighed.made.kept}
    return {
        "internal": weighed.made.text,
        "strips": _as_strips("internal", cut, weighed),
        "hits": list(used.values()),
        "usage": spent(state, weighed.usage),
    }


def _cut(hits: Sequence[HitState], context: CragContext) -> list[tuple[str, HitState]]:
    """The strips of all passages, each with the passage that it is from."""
    return [(strip, hit) for hit in hits for strip in decompose(hit["text"], context.strips)]


def _as_strips(
    source: Literal["internal", "external"], cut: Sequence[tuple[str, HitState]], weighed: Weighed
) -> list[StripState]:
    """The strips as the state holds them."""
    kept = frozenset(weighed.made.kept)
    return [
        {
            "entry_id": hit["entry_id"],
            "source": source,
            "text": strip,
            "relevance": weighed.scores[place],
            "kept": place in kept,
        }
        for place, (strip, hit) in enumerate(cut)
    ]


def _refined(
    state: CragState, context: CragContext, strips: Sequence[str], passages: Collection[str], top: int
) -> Weighed:
    """What is left of the strips; a short fact that is a passage of its own is scored as any other."""
    if context.strips == "selection" and "judged" in state and len(strips) == len(state["judged"]):
        known = {str(told["text"]): float(told["relevance"]) for told in state["judged"]}
        if all(strip in known for strip in strips):  # the passages whole, which have been scored
            scores = [known[strip] for strip in strips]
            made = recompose(strips, scores, top, context.floor, [False] * len(strips), context.lower)
            return Weighed(made, scores, Usage())
    return _scored_and_kept(state, context, strips, passages, top)


def _scored_and_kept(
    state: CragState, context: CragContext, strips: Sequence[str], passages: Collection[str], top: int
) -> Weighed:
    worst = [too_short(strip) and strip not in passages for strip in strips]
    scores, usage = _scores(state, context, strips, worst)
    return Weighed(recompose(strips, scores, top, context.floor, worst, context.lower), scores, usage)


def after_refine(state: CragState) -> Literal["search", "compose"]:
    """In doubt the search is asked as well."""
    return "search" if state["action"] == "ambiguous" else "compose"


def search(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """The best strips of what the wider search finds; an incorrect retrieval counts as nothing found.

    Raises:
        ModelReplyError: a model that judges replied with no score.
    """
    context, k = runtime.context, runtime.context.search_k
    asked = Probe.model_validate(state["probe"]).retrieval_query
    found = as_hits(context.search.search(asked, k), k) if context.search else []
    cut = _cut(found, context)
    passages = frozenset(hit["text"] for hit in found)
    weighed = _scored_and_kept(state, context, [strip for strip, _ in cut], passages, context.top or WEB_TOP)
    return {
        "external": weighed.made.text,
        "searched": [_searched(hit, cut, weighed) for hit in found],
        "strips": [*state.get("strips", ()), *_as_strips("external", cut, weighed)],
        "hits": state["hits"] if state["action"] == "ambiguous" else [],
        "usage": spent(state, weighed.usage),
    }


def _searched(hit: HitState, cut: Sequence[tuple[str, HitState]], weighed: Weighed) -> SearchedState:
    """A found passage, with what became of its strips."""
    places = [place for place, (_, owner) in enumerate(cut) if owner is hit]
    best = max((weighed.scores[place] for place in places), default=WORST)
    return {**hit, "relevance": best, "kept": any(place in weighed.made.kept for place in places)}


def compose(state: CragState, runtime: Runtime[CragContext]) -> CragState:
    """The exact prompt: the refined knowledge from inside, from outside, or from both; without any, the probe alone."""
    facts = [told for told in (state.get("internal", ""), state.get("external", "")) if told]
    return {"prompt": build_prompt(Probe.model_validate(state["probe"]), facts, (), runtime.context.wording)}


def build() -> CompiledStateGraph[CragState, CragContext, CragState, CragState]:
    """Retrieve -> evaluate -> refine, search, or both -> compose -> respond."""
    graph = StateGraph(CragState, context_schema=CragContext)
    graph.add_node("retrieve", retrieve)
    graph.add_node("evaluate", evaluate)
    graph.add_node("refine", refine)
    graph.add_node("search", search)
    graph.add_node("compose", compose)
    graph.add_node("respond", respond)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "evaluate")
    graph.add_conditional_edges("evaluate", after_evaluate)
    graph.add_conditional_edges("refine", after_refine)
    graph.add_edge("search", "compose")
    graph.add_edge("compose", "respond")
    graph.add_edge("respond", END)
    return graph.compile(name="crag").with_config(recursion_limit=RECURSION_LIMIT)
