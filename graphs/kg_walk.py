"""Walk over the knowledge graph of edited facts: plan a question's relations, then answer each hop
by an edit or by the model.

After GMeLLo (Chen et al. 2024) and KEDKG (Lu et al. 2025), which turn a question into a chain of
relations and look up each hop among the edits, so that the model is asked only for hops without an
edit.

- A hop follows an edit whose wording has all words of the planned relation, or is similar to it by
  a sentence encoder. Else the model answers the hop under the facts about its entity, which links
  the answer to one of these facts.
- If no fact is about the entity, the model recalls this hop and the rest of the plan in one call;
  an edit of a recalled entity is still followed instead.
- A small model may omit hops from its plan or list them in another order, so an edit of the current
  entity is also followed if the question asks for it and it is not next in the plan. The plan may
  also have only a part of the first entity's name, which an edit then completes.
- A question about an edit's own fact is answered by that edit, without a plan.
- The walk ends when its hops have all words of the question.
- If no edit is on the path, the probe is asked unchanged, since the recalled facts would only
  distract the model.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.parsing.abstention import abstains
from emend.agents.roles.answer import probe_prompt
from emend.agents.roles.decompose import stepwise_question
from emend.agents.roles.line_steps import UNASKED
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
from emend.graphs.respond import prompt_state, respond
from emend.graphs.walk.edit_links import (
    EditLink,
    alike_links,
    edit_links,
    first_entity,
    is_named,
    named_subjects,
    names,
    speaks_of,
    triplets_of,
)
from emend.graphs.walk.relation_choice import same_relation, unplanned_relation, worded_relation
from emend.graphs.walk.relation_similarity import RelationSimilarity, without_name
from emend.memory.edit import Edit
from emend.memory.errors import ModelReplyError, ReplyRefused
from emend.memory.relations.edit_question import asks_for
from emend.memory.retrieval.base import search, search_probe
from emend.memory.retrieval.tokens import missing_stems, stems

# Number of entries to retrieve for a hop.
CANDIDATES = 5
MOST_HOPS = 2 * MOST_RELATIONS
# At most two nodes per hop, plus the nodes before and after the hops.
RECURSION_LIMIT = 5 + 2 * (MOST_HOPS + 1)


class WalkHop(TypedDict, total=False):
    """Hop as JSON: an entity, a relation, the facts about the entity, and the answer.

    `fact` is the text of the edit that was followed; without it the answer is the model's. A hop
    without `relation` was not planned.
    """

    entity: str
    relation: str
    facts: list[str]
    fact: str
    answer: str


class KgWalkState(RagState, total=False):
    """State of `rag`, with the plan and the hops so far; `stopped` is the reason of a walk that was
    given up.

    `subjects` are those of retrieved edits that the question names. `recalled` are the model's
    answers to the next hops, which are discarded once an edit is followed. `ended` is true when the
    plan is done and there is no further edit to follow.
    """

    subjects: list[str]
    entity: str
    relations: list[str]
    hops: list[WalkHop]
    recalled: list[str]
    stopped: str
    ended: bool


@dataclass(frozen=True)
class KgWalkContext(RagContext):
    """Context of `rag`, with the form of the plan and the applied edits by id, in the order of
    application.

    With `falls_back`, a question without a plan, or whose walk was given up, is asked under the
    retrieved facts; otherwise it has no answer. `similarity` compares wordings of relations;
    without it an edit must have all words of the planned relation.
    """

    form: ChainForm = "text"
    falls_back: bool = False
    edits: Mapping[str, Edit] = field(default_factory=dict)
    similarity: RelationSimilarity | None = None


def begin(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> Literal["match", "compose"]:
    """Route to the match; without applied edits, or with an empty list of targets, directly to the
    prompt.
    """
    return "compose" if not runtime.context.edits or state.get("targets") == [] else "match"


def match(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Find the last applied edit that answers the question by itself."""
    context, question = runtime.context, stepwise_question(state["probe"])
    hits = as_hits(search_probe(context.retriever, state["probe"], CANDIDATES), CANDIDATES)
    links = edit_links(hits, None, context.edits)
    if not (answers := [each for each in links if asks_for(question, each.triplet, each.edit)]):
        return {
            "hops": [],
            "hits": [],
            "subjects": named_subjects(hits, question, context.edits),
        }
    last = max(answers, key=lambda each: each.order)
    hop: WalkHop = {
        "entity": last.triplet.subject,
        "facts": [],
        "fact": last.hit["text"],
        "answer": last.triplet.object,
    }
    return {
        "entity": last.triplet.subject,
        "relations": [],
        "hops": [hop],
        "hits": [last.hit],
        "ended": True,
    }


def after_match(state: KgWalkState) -> Literal["plan", "compose"]:
    """Route to the plan, unless an edit answers the question by itself."""
    return "compose" if state.get("ended") else "plan"


def plan(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Parse the plan from the question, or ask the model for it; its entity is replaced by the
    subject of an edit if the plan has it in part (see `first_entity`).

    With `falls_back`, a question that is a chain of nouns is parsed without a call; and if there is
    no plan, the hits are one retrieved fact whose subject the question names, or none.

    Raises:
        ModelReplyError: the reply has no plan, and `falls_back` is false or the model declined.
    """
    context, probe = runtime.context, state["probe"]
    question = stepwise_question(probe)
    try:
        nested = parse_nested(question) if context.falls_back else None
        chain = nested or plan_chain(context.model, question, context.form)
    except ModelReplyError as error:
        if isinstance(error, ReplyRefused) or not context.falls_back:
            raise
        hits = as_hits(search_probe(context.retriever, probe, CANDIDATES), CANDIDATES)
        hits = [hit for hit in hits if is_named(hit, question, context.edits)][:1]
        return {
            "hits": hits,
            "relations": [],
            "hops": [],
            "fallback": f"no plan: {error}",
            "usage": error.usage,
        }
    return {
        "entity": first_entity(chain.entity, question, state["subjects"]),
        "relations": list(chain.relations),
        "hops": [],
        "hits": [],
        "usage": chain.usage,
    }


def after_plan(state: KgWalkState) -> Literal["link", "compose"]:
    """Route to the walk if there is a plan, else to the prompt."""
    return "link" if state["relations"] else "compose"


def link(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Look up the next hop among the edits of its entity; after the end of the plan, follow such an
    edit only if the question asks for it.
    """
    context, hops, relation = runtime.context, state["hops"], next_relation(state)
    question = without_name(stepwise_question(state["probe"]), state["entity"])
    open_words = missing_stems(question, UNASKED, *map(path_fact, hops)).keys()
    if hops and not open_words or not relation and len(hops) >= MOST_HOPS:
        return {"ended": True}
    entity = hops[-1]["answer"] if hops else state["entity"]
    hits = as_hits(
        search(context.retriever, f"{entity} {relation or question}", CANDIDATES), CANDIDATES
    )
    about = [hit for hit in hits if speaks_of(hit, entity, context.edits)]
    links = list(edit_links(about, entity, context.edits))
    hop: WalkHop = {"entity": entity, "facts": [hit["text"] for hit in about]}
    if followed := same_relation(links, relation, context.similarity):
        hop["relation"] = relation
    else:
        past = [earlier.get("fact") for earlier in hops]
        unused = [each for each in links if each.hit["text"] not in past]
        if context.similarity is not None:
            followed = unplanned_relation(unused, relation, question, context.similarity)
        else:
            followed = worded_relation(unused, open_words, is_nested=not hops)
            if followed and is_reworded(state, open_words):
                hop["relation"] = relation
    if followed is not None:
        hop |= {"fact": followed.hit["text"], "answer": followed.triplet.object}
        return {
            **_reordered(state, hop, followed, context.similarity),
            "hits": [*state["hits"], followed.hit],
            "recalled": [],
        }
    if not relation:
        return {"ended": True}
    if not about and hops and "fact" not in hops[-1]:
        alike = same_relation(
            list(alike_links(hits, entity, context.edits)), relation, context.similarity
        )
        about = [alike.hit] if alike else []
        hop["facts"] = [hit["text"] for hit in about]
    hop["relation"], recalled = relation, [] if about else state.get("recalled", [])
    if recalled:
        hop["answer"] = recalled[0]
    return {"hops": [*hops, hop], "hits": [*state["hits"], *about], "recalled": recalled[1:]}


def _reordered(
    state: KgWalkState, hop: WalkHop, followed: EditLink, similarity: RelationSimilarity | None
) -> KgWalkState:
    """Return the hops with a hop that follows an edit, and the plan; if the edit has a later
    relation of the plan than the next one, that relation is moved to this hop.

    A small model may list the relations in the order in which the question names them.
    """
    position, relations = sum("relation" in hop for hop in state["hops"]), list(state["relations"])
    if "relation" not in hop:
        for place, relation in enumerate(relations[position + 1 :], position + 1):
            if same_relation([followed], relation, similarity):
                relations.insert(position, relations.pop(place))
                hop = {**hop, "relation": relation}
                break
    update: KgWalkState = {"hops": [*state["hops"], hop]}
    return update if relations == state["relations"] else {**update, "relations": relations}


def next_relation(state: KgWalkState) -> str:
    """Return the next relation of the plan; empty after the last one."""
    planned = sum("relation" in hop for hop in state["hops"])
    return state["relations"][planned] if planned < len(state["relations"]) else ""


def is_reworded(state: KgWalkState, open_words: Set[str]) -> bool:
    """Return whether the plan's next relation rewords the relation of the followed edit.

    This is assumed if the question lacks words of it. It is false for the only relation of a plan,
    since a nested question asks for more than the edit.
    """
    planned = sum("relation" in hop for hop in state["hops"])
    relations = state["relations"][planned:]
    if not relations or set(stems(relations[0])) <= open_words:
        return False
    return bool(state["hops"]) or len(relations) > 1


def after_link(state: KgWalkState) -> Literal["recall", "link", "compose"]:
    """Route to `recall` for a hop without an answer, to the next hop, or to the prompt."""
    if state.get("ended"):
        return "compose"
    return "link" if "answer" in state["hops"][-1] else "recall"


def after_recall(state: KgWalkState) -> Literal["link", "compose"]:
    """Route to the next hop, or to the prompt if the model does not know the answer."""
    return "compose" if "stopped" in state else "link"


def recall(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Ask the model for the answer of a hop, given the facts about its entity; stop if it does not
    know the answer.

    If there are no facts about the entity, the remaining hops are asked in the same call.

    Raises:
        ModelReplyError: the reply is blank, and `falls_back` is false or the model declined.
    """
    context, hops = runtime.context, list(state["hops"])
    hop = hops[-1]
    relations = [hop["relation"], *state["relations"][sum("relation" in each for each in hops) :]]
    try:
        if hop["facts"] or len(relations) == 1:
            reply = recall_object(
                context.model, hop["entity"], hop["relation"], tuple(hop["facts"]), context.wording
            )
        else:
            reply = recall_chain(context.model, hop["entity"], relations)
    except ModelReplyError as error:
        if isinstance(error, ReplyRefused) or not context.falls_back:
            raise
        return {"stopped": str(error), "usage": error.usage}
    if abstains(reply.answer, hop["relation"]):
        return {"stopped": f"not known: {reply.answer}", "usage": reply.usage}
    about = [hit for hit in state["hits"] if hit["text"] in hop["facts"]]
    links = [
        each
        for each in alike_links(about, hop["entity"], context.edits)
        if names(reply.answer, each.triplet)
    ]
    hops[-1] = {**hop, "answer": reply.answer}
    if links:
        last = max(links, key=lambda each: each.order)
        hops[-1] |= {"fact": last.hit["text"], "answer": last.triplet.object}
    known = takewhile(
        lambda pair: not abstains(*pair), zip(reply.further, relations[1:], strict=False)
    )
    return {"hops": hops, "recalled": [answer for answer, _ in known], "usage": reply.usage}


def compose(state: KgWalkState, runtime: Runtime[KgWalkContext]) -> KgWalkState:
    """Build the prompt from the facts of the path and the probe.

    The last hop's answer is final for a probe without choices whose reply is one line. Without an
    edit on the path, the prompt is the probe alone, which the model answers.
    """
    context, probe, hops = runtime.context, state["probe"], state.get("hops", [])
    if hops and not any(follows_edit(hop, context.edits, state["hits"]) for hop in hops):
        update = cast(
            KgWalkState, prompt_state(context.model, probe_prompt(probe, (), (), context.wording))
        )
        return {**update, "hits": []}
    facts = [path_fact(hop) for hop in hops if "answer" in hop]
    facts = facts or [hit["text"] for hit in state.get("hits", ())]
    prompt = probe_prompt(probe, tuple(dict.fromkeys(facts)), (), context.wording)
    update = cast(KgWalkState, prompt_state(context.model, prompt))
    if state.get("ended") and not probe.choices and probe.reading == "line":
        update["final"] = hops[-1]["answer"]
    return update


def follows_edit(hop: WalkHop, edits: Mapping[str, Edit], hits: Sequence[HitState]) -> bool:
    """Return whether a hop follows an edit, or has a document without triplets among its facts."""
    documents = [
        hit["text"] for hit in hits if next(triplets_of(edits.get(hit["edit_id"])), None) is None
    ]
    return "fact" in hop or any(text in hop["facts"] for text in documents)


def path_fact(hop: WalkHop) -> str:
    """Return the fact of a hop: the edit's text, or a sentence with the model's answer."""
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
