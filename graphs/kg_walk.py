"""A walk over the graph of edited facts: plan the relations at once, follow edits where there are some, else the model.

After GMeLLo (Chen et al. 2024) and KEDKG (Lu et al. 2025), which turn a question into a chain of relations and look
each hop up among the edits; the model is asked only for what no edit decides. An edit is a hop's if it has all words of
its relation, or is alike by a sentence encoder; else the model answers the hop under the facts that speak of its
entity, and so links them. Hops that no fact is about are recalled in one call, as far as the plan goes, and an edit of
an entity on the way still leads elsewhere. A small model leaves hops out of its plan: an edit of the entity at hand
that the question asks for, and the plan does not have, is followed too. A question that asks for an edit's own fact is
answered by that edit without a plan, and a walk ends when its hops have all words of the question.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, NamedTuple, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.parsing.abstention import abstains
from emend.agents.roles.answer import probe_prompt
from emend.agents.roles.decompose import stepwise_question
from emend.agents.roles.relation_chain import (
    MOST_RELATIONS,
    ChainForm,
    parse_nested,
    plan_chain,
    recall_chain,
    recall_object,
)
from emend.graphs.execution import Graph
from emend.graphs.rag import HitState, RagContext, RagState, as_hits
from emend.graphs.relation_similarity import ASKED, OTHER, SAME, RelationSimilarity, relation_wording, without_name
from emend.graphs.respond import prompt_state, respond
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import ModelReplyError, ReplyRefused
from emend.memory.relations.edit_question import asks_for, plain_name, prepositions
from emend.memory.retrieval.base import search, search_probe
from emend.memory.retrieval.tokens import stems, whole
from emend.memory.typography import fold_text

CANDIDATES = 5
"""Entries that are looked at for a hop."""
MOST_HOPS = 2 * MOST_RELATIONS
RECURSION_LIMIT = 5 + 2 * (MOST_HOPS + 1)
"""Two nodes a hop at most, and those before and after."""


class WalkHop(TypedDict, total=False):
    """A hop as JSON: from an entity by a relation, with the facts that speak of it, to an answer.

    `fact` is the edit that was followed; without one the answer is the model's. A hop without a `relation` was not
    planned.
    """

    entity: str
    relation: str
    facts: list[str]
    fact: str
    answer: str


class KgWalkState(RagState, total=False):
    """The state of rag, with the plan, and the hops so far; `stopped` says why a walk has no end.

    `recalled` are the model's answers to the hops that come next, as long as no edit leads elsewhere. `ended` is true
    when the plan is done, and no edit leads on.
    """

    entity: str
    relations: list[str]
    hops: list[WalkHop]
    recalled: list[str]
    stopped: str
    ended: bool


@dataclass(frozen=True)
class KgWalkContext(RagContext):
    """The context of rag, with the form of the plan, and the applied edits by id, the last applied last.

    `falls_back` asks a question that has no plan, or no end, under what was retrieved; it has no answer else.
    `similarity` compares wordings of relations; without it an edit must have the words of the plan's.
    """

    form: ChainForm = "text"
    falls_back: bool = False
    edits: Mapping[str, Edit] = field(default_factory=dict)
    similarity: RelationSimilarity | None = None


class EditLink(NamedTuple):
    """A triplet of an edit that begins at an entity, with its entry; `order` is that of application."""

    order: int
    hit: HitState
    triplet: Triplet
    edit: Edit


def edit_links(hits: Sequence[HitState], entity: str | None, edits: Mapping[str, Edit]) -> Iterator[EditLink]:
    """The triplets of the hits' edits whose subject is an entity, or any."""
    order = {edit_id: place for place, edit_id in enumerate(edits)}
    for hit in hits:
        edit = edits.get(hit["edit_id"])
        for triplet in triplets_of(edit):
            if edit is not None and (entity is None or plain_name(triplet.subject) == plain_name(entity)):
                yield EditLink(order[edit.id], hit, triplet, edit)


def alike_links(hits: Sequence[HitState], entity: str, edits: Mapping[str, Edit]) -> Iterator[EditLink]:
    """The triplets whose subject has all words of an entity side by side, or the other way round.

    A model that recalls an entity may call it `United States` where an edit says `United States of America`.
    """
    name = f" {plain_name(entity)} "
    for each in edit_links(hits, None, edits):
        subject = f" {plain_name(each.triplet.subject)} "
        if name.strip() and subject.strip() and (name in subject or subject in name):
            yield each


def begin(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> Literal["match", "compose"]:
    """Match, unless no edit is applied, or there are no targets to score."""
    return "compose" if not runtime.context.edits or state.get("targets") == [] else "match"


def match(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Look for an edit that answers the question by itself."""
    context, question = runtime.context, stepwise_question(state["probe"])
    hits = as_hits(search_probe(context.retriever, state["probe"], CANDIDATES), CANDIDATES)
    links = edit_links(hits, None, context.edits)
    if not (answers := [each for each in links if asks_for(question, each.triplet, each.edit)]):
        return {"hops": [], "hits": []}
    last = max(answers, key=lambda each: each.order)
    hop: WalkHop = {
        "entity": last.triplet.subject,
        "facts": [],
        "fact": last.hit["text"],
        "answer": last.triplet.object,
    }
    return {"entity": last.triplet.subject, "relations": [], "hops": [hop], "hits": [last.hit], "ended": True}


def open_words(question: str, *texts: str) -> Counter[str]:
    """The stems of a question that texts do not have, each as often as it is missing."""
    return Counter(stems(question)) - Counter(stem for text in texts for stem in set(stems(text)))


def after_match(state: KgWalkState) -> Literal["plan", "compose"]:
    """Plan where no edit answers the question by itself."""
    return "compose" if state.get("ended") else "plan"


def plan(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Read the plan off the question or ask for it; without one, retrieve the question's fact, if the context may.

    A context that falls back reads it off where the question is a chain of nouns, which takes no call.

    Raises:
        ModelReplyError: the reply is no plan.
    """
    context, probe = runtime.context, state["probe"]
    try:
        question = stepwise_question(probe)
        nested = parse_nested(question) if context.falls_back else None
        chain = nested or plan_chain(context.model, question, context.form)
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
    """Look the next hop up among the edits of its entity; after the plan, whether one of them leads on."""
    context, hops, relation = runtime.context, state["hops"], next_relation(state)
    question = without_name(stepwise_question(state["probe"]), state["entity"])
    is_covered = bool(hops) and not open_words(question, *map(path_fact, hops))
    if is_covered or not relation and (context.similarity is None or len(hops) >= MOST_HOPS):
        return {"ended": True}
    entity = hops[-1]["answer"] if hops else state["entity"]
    hits = as_hits(search(context.retriever, f"{entity} {relation or question}", CANDIDATES), CANDIDATES)
    about = [hit for hit in hits if speaks_of(hit, entity, context.edits)]
    links = list(edit_links(about, entity, context.edits))
    hop: WalkHop = {"entity": entity, "facts": [hit["text"] for hit in about]}
    if followed := same_relation(links, relation, context.similarity):
        hop["relation"] = relation
    elif context.similarity is not None:
        unused = [each for each in links if each.hit["text"] not in [earlier.get("fact") for earlier in hops]]
        followed = unplanned_relation(unused, relation, question, context.similarity)
    if followed is not None:
        hop |= {"fact": followed.hit["text"], "answer": followed.triplet.object}
        return {"hops": [*hops, hop], "hits": [*state["hits"], followed.hit], "recalled": []}
    if not relation:
        return {"ended": True}
    if not about and hops and "fact" not in hops[-1]:
        alike = same_relation(list(alike_links(hits, entity, context.edits)), relation, context.similarity)
        about = [alike.hit] if alike else []
        hop["facts"] = [hit["text"] for hit in about]
    hop["relation"], recalled = relation, [] if about else state.get("recalled", [])
    if recalled:
        hop["answer"] = recalled[0]
    return {"hops": [*hops, hop], "hits": [*state["hits"], *about], "recalled": recalled[1:]}


def next_relation(state: KgWalkState) -> str:
    """The relation of the plan that comes next; empty after the last one."""
    planned = sum("relation" in hop for hop in state["hops"])
    return state["relations"][planned] if planned < len(state["relations"]) else ""


def speaks_of(hit: HitState, entity: str, edits: Mapping[str, Edit]) -> bool:
    """True if an entry is about an entity: its edit's subject, or a name in a text without triplets."""
    name = plain_name(entity)
    subjects = [plain_name(triplet.subject) for triplet in triplets_of(edits.get(hit["edit_id"]))]
    return name in subjects if subjects else bool(name) and whole(name).search(fold_text(hit["text"])) is not None


def same_relation(links: Sequence[EditLink], relation: str, similarity: RelationSimilarity | None) -> EditLink | None:
    """The link with the words of a relation, else the one most alike; of several the one that was applied last."""
    exact = [each for each in links if says_relation(relation, each.triplet, each.edit)]
    if exact or similarity is None:
        return max(exact, key=lambda each: each.order, default=None)
    scores = [similarity.compare(relation, each.triplet, each.edit) for each in links]
    best = max(zip(scores, links, strict=True), key=lambda pair: (pair[0], pair[1].order), default=None)
    return best[1] if best and best[0] >= SAME else None


def unplanned_relation(
    links: Sequence[EditLink], relation: str, question: str, similarity: RelationSimilarity
) -> EditLink | None:
    """The link that a question asks for most, of those that have another relation than the planned one."""
    others = [(each, relation_wording(each.triplet, each.edit)) for each in links]
    others = [(each, wording) for each, wording in others if similarity.cosine(relation, wording) < OTHER]
    scores = [(similarity.cosine(question, wording), each) for each, wording in others]
    best = max(scores, key=lambda pair: (pair[0], pair[1].order), default=None)
    return best[1] if best and best[0] >= ASKED else None


def triplets_of(edit: Edit | None) -> Iterator[Triplet]:
    """The triplets of an edit that have an object; of a document without any, none."""
    if edit is None:
        return
    if not edit.triplets and edit.subject and edit.target_new:
        yield Triplet(subject=edit.subject, relation=edit.prompt, object=edit.target_new)
    yield from (triplet for triplet in edit.triplets if triplet.object.strip())


def says_relation(relation: str, triplet: Triplet, edit: Edit) -> bool:
    """True if all words of a relation stand in that of the triplet, or in the edit's prompt or question."""
    wording = " ".join((triplet.relation, edit.prompt, edit.question))
    needed = set(stems(relation))
    return bool(needed) and needed <= set(stems(wording)) and prepositions(relation) <= prepositions(wording)


def after_link(state: KgWalkState) -> Literal["recall", "link", "compose"]:
    """Recall what no edit decides, else go on to the end."""
    if state.get("ended"):
        return "compose"
    return "link" if "answer" in state["hops"][-1] else "recall"


def after_recall(state: KgWalkState) -> Literal["link", "compose"]:
    """Go on, unless the model does not know the hop."""
    return "compose" if "stopped" in state else "link"


def recall(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Ask the model for a hop, under the facts about its entity; a model that does not know it ends the walk.

    Where no fact is about the entity, the hops that follow are asked in the same call.

    Raises:
        ModelReplyError: the reply is blank.
    """
    context, hops = runtime.context, list(state["hops"])
    hop = hops[-1]
    relations = [hop["relation"], *state["relations"][sum("relation" in each for each in hops) :]]
    try:
        if hop["facts"] or len(relations) == 1:
            reply = recall_object(context.model, hop["entity"], hop["relation"], tuple(hop["facts"]), context.wording)
        else:
            reply = recall_chain(context.model, hop["entity"], relations)
    except ModelReplyError as error:
        if isinstance(error, ReplyRefused) or not context.falls_back:
            raise
        return {"stopped": str(error), "usage": error.usage}
    if abstains(reply.answer, hop["relation"]):
        return {"stopped": f"not known: {reply.answer}", "usage": reply.usage}
    about = [hit for hit in state["hits"] if hit["text"] in hop["facts"]]
    links = [each for each in alike_links(about, hop["entity"], context.edits) if names(reply.answer, each.triplet)]
    hops[-1] = {**hop, "answer": reply.answer}
    if links:
        last = max(links, key=lambda each: each.order)
        hops[-1] |= {"fact": last.hit["text"], "answer": last.triplet.object}
    known = takewhile(lambda pair: not abstains(*pair), zip(reply.further, relations[1:], strict=False))
    return {"hops": hops, "recalled": [answer for answer, _ in known], "usage": reply.usage}


def names(answer: str, triplet: Triplet) -> bool:
    """True if an answer has a triplet's object as whole words: a small model answers a hop in a sentence."""
    name = plain_name(triplet.object)
    return bool(name) and whole(name).search(fold_text(answer)) is not None


def compose(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Build the prompt of the probe under the facts of the path; the last hop's answer is final, without choices."""
    context, probe, hops = runtime.context, state["probe"], state.get("hops", [])
    facts = [path_fact(hop) for hop in hops if "answer" in hop] or [hit["text"] for hit in state.get("hits", ())]
    prompt = probe_prompt(probe, tuple(dict.fromkeys(facts)), (), context.wording)
    update = cast(KgWalkState, prompt_state(context.model, prompt))
    if state.get("ended") and hops and not probe.choices and probe.reading == "line":
        update["final"] = hops[-1]["answer"]
    return update


def path_fact(hop: WalkHop) -> str:
    """The fact that a hop has followed: the edit's text, or a sentence for what the model has recalled."""
    return hop.get("fact") or f"The {hop['relation']} of {hop['entity']} is {hop['answer']}."


def build() -> Graph:
    """Match -> plan -> link, and recall where no edit decides, hop by hop -> compose -> respond."""
    graph = StateGraph(KgWalkState, context_schema=KgWalkContext)
    graph.add_node("match", match)
    graph.add_node("plan", plan)
    graph.add_node("link", link)
    graph.add_node("recall", recall)
    graph.add_node("compose", compose)
    graph.add_node("respond", respond)
    graph.add_conditional_edges(START, begin)
    graph.add_conditional_edges("match", after_match)
    graph.add_conditional_edges("plan", after_plan)
    graph.add_conditional_edges("link", after_link)
    graph.add_conditional_edges("recall", after_recall)
    graph.add_edge("compose", "respond")
    graph.add_edge("respond", END)
    return graph.compile(name="kg_walk").with_config(recursion_limit=RECURSION_LIMIT)
