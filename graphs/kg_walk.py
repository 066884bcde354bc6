"""A walk over the graph of edited facts: plan the relations at once, follow edits where there are some, else the model.

After GMeLLo (Chen et al. 2024) and KEDKG (Lu et al. 2025), which turn a question into a chain of relations and look
each hop up among the edits; the model is asked only for a hop that no edit decides. Where the relation of an edit is
worded in another way than the plan's, the model answers the hop under the facts that speak of its entity, and so links
them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.parsing.abstention import abstains
from emend.agents.roles.answer import probe_prompt
from emend.agents.roles.decompose import stepwise_question
from emend.agents.roles.relation_chain import ChainForm, plan_chain, recall_object
from emend.graphs.execution import Graph
from emend.graphs.rag import HitState, RagContext, RagState, as_hits
from emend.graphs.respond import prompt_state, respond
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import ModelReplyError, ReplyRefused
from emend.memory.retrieval.base import search, search_probe
from emend.memory.retrieval.tokens import stems, whole
from emend.memory.typography import fold_text

CANDIDATES = 5
"""Entries that are looked at for a hop."""
OPTIONAL_WORDS = frozenset(("of", "the", "a", "an"))
"""Words of a relation that need not stand in an edit."""
RECURSION_LIMIT = 40
"""Two nodes a hop at most, and those before and after."""


class WalkHop(TypedDict, total=False):
    """A hop as JSON: from an entity by a relation, with the facts that speak of it, to an answer.

    `fact` is the edit that was followed; without one the answer is the model's.
    """

    entity: str
    relation: str
    facts: list[str]
    fact: str
    answer: str


class KgWalkState(RagState, total=False):
    """The state of rag, with the plan, and the hops so far; `stopped` says why a walk has no end."""

    entity: str
    relations: list[str]
    hops: list[WalkHop]
    stopped: str


@dataclass(frozen=True)
class KgWalkContext(RagContext):
    """The context of rag, with the form of the plan, and the applied edits by id, the last applied last.

    `falls_back` asks a question that has no plan, or no end, under what was retrieved; it has no answer else.
    """

    form: ChainForm = "text"
    falls_back: bool = False
    edits: Mapping[str, Edit] = field(default_factory=dict)


def begin(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> Literal["plan", "compose"]:
    """Plan, unless no edit is applied, or there are no targets to score."""
    return "compose" if not runtime.context.edits or state.get("targets") == [] else "plan"


def plan(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Ask for the plan; without one, retrieve the fact for the question itself, if the context falls back.

    Raises:
        ModelReplyError: the reply is no plan.
    """
    context, probe = runtime.context, state["probe"]
    try:
        chain = plan_chain(context.model, stepwise_question(probe), context.form)
    except ModelReplyError as error:
        if isinstance(error, ReplyRefused) or not context.falls_back:
            raise
        hits = as_hits(search_probe(context.retriever, probe, 1), 1)
        return {"hits": hits, "relations": [], "hops": [], "fallback": f"no plan: {error}", "usage": error.usage}
    return {"entity": chain.entity, "relations": list(chain.relations), "hops": [], "hits": [], "usage": chain.usage}


def after_plan(state: KgWalkState) -> Literal["link", "compose"]:
    """Walk if there is a plan."""
    return "link" if state["relations"] else "compose"


def link(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Look the next hop up among the edits: by its entity, and by all words of its relation."""
    context, hops = runtime.context, list(state["hops"])
    entity = hops[-1]["answer"] if hops else state["entity"]
    relation = state["relations"][len(hops)]
    hits = as_hits(search(context.retriever, f"{entity} {relation}", CANDIDATES), CANDIDATES)
    about = [hit for hit in hits if speaks_of(hit, entity, context.edits)]
    hop: WalkHop = {"entity": entity, "relation": relation, "facts": [hit["text"] for hit in about]}
    if match := last_object(about, entity, relation, context.edits):
        hop |= {"fact": match[0]["text"], "answer": match[1]}
        about = [match[0]]
    return {"hops": [*hops, hop], "hits": [*state["hits"], *about]}


def speaks_of(hit: HitState, entity: str, edits: Mapping[str, Edit]) -> bool:
    """True if an entry is about an entity: its edit's subject, or a name in a text without triplets."""
    name = plain_name(entity)
    subjects = [plain_name(triplet.subject) for triplet in triplets_of(edits.get(hit["edit_id"]))]
    return name in subjects if subjects else bool(name) and whole(name).search(fold_text(hit["text"])) is not None


def last_object(
    hits: Sequence[HitState], entity: str, relation: str, edits: Mapping[str, Edit]
) -> tuple[HitState, str] | None:
    """The object of an entity's relation, with its entry, by the edit that was applied last; None without one."""
    order = {edit_id: place for place, edit_id in enumerate(edits)}
    matches = [
        (order[hit["edit_id"]], hit, triplet.object)
        for hit in hits
        for triplet in triplets_of(edits.get(hit["edit_id"]))
        if plain_name(triplet.subject) == plain_name(entity) and says_relation(relation, triplet, edits[hit["edit_id"]])
    ]
    return max(matches, key=lambda match: match[0])[1:] if matches else None


def triplets_of(edit: Edit | None) -> Iterator[Triplet]:
    """The triplets of an edit; of a document without any, none."""
    if edit is not None:
        yield from edit.triplets
        if not edit.triplets and edit.subject and edit.target_new:
            yield Triplet(subject=edit.subject, relation=edit.prompt, object=edit.target_new)


def says_relation(relation: str, triplet: Triplet, edit: Edit) -> bool:
    """True if all words of a relation stand in that of the triplet, or in the edit's prompt or question.

    Prepositions count, or `founded by` would be `founded in`.
    """
    wording = set(stems(" ".join((triplet.relation, edit.prompt, edit.question))))
    needed = {stem for stem in stems(relation) if stem not in OPTIONAL_WORDS}
    return bool(needed) and needed <= wording


def plain_name(name: str) -> str:
    """A name without case, marks of typography, article and final full stop."""
    return fold_text(name).strip().removeprefix("the ").removesuffix(".")


def after_link(state: KgWalkState) -> Literal["recall", "link", "compose"]:
    """Recall what no edit decides, else go on."""
    return onward(state) if "answer" in state["hops"][-1] else "recall"


def after_recall(state: KgWalkState) -> Literal["link", "compose"]:
    """Go on, unless the model does not know the hop."""
    return "compose" if "stopped" in state else onward(state)


def onward(state: KgWalkState) -> Literal["link", "compose"]:
    """The next relation, until there is none."""
    return "link" if len(state["hops"]) < len(state["relations"]) else "compose"


def recall(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Ask the model for a hop, under the facts about its entity; a model that does not know it ends the walk.

    Raises:
        ModelReplyError: the reply is blank.
    """
    context, hops = runtime.context, list(state["hops"])
    hop = hops[-1]
    try:
        reply = recall_object(context.model, hop["entity"], hop["relation"], tuple(hop["facts"]), context.wording)
    except ModelReplyError as error:
        if isinstance(error, ReplyRefused) or not context.falls_back:
            raise
        return {"stopped": str(error), "usage": error.usage}
    if abstains(reply.answer, hop["relation"]):
        return {"stopped": f"not known: {reply.answer}", "usage": reply.usage}
    hops[-1] = {**hop, "answer": reply.answer}
    return {"hops": hops, "usage": reply.usage}


def compose(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Build the prompt of the probe under the facts of the path; the last hop's answer is final, without choices."""
    context, probe, hops = runtime.context, state["probe"], state.get("hops", [])
    facts = [path_fact(hop) for hop in hops if "answer" in hop] or [hit["text"] for hit in state.get("hits", ())]
    prompt = probe_prompt(probe, tuple(dict.fromkeys(facts)), (), context.wording)
    update = cast(KgWalkState, prompt_state(context.model, prompt))
    is_whole = bool(hops) and len(hops) == len(state["relations"]) and "answer" in hops[-1]
    if is_whole and not probe.choices and probe.reading == "line":
        update["final"] = hops[-1]["answer"]
    return update


def path_fact(hop: WalkHop) -> str:
    """The fact that a hop has followed: the edit's text, or a sentence for what the model has recalled."""
    return hop.get("fact") or f"The {hop['relation']} of {hop['entity']} is {hop['answer']}."


def build() -> Graph:
    """Plan -> link, and recall where no edit decides, hop by hop -> compose -> respond."""
    graph = StateGraph(KgWalkState, context_schema=KgWalkContext)
    graph.add_node("plan", plan)
    graph.add_node("link", link)
    graph.add_node("recall", recall)
    graph.add_node("compose", compose)
    graph.add_node("respond", respond)
    graph.add_conditional_edges(START, begin)
    graph.add_conditional_edges("plan", after_plan)
    graph.add_conditional_edges("link", after_link)
    graph.add_conditional_edges("recall", after_recall)
    graph.add_edge("compose", "respond")
    graph.add_edge("respond", END)
    return graph.compile(name="kg_walk").with_config(recursion_limit=RECURSION_LIMIT)
