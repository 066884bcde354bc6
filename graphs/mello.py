"""MeLLo (Zhong et al. 2023, section 5): decompose a question into steps, and check each step
against the memory of new facts.

`graphs/decomposition` has its forms, one per file. `text` is the published form, with one
generation per round. `lines` gives the model the label of each line and generates one line at a
time, for models too small to follow a format. `structured` asks for each step and each check as
JSON in a schema. The context may name further forms to fall back to if a reply does not follow the
format; the last one may be `facts`, which asks the probe under the facts retrieved so far.
"""

from typing import Literal, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.answer import probe_prompt, repeat_probe
from emend.agents.roles.decompose import FINAL, NOTHING, RETRIEVED, check_line, stepwise_question
from emend.agents.scoring import is_chat_model
from emend.graphs.decomposition.lines import check_line_by_line, is_unrelated, next_line
from emend.graphs.decomposition.published import next_round
from emend.graphs.decomposition.state import (
    HOPS_LIMIT,
    HopState,
    MelloContext,
    MelloState,
    first_lines,
    prompt_of,
)
from emend.graphs.decomposition.structured import check_by_schema, next_schema
from emend.graphs.execution import Graph
from emend.graphs.rag import as_hits
from emend.graphs.respond import prompt_state, respond
from emend.memory.errors import ModelReplyError, ReplyRefused
from emend.memory.retrieval.base import search

STEPS = {"text": next_round, "lines": next_line, "structured": next_schema}
CHECKS = {"lines": check_line_by_line, "structured": check_by_schema}
# Three nodes per hop, twice for a second form, plus the nodes before and after the hops.
RECURSION_LIMIT = 5 + 2 * 3 * HOPS_LIMIT


def begin(state: MelloState, runtime: Runtime[MelloContext]) -> Literal["decompose", "compose"]:
    """Route to the decomposition; without applied edits, or with an empty list of targets, directly
    to the prompt.
    """
    return "compose" if runtime.context.empty or state.get("targets") == [] else "decompose"


def decompose(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Generate the next subquestion with a tentative answer, or end the decomposition;
    `check_limit` is the published stop rule.

    Raises:
        ModelReplyError: the reply does not follow the format or exceeds the limit of subquestions,
            and there is no further form or the model declined.
    """
    probe, context = state["probe"], runtime.context
    form, hops = state.get("form", context.form), list(state.get("hops", ()))
    if form == "facts":
        return {"hops": hops}
    transcript = state.get("transcript") or first_lines(probe, context, form)
    try:
        update = STEPS[form](probe, context, hops, transcript)
    except ModelReplyError as error:
        return _next_form(state, context, error)
    return (
        {"form": form, **update} if "form" not in state and is_chat_model(context.model) else update
    )


def _next_form(state: MelloState, context: MelloContext, error: ModelReplyError) -> MelloState:
    """Restart in the next form; raise the error if there is none, or if the model declined."""
    form, forms = state.get("form", context.form), (context.form, *context.fallbacks)
    if form == forms[-1] or isinstance(error, ReplyRefused):
        raise error
    probe = state["probe"]
    after = forms[forms.index(form) + 1]
    reason = "; ".join([*([state["fallback"]] if "fallback" in state else []), f"{form}: {error}"])
    update: MelloState = {"form": after, "fallback": reason, "usage": error.usage}
    if after == "facts":
        has_fact = any("fact" in hop for hop in state.get("hops", ()))
        question: HopState = {"subquestion": stepwise_question(probe), "tentative": ""}
        return update if has_fact else {**update, "transcript": "", "hops": [question]}
    return {**update, "transcript": first_lines(probe, context, after), "hops": []}


def after_decompose(
    state: MelloState, runtime: Runtime[MelloContext]
) -> Literal["decompose", "retrieve", "compose"]:
    """Route to the retrieval for a new subquestion, to a decomposition in another form, or to the
    prompt.
    """
    hops = state["hops"]
    if not hops and state.get("form", runtime.context.form) != runtime.context.form:
        return "decompose"
    return "compose" if "final" in state or not hops or "fact" in hops[-1] else "retrieve"


def retrieve(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Retrieve the facts nearest to the subquestion, and add them to the transcript, or a
    placeholder if nothing was found.
    """
    hops = list(state["hops"])
    k = runtime.context.k
    hits = as_hits(search(runtime.context.retriever, hops[-1]["subquestion"], k), k)
    # Must be one line: a document of several lines could forge the check and the following lines.
    fact = " ".join(" ".join(hit["text"] for hit in hits).splitlines()) or NOTHING
    if not fact.endswith((".", "!", "?")):
        fact += "."
    hops[-1] = {**hops[-1], "fact": fact}
    transcript = f"{state['transcript']}{RETRIEVED} {fact}\n"
    return {"hits": [*state.get("hits", ()), *hits], "hops": hops, "transcript": transcript}


def after_retrieve(
    state: MelloState, runtime: Runtime[MelloContext]
) -> Literal["decompose", "check"]:
    """Route to a separate call for the check, except in the published form, whose next generation
    begins with the check.
    """
    return "check" if state.get("form", runtime.context.form) in CHECKS else "decompose"


def check(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Check whether the fact contradicts the tentative answer, and set the answer of the hop.

    Raises:
        ModelReplyError: the reply is unreadable, and there is no further form or the model
            declined.
    """
    context, hops = runtime.context, list(state["hops"])
    form = state.get("form", context.form)
    try:
        verdict, usage = CHECKS[form](state["probe"], context, hops, state["transcript"])
    except ModelReplyError as error:
        return _next_form(state, context, error)
    hops[-1] = {**hops[-1], "contradicts": verdict.contradicts, "answer": verdict.answer}
    return {
        "hops": hops,
        "transcript": f"{state['transcript']}{check_line(verdict)}\n",
        "usage": usage,
    }


def compose(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Build the prompt from the steps up to the label of the final answer; if no edit is applied,
    it is just the probe.

    In the form `facts`, the prompt has the retrieved facts and the probe. In the form `lines`, a
    probe with choices is repeated after the steps, so that the model chooses. If in this form none
    of several steps follows its fact, the prompt has the facts of the first step and the probe,
    since the other steps would only distract the model.
    """
    probe, context = state["probe"], runtime.context
    form, facts = state.get("form", context.form), [hit["text"] for hit in state.get("hits", ())]
    is_astray = form == "lines" and is_unrelated(state.get("hops", ()))
    if form == "facts" or "transcript" not in state or is_astray:
        facts = facts[: context.k] if is_astray else facts
        prompt = probe_prompt(probe, tuple(dict.fromkeys(facts)), (), context.wording)
        return cast(MelloState, prompt_state(context.model, prompt))
    steps = prompt_of(probe, context, form, state["transcript"])
    if form == "lines" and probe.choices:
        prompt = repeat_probe(steps, probe, facts, context.wording)
    else:
        prompt = steps.plus(FINAL)
    return cast(MelloState, {**prompt_state(context.model, prompt), "reading": "line"})


def build() -> Graph:
    """Decompose -> retrieve -> check, repeated -> compose -> respond."""
    graph = StateGraph(MelloState, context_schema=MelloContext)
    graph.add_node("decompose", decompose)
    graph.add_node("retrieve", retrieve)
    graph.add_node("check", check)
    graph.add_node("compose", compose)
    graph.add_node("respond", respond)
    graph.add_edge("compose", "respond")
    graph.add_edge("check", "decompose")
    graph.add_conditional_edges(START, begin)
    graph.add_conditional_edges("decompose", after_decompose)
    graph.add_conditional_edges("retrieve", after_retrieve)
    graph.add_edge("respond", END)
    return graph.compile(name="mello").with_config(recursion_limit=RECURSION_LIMIT)
