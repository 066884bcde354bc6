"""MeLLo (Zhong et al. 2023, section 5): a question in steps, each checked against the memory of new facts.

Three forms. `text` is the published one: one generation per round, which begins with the check of the last retrieved
fact and ends with the next subquestion and its tentative answer, or with the final answer. `lines` gives the model the
label of each line and generates one line at a time, for models too small to follow a format. `structured` asks for each
step, and for each check, by a schema. A context may name forms to fall back to for a probe whose steps are in none; the
last of them may be `facts`, which asks the probe under the facts that the steps have retrieved.
"""

from dataclasses import dataclass, replace
from typing import Literal, cast

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.parsing.answers import clean_answer
from emend.agents.roles.answer import probe_prompt, repeat_probe
from emend.agents.roles.completion import continue_text
from emend.agents.roles.conversation import Prompt
from emend.agents.roles.decompose import (
    DEMONSTRATIONS,
    FINAL,
    MISSING,
    NOTHING,
    RETRIEVED,
    SUBQUESTION,
    TENTATIVE,
    Checked,
    FactCheck,
    NextStep,
    Round,
    check_in_line,
    check_line,
    check_prompt,
    cloze_of,
    opened,
    opening,
    read_round,
    step_prompt,
    stepwise_question,
    take_step,
)
from emend.agents.scoring import is_chat_model
from emend.agents.structured import ask_structured
from emend.graphs.execution import Graph
from emend.graphs.rag import RagContext, RagState, as_hits
from emend.graphs.respond import prompt_state, respond
from emend.memory.errors import ModelReplyError, ReplyRefused
from emend.memory.probe import Probe, Usage
from emend.memory.retrieval.base import search

Form = Literal["text", "lines", "structured", "facts"]
HOPS = 4
HOPS_LIMIT = 12
RECURSION_LIMIT = 5 + 2 * 3 * HOPS_LIMIT
"""Three nodes a hop, twice where another form follows, and those before and after."""
ROUND_TOKENS = 256
"""Maximum number of tokens of a round, as in the published code."""


class HopState(TypedDict, total=False):
    """A hop as JSON; the last two fields are added by the check."""

    subquestion: str
    tentative: str
    fact: str
    contradicts: bool
    answer: str


class MelloState(RagState, total=False):
    """The state of rag; `transcript` has the steps as text, `final` the final answer once the model has given it.

    `form` is set for a chat model, and changes to the next form with the reason in `fallback`.
    """

    form: Form
    transcript: str
    hops: list[HopState]


@dataclass(frozen=True)
class MelloContext(RagContext):
    """The context of rag, with the form, the maximum number of subquestions, and the demonstrations.

    `fallbacks` are the forms for a probe whose steps are not in the one before; without any, such a probe has no
    answer, as published. `empty` means that no edit is applied: nothing has to be checked, and the probe is asked
    unchanged.
    """

    form: Form = "text"
    fallbacks: tuple[Form, ...] = ()
    hops: int = HOPS
    demonstrations: str = DEMONSTRATIONS
    empty: bool = False


def begin(state: MelloState, runtime: Runtime[MelloContext]) -> Literal["decompose", "compose"]:
    """Decompose, unless there is no edit that could contradict, or there are no targets to score."""
    return "compose" if runtime.context.empty or state.get("targets") == [] else "decompose"


def decompose(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Generate the next subquestion with a tentative answer, or the final answer; MeLLo's stop rule is `compute_limit`.

    Raises:
        ModelReplyError: the reply is not in the form, or asks for one more subquestion than the limit allows, and there
            is no other form.
    """
    probe, context = state["probe"], runtime.context
    form, hops = state.get("form", context.form), list(state.get("hops", ()))
    if form == "facts":
        return {"hops": hops}
    transcript = state.get("transcript") or _opening(probe, context, form)
    step = {"text": _next_round, "lines": _next_line, "structured": _next_schema}[form]
    try:
        update = step(probe, replace(context, form=form), hops, transcript)
    except ModelReplyError as error:
        return _next_form(state, context, error)
    return {"form": form, **update} if "form" not in state and is_chat_model(context.model) else update


def _opening(probe: Probe, context: MelloContext, form: Form) -> str:
    return opening(stepwise_question(probe), _demonstrations(context, form))


def _demonstrations(context: MelloContext, form: Form) -> str:
    """Demonstrations of the form; without them `lines` is for models whose window has no room for them.

    A chat model sees them also where it continues text, and any model sees them whose steps in `text` were in no form.
    """
    has_room = bool(context.fallbacks) or is_chat_model(context.model)
    return context.demonstrations if form == "text" or (form == "lines" and has_room) else ""


def _next_form(state: MelloState, context: MelloContext, error: ModelReplyError) -> MelloState:
    """Begin again in the next form; raises the error where there is none, or the model declined."""
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
    return {**update, "transcript": _opening(probe, context, after), "hops": []}


def compute_limit(probe: Probe, context: MelloContext) -> int:
    """The maximum number of subquestions of a probe.

    A model that generates one line at a time is not asked whether it has finished: the probe's tag `hops` is the number
    of its subquestions, by default one.
    """
    tagged = int(probe.tags.get("hops", 1))
    return min(tagged if context.form == "lines" else max(tagged, context.hops), HOPS_LIMIT)


def _prompt(probe: Probe, context: MelloContext, form: Form, transcript: str) -> Prompt:
    """The transcript as a prompt in both forms."""
    steps = transcript.removeprefix(_opening(probe, context, form))
    return opened(stepwise_question(probe), _demonstrations(context, form), steps)


def _next_round(probe: Probe, context: MelloContext, hops: list[HopState], transcript: str) -> MelloState:
    step, usage, cut_tokens = _read_round(context, _prompt(probe, context, "text", transcript), checking=bool(hops))
    if step.check is not None and hops:
        hops[-1] = {**hops[-1], "contradicts": step.check.contradicts, "answer": step.check.answer}
    if step.final is not None:
        before = step.text.rpartition("\n")[0]
        transcript += f"{before}\n" if before else ""
        final: MelloState = {"final": step.final, "cut_tokens": cut_tokens}
        return {**final, "transcript": transcript, "hops": hops, "usage": usage}
    _check_limit(probe, context, hops, step.text, usage)
    hops.append({"subquestion": step.subquestion, "tentative": step.tentative})
    return {"transcript": f"{transcript}{step.text}\n", "hops": hops, "usage": usage}


def _read_round(context: MelloContext, prompt: Prompt, checking: bool) -> tuple[Round, Usage, int]:
    """A generation with its cost and cut tokens; where another form would follow, one that cannot be read is repeated.

    Raises:
        ModelReplyError: it is not in the form; carries the usage of both.
    """
    usage, attempt = Usage(), prompt
    for left in (1, 0) if context.fallbacks and is_chat_model(context.model) else (0,):
        reply = continue_text(context.model, attempt, [RETRIEVED], ROUND_TOKENS)
        usage = usage.plus(reply.usage)
        try:
            return read_round(reply.text, checking), usage, reply.cut_tokens
        except ModelReplyError as error:
            error.usage = usage
            if not left:
                raise
            problem = str(error).partition("; the reply is")[0].partition(" in the reply")[0]
            attempt = prompt.begun("", reply.text).asked("", MISSING.format(problem=f"{problem}."))
    raise AssertionError("the last attempt returns or raises")


def _next_schema(probe: Probe, context: MelloContext, hops: list[HopState], transcript: str) -> MelloState:
    question = stepwise_question(probe)
    steps = transcript.removeprefix(opening(question)).splitlines()
    reply = ask_structured(context.model, step_prompt(question, steps), NextStep)
    usage, step = reply.usage, reply.value
    if step.finished and clean_answer(step.final_answer):
        return {"transcript": transcript, "hops": hops, "final": step.final_answer.strip(), "usage": usage}
    if step.finished or not step.subquestion.strip() or not step.tentative_answer.strip():
        raise ModelReplyError(
            f"the step has neither a subquestion with an answer nor a final answer: {reply.reply}",
            *(reply.reply, reply.usage),
        )
    _check_limit(probe, context, hops, reply.reply, reply.usage)
    hops.append({"subquestion": step.subquestion.strip(), "tentative": step.tentative_answer.strip()})
    transcript += f"{SUBQUESTION} {hops[-1]['subquestion']}\n{TENTATIVE} {hops[-1]['tentative']}\n"
    return {"transcript": transcript, "hops": hops, "usage": usage}


def _next_line(probe: Probe, context: MelloContext, hops: list[HopState], transcript: str) -> MelloState:
    if len(hops) >= compute_limit(probe, context):
        return {"transcript": transcript, "hops": hops}
    step = take_step(context.model, _prompt(probe, context, "lines", transcript), cloze_of(probe))
    hops.append({"subquestion": step.subquestion, "tentative": step.tentative})
    return {"transcript": step.prompt.text, "hops": hops, "usage": step.usage}


def _check_limit(probe: Probe, context: MelloContext, hops: list[HopState], reply: str, usage: Usage) -> None:
    limit = compute_limit(probe, context)
    if len(hops) >= limit:
        message = f"no final answer after {limit} subquestions; the last reply is {reply!r}."
        raise ModelReplyError(message, reply, usage)


def after_decompose(state: MelloState, runtime: Runtime[MelloContext]) -> Literal["decompose", "retrieve", "compose"]:
    """Retrieve for a new subquestion, decompose again in another form, else compose."""
    hops = state["hops"]
    if not hops and state.get("form", runtime.context.form) != runtime.context.form:
        return "decompose"
    return "compose" if "final" in state or not hops or "fact" in hops[-1] else "retrieve"


def retrieve(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Retrieve the fact nearest to the subquestion; a retrieval without hits is written as such."""
    hops = list(state["hops"])
    k = runtime.context.k
    hits = as_hits(search(runtime.context.retriever, hops[-1]["subquestion"], k), k)
    # One line, or a document of several could forge the check, and the lines after it.
    fact = " ".join(" ".join(hit["text"] for hit in hits).splitlines()) or NOTHING
    if not fact.endswith((".", "!", "?")):
        fact += "."
    hops[-1] = {**hops[-1], "fact": fact}
    transcript = f"{state['transcript']}{RETRIEVED} {fact}\n"
    return {"hits": [*state.get("hits", ()), *hits], "hops": hops, "transcript": transcript}


def after_retrieve(state: MelloState, runtime: Runtime[MelloContext]) -> Literal["decompose", "check"]:
    """Check by a call of its own, except in the published form, where the next generation begins with the check."""
    return "decompose" if state.get("form", runtime.context.form) in ("text", "facts") else "check"


def check(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Check whether the fact contradicts the tentative answer, and set the answer of the hop.

    Raises:
        ModelReplyError: the reply does not say whether it does.
    """
    context, hops = runtime.context, list(state["hops"])
    try:
        if state.get("form", context.form) == "lines":
            probe = state["probe"]
            verdict, usage = check_in_line(context.model, _prompt(probe, context, "lines", state["transcript"]))
        else:
            hop = hops[-1]
            prompt = check_prompt(hop["subquestion"], hop["tentative"], hop["fact"])
            value, _, usage = ask_structured(context.model, prompt, Checked)
            verdict = FactCheck(value.contradicts, clean_answer(value.intermediate_answer))
    except ModelReplyError as error:
        return _next_form(state, context, error)
    hops[-1] = {**hops[-1], "contradicts": verdict.contradicts, "answer": verdict.answer}
    return {"hops": hops, "transcript": f"{state['transcript']}{check_line(verdict)}\n", "usage": usage}


def compose(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Build the prompt: the steps up to the label of the final answer; the probe alone if no edit is applied.

    In the form `facts` it is the probe under the facts retrieved. In the form `lines` the prompt of a probe with
    choices is repeated after the steps, so that the model chooses.
    """
    probe, context = state["probe"], runtime.context
    form, facts = state.get("form", context.form), [hit["text"] for hit in state.get("hits", ())]
    if form == "facts" or "transcript" not in state:
        prompt = probe_prompt(probe, tuple(dict.fromkeys(facts)), (), context.wording)
        return cast(MelloState, prompt_state(context.model, prompt))
    steps = _prompt(probe, context, form, state["transcript"])
    if form == "lines" and probe.choices:
        prompt = repeat_probe(steps, probe, facts, context.wording)
    else:
        prompt = steps.plus(FINAL)
    return cast(MelloState, {**prompt_state(context.model, prompt), "reading": "line"})


def build() -> Graph:
    """Decompose -> retrieve -> check, again and again -> compose -> respond."""
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
