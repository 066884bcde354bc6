"""MeLLo (Zhong et al. 2023, section 5): a question in steps, each checked against the memory of new facts.

Three forms. `text` is the published one: one generation per round, which begins with the check of the last retrieved
fact and ends with the next subquestion and its tentative answer, or with the final answer. `lines` gives the model the
label of each line and generates one line at a time, for models too small to follow a format. `structured` asks for each
step, and for each check, by a schema.
"""

from dataclasses import dataclass
from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.parsing.answers import clean_answer
from emend.agents.roles.answer import build_prompt, repeat_probe
from emend.agents.roles.completion import LINE_TOKENS, continue_text
from emend.agents.roles.decompose import (
    CHECKED,
    DEMONSTRATIONS,
    FINAL,
    NOTHING,
    RETRIEVED,
    SUBQUESTION,
    TENTATIVE,
    Checked,
    FactCheck,
    NextStep,
    check_prompt,
    cloze_of,
    opening,
    read_check,
    read_round,
    step_prompt,
    stepwise_question,
    take_step,
)
from emend.agents.structured import ask_structured
from emend.graphs.execution import Graph, add_chain
from emend.graphs.rag import RagContext, RagState, as_hits
from emend.graphs.respond import respond, spent
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Probe
from emend.memory.retrieval.base import search

Form = Literal["text", "lines", "structured"]
HOPS = 4
HOPS_LIMIT = 12
RECURSION_LIMIT = 4 + 3 * HOPS_LIMIT
"""Three nodes a hop, and those before and after."""
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
    """The state of rag; `transcript` has the steps as text, `final` the final answer once the model has given it."""

    transcript: str
    hops: list[HopState]


@dataclass(frozen=True)
class MelloContext(RagContext):
    """The context of rag, with the form, the maximum number of subquestions, and the demonstrations.

    `empty` means that no edit is applied: nothing has to be checked then, and the probe is asked unchanged.
    """

    form: Form = "text"
    hops: int = HOPS
    demonstrations: str = DEMONSTRATIONS
    empty: bool = False


def begin(state: MelloState, runtime: Runtime[MelloContext]) -> Literal["decompose", "compose"]:
    """Decompose, unless there is no edit that could contradict, or there are no targets to score."""
    return "compose" if runtime.context.empty or state.get("targets") == [] else "decompose"


def decompose(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Generate the next subquestion with a tentative answer, or the final answer; MeLLo's stop rule is `limit_of`.

    Raises:
        ModelReplyError: the reply is not in the form, or asks for one more subquestion than the limit allows.
    """
    probe, context = Probe.model_validate(state["probe"]), runtime.context
    hops, demonstrations = list(state.get("hops", ())), context.demonstrations if context.form == "text" else ""
    transcript = state.get("transcript") or opening(stepwise_question(probe), demonstrations)
    if context.form == "lines":
        return _next_line(probe, context, hops, transcript, state)
    step = _next_round if context.form == "text" else _next_schema
    return step(probe, context, hops, transcript, state)


def limit_of(probe: Probe, context: MelloContext) -> int:
    """The maximum number of subquestions of a probe.

    A model that generates one line at a time is not asked whether it has finished: the probe's tag `hops` is the number
    of its subquestions, by default one.
    """
    tagged = int(probe.tags.get("hops", 1))
    return min(tagged if context.form == "lines" else max(tagged, context.hops), HOPS_LIMIT)


def _next_round(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str, state: MelloState
) -> MelloState:
    reply = continue_text(context.model, transcript, [RETRIEVED], ROUND_TOKENS)
    step = read_round(reply.text, checking=bool(hops))
    if step.check is not None and hops:
        hops[-1] = {**hops[-1], "contradicts": step.check.contradicts, "answer": step.check.answer}
    usage = spent(state, reply.usage)
    if step.final is not None:
        before = step.text.rpartition("\n")[0]
        transcript += f"{before}\n" if before else ""
        final: MelloState = {"final": step.final, "cut_tokens": reply.cut_tokens}
        return {**final, "transcript": transcript, "hops": hops, "usage": usage}
    _check_limit(probe, context, hops, reply.text)
    hops.append({"subquestion": step.subquestion, "tentative": step.tentative})
    return {"transcript": f"{transcript}{step.text}\n", "hops": hops, "usage": usage}


def _next_schema(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str, state: MelloState
) -> MelloState:
    question = stepwise_question(probe)
    steps = transcript.removeprefix(opening(question)).splitlines()
    reply = ask_structured(context.model, step_prompt(question, steps), NextStep)
    usage, step = spent(state, reply.usage), reply.value
    if step.finished and clean_answer(step.final_answer):
        return {"transcript": transcript, "hops": hops, "final": step.final_answer.strip(), "usage": usage}
    if step.finished or not step.subquestion.strip() or not step.tentative_answer.strip():
        raise ModelReplyError(
            f"the step has neither a subquestion with an answer nor a final answer: {reply.reply}", reply.reply
        )
    _check_limit(probe, context, hops, reply.reply)
    hops.append({"subquestion": step.subquestion.strip(), "tentative": step.tentative_answer.strip()})
    transcript += f"{SUBQUESTION} {hops[-1]['subquestion']}\n{TENTATIVE} {hops[-1]['tentative']}\n"
    return {"transcript": transcript, "hops": hops, "usage": usage}


def _next_line(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str, state: MelloState
) -> MelloState:
    if len(hops) >= limit_of(probe, context):
        return {"transcript": transcript, "hops": hops}
    step = take_step(context.model, transcript, cloze_of(probe))
    hops.append({"subquestion": step.subquestion, "tentative": step.tentative})
    return {"transcript": step.text, "hops": hops, "usage": spent(state, step.usage)}


def _check_limit(probe: Probe, context: MelloContext, hops: list[HopState], reply: str) -> None:
    limit = limit_of(probe, context)
    if len(hops) >= limit:
        raise ModelReplyError(f"no final answer after {limit} subquestions; the last reply is {reply!r}.", reply)


def after_decompose(state: MelloState) -> Literal["retrieve", "compose"]:
    """Retrieve for a new subquestion, else compose."""
    hops = state["hops"]
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
    return "decompose" if runtime.context.form == "text" else "check"


def check(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Check whether the fact contradicts the tentative answer, and set the answer of the hop.

    Raises:
        ModelReplyError: the reply does not say whether it does.
    """
    context, hops = runtime.context, list(state["hops"])
    if context.form == "lines":
        reply = continue_text(context.model, state["transcript"] + CHECKED, ["\n"], LINE_TOKENS)
        line = f"{CHECKED} {reply.text.strip()}".partition("\n")[0].strip()
        verdict, usage = read_check(line), reply.usage
        if verdict is None:
            raise ModelReplyError(f"'{line}' does not say whether the fact contradicts.", reply.text)
    else:
        hop = hops[-1]
        prompt = check_prompt(hop["subquestion"], hop["tentative"], hop["fact"])
        value, _, usage = ask_structured(context.model, prompt, Checked)
        verdict = FactCheck(value.contradicts, clean_answer(value.intermediate_answer))
    hops[-1] = {**hops[-1], "contradicts": verdict.contradicts, "answer": verdict.answer}
    return {"hops": hops, "transcript": f"{state['transcript']}{_check_line(verdict)}\n", "usage": spent(state, usage)}


def _check_line(verdict: FactCheck) -> str:
    does = "contradicts" if verdict.contradicts else "does not contradict"
    return f"{CHECKED} {does} to generated answer, so the intermediate answer is: {verdict.answer}"


def compose(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Build the prompt: the steps up to the label of the final answer; the probe alone if no edit is applied.

    In the form `lines` the prompt of a probe with choices is repeated after the steps, so that the model chooses.
    """
    probe, context = Probe.model_validate(state["probe"]), runtime.context
    if "transcript" not in state:
        return {"prompt": build_prompt(probe, (), (), context.wording)}
    if context.form == "lines" and probe.choices:
        facts = [hit["text"] for hit in state.get("hits", ())]
        return {"prompt": repeat_probe(state["transcript"], probe, facts, context.wording), "reading": "line"}
    return {"prompt": state["transcript"] + FINAL, "reading": "line"}


def build() -> Graph:
    """Decompose -> retrieve -> check, again and again -> compose -> respond."""
    graph = StateGraph(MelloState, context_schema=MelloContext)
    graph.add_node("decompose", decompose)
    graph.add_node("retrieve", retrieve)
    graph.add_node("check", check)
    add_chain(graph, compose, respond)
    graph.add_edge("check", "decompose")
    graph.add_conditional_edges(START, begin)
    graph.add_conditional_edges("decompose", after_decompose)
    graph.add_conditional_edges("retrieve", after_retrieve)
    graph.add_edge("respond", END)
    return graph.compile(name="mello").with_config(recursion_limit=RECURSION_LIMIT)
