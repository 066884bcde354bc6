"""MeLLo (Zhong et al. 2023, section 5): a question in steps, each checked against the memory of new facts.

Three forms of the same walk. `text` is the published one: one generation a round, which begins with the verdict on the
last retrieved fact and ends with the next subquestion and its tentative answer, or with the final answer. `lines` gives
the model the beginning of each line and takes one line at a time, for models too small to keep to a form. `structured`
asks for each step, and for each check, by a schema.
"""

from dataclasses import dataclass
from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from emend.agents.roles.answer import build_prompt, clean_answer, put_again
from emend.agents.roles.continuing import LINE_TOKENS, continue_text
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
    read_round,
    read_verdict,
    step_prompt,
    take_step,
    walked,
)
from emend.agents.structured import ask_structured
from emend.graphs.rag import RagContext, RagState, as_hits
from emend.graphs.respond import RespondState, respond, spent
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Probe
from emend.memory.retrieval.base import search

Form = Literal["text", "lines", "structured"]
FORMS: tuple[Form, ...] = ("text", "lines", "structured")
HOPS = 4
HOPS_LIMIT = 12
RECURSION_LIMIT = 4 + 3 * HOPS_LIMIT
"""Three nodes a hop, and those before and after."""
ROUND_TOKENS = 128


class HopState(TypedDict, total=False):
    """One hop as JSON; the last two are there once the fact was checked."""

    subquestion: str
    tentative: str
    fact: str
    contradicts: bool
    answer: str


class MelloState(RagState, total=False):
    """As for rag; `transcript` is the walk as text, `final` the final answer once the model has given it."""

    transcript: str
    hops: list[HopState]
    final: str


@dataclass(frozen=True)
class MelloContext(RagContext):
    """As for rag, with the form, how many subquestions at most, and the solved examples.

    `empty` says that no edit stands: then nothing has to be checked, and the probe is asked as it is.
    """

    form: Form = "text"
    hops: int = HOPS
    demonstrations: str = DEMONSTRATIONS
    empty: bool = False


def begin(state: MelloState, runtime: Runtime[MelloContext]) -> Literal["decompose", "compose"]:
    """Into the walk, unless there is nothing that could contradict, or nothing that could be scored after it."""
    return "compose" if runtime.context.empty or state.get("targets") == [] else "decompose"


def decompose(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """The next subquestion with the model's own answer to it, or the final answer.

    Raises:
        ModelReplyError: the reply is off its form, or asks for one more subquestion than the limit allows.
    """
    probe, context = Probe.model_validate(state["probe"]), runtime.context
    hops, transcript = (
        list(state.get("hops", ())),
        state.get("transcript") or opening(walked(probe), context.demonstrations if context.form == "text" else ""),
    )
    if context.form == "lines":
        return _next_line(probe, context, hops, transcript, state)
    step = _next_round if context.form == "text" else _next_schema
    return step(probe, context, hops, transcript, state)


def limit_of(probe: Probe, context: MelloContext) -> int:
    """How many subquestions this probe may take.

    A model that reads one line at a time is not asked whether it is done: a probe's tag `hops` says how many it takes,
    and without it, it is one.
    """
    told = int(probe.tags.get("hops", 1))
    return min(told if context.form == "lines" else max(told, context.hops), HOPS_LIMIT)


def _next_round(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str, state: MelloState
) -> MelloState:
    said = continue_text(context.model, transcript, [RETRIEVED], ROUND_TOKENS)
    told = read_round(said.text, checking=bool(hops))
    if told.verdict is not None and hops:
        hops[-1] = {**hops[-1], "contradicts": told.verdict.contradicts, "answer": told.verdict.answer}
    usage = spent(state, said.usage)
    if told.final is not None:
        before = told.text.rpartition("\n")[0]
        walked = transcript + (f"{before}\n" if before else "")
        ended: MelloState = {"final": told.final, "cut_tokens": said.cut_tokens}
        return {**ended, "transcript": walked, "hops": hops, "usage": usage}
    _check_limit(probe, context, hops, said.text)
    hops.append({"subquestion": told.subquestion, "tentative": told.tentative})
    return {"transcript": f"{transcript}{told.text}\n", "hops": hops, "usage": usage}


def _next_schema(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str, state: MelloState
) -> MelloState:
    steps = transcript.removeprefix(opening(walked(probe))).splitlines()
    said = ask_structured(context.model, step_prompt(walked(probe), steps), NextStep)
    usage, step = spent(state, said.usage), said.value
    if step.finished and clean_answer(step.final_answer):
        return {"transcript": transcript, "hops": hops, "final": step.final_answer.strip(), "usage": usage}
    if step.finished or not step.subquestion.strip() or not step.tentative_answer.strip():
        raise ModelReplyError(
            f"the step has neither a subquestion with an answer nor a final answer: {said.reply}", said.reply
        )
    _check_limit(probe, context, hops, said.reply)
    hops.append({"subquestion": step.subquestion.strip(), "tentative": step.tentative_answer.strip()})
    told = f"{SUBQUESTION} {hops[-1]['subquestion']}\n{TENTATIVE} {hops[-1]['tentative']}\n"
    return {"transcript": transcript + told, "hops": hops, "usage": usage}


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
    """To the memory with a new subquestion, else to the end."""
    hops = state["hops"]
    return "compose" if "final" in state or not hops or "fact" in hops[-1] else "retrieve"


def retrieve(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """The fact nearest to the subquestion; a retrieval that finds nothing is shown as such."""
    hops = list(state["hops"])
    k = runtime.context.k
    found = as_hits(search(runtime.context.retriever, hops[-1]["subquestion"], k), k)
    fact = " ".join(hit["text"] for hit in found) or NOTHING
    if not fact.endswith((".", "!", "?")):
        fact += "."
    hops[-1] = {**hops[-1], "fact": fact}
    transcript = f"{state['transcript']}{RETRIEVED} {fact}\n"
    return {"hits": [*state.get("hits", ()), *found], "hops": hops, "transcript": transcript}


def after_retrieve(state: MelloState, runtime: Runtime[MelloContext]) -> Literal["decompose", "check"]:
    """In the published form the next generation begins with the verdict; in the others it is asked for by itself."""
    return "decompose" if runtime.context.form == "text" else "check"


def check(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """Whether the fact contradicts the tentative answer, and what then is the answer of the hop.

    Raises:
        ModelReplyError: the reply does not say so.
    """
    context, hops = runtime.context, list(state["hops"])
    if context.form == "lines":
        said = continue_text(context.model, state["transcript"] + CHECKED, ["\n"], LINE_TOKENS)
        line = f"{CHECKED} {said.text.strip()}".partition("\n")[0].strip()
        verdict, usage = read_verdict(line), said.usage
        if verdict is None:
            raise ModelReplyError(f"'{line}' does not say whether the fact contradicts.", said.text)
    else:
        hop = hops[-1]
        asked = ask_structured(context.model, check_prompt(hop["subquestion"], hop["tentative"], hop["fact"]), Checked)
        verdict, usage = FactCheck(asked.value.contradicts, clean_answer(asked.value.intermediate_answer)), asked.usage
    hops[-1] = {**hops[-1], "contradicts": verdict.contradicts, "answer": verdict.answer}
    return {"hops": hops, "transcript": f"{state['transcript']}{_told(verdict)}\n", "usage": spent(state, usage)}


def _told(verdict: FactCheck) -> str:
    does = "contradicts" if verdict.contradicts else "does not contradict"
    return f"{CHECKED} {does} to generated answer, so the intermediate answer is: {verdict.answer}"


def compose(state: MelloState, runtime: Runtime[MelloContext]) -> MelloState:
    """The walk up to where the final answer follows; where nothing stands, the probe alone.

    Line by line a probe with choices is put once more behind the walk: there the model has to choose.
    """
    probe, context = Probe.model_validate(state["probe"]), runtime.context
    if "transcript" not in state:
        return {"prompt": build_prompt(probe, (), (), context.wording)}
    if context.form == "lines" and probe.choices:
        facts = [hit["text"] for hit in state.get("hits", ())]
        return {"prompt": put_again(state["transcript"], probe, facts, context.wording), "reading": "line"}
    return {"prompt": state["transcript"] + FINAL, "reading": "line"}


def conclude(state: MelloState, runtime: Runtime[MelloContext]) -> RespondState:
    """The final answer as the model gave it at the end of the walk; else a reply, or scores, under the prompt."""
    if "final" in state and state.get("targets") is None:
        return {"reply": state["final"], "cut_tokens": state.get("cut_tokens", 0)}
    return respond(state, runtime)


def build() -> CompiledStateGraph[MelloState, MelloContext, MelloState, MelloState]:
    """Decompose -> retrieve -> check, again and again -> compose -> respond."""
    graph = StateGraph(MelloState, context_schema=MelloContext)
    graph.add_node("decompose", decompose)
    graph.add_node("retrieve", retrieve)
    graph.add_node("check", check)
    graph.add_node("compose", compose)
    graph.add_node("respond", conclude)
    graph.add_conditional_edges(START, begin)
    graph.add_conditional_edges("decompose", after_decompose)
    graph.add_conditional_edges("retrieve", after_retrieve)
    graph.add_edge("check", "decompose")
    graph.add_edge("compose", "respond")
    graph.add_edge("respond", END)
    return graph.compile(name="mello").with_config(recursion_limit=RECURSION_LIMIT)
