"""AKEW (sections 4.1 and appendix E): a fact becomes a paragraph, which is verified, and read back as triplets.

`paper` writes one paragraph, asks the judge once, and never filters the triplets, as the authors did on purpose.
`best` filters the text first, lets the judge read it for what no filter recognises, asks for another one where one of
them rejects it, and names what was wrong.
"""

from collections.abc import Mapping
from typing import Any, Literal

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED, decide, read_as, write_text
from emend.agents.roles.extract import NONE, read_triplets
from emend.agents.scoring import is_small_model
from emend.graphs.construction.filters.texts import TEXT_FILTERS, AuthoredDraft, first_fault, summary_of
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
    may_retry,
    reject,
)
from emend.graphs.execution import Graph
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage

LANGUAGES = {"en": "English", "zh": "Chinese", "de": "German", "fr": "French", "es": "Spanish", "ja": "Japanese"}
CONVEYS, READS_AS = "conveys", "reads_as"
READINGS = {
    "refusal": "the author declined to write",
    "comment": "the text comments on whether the fact is right",
    "aside": "the text speaks of itself, its author or its task",
    "instruction": "the text holds an instruction, an address or a turn of a conversation",
    "prompt": "the text repeats the prompt",
}
"""Reasons of a judge who reads a text, by the judge's word for it."""
SAMPLE = (
    "The place was first described by a traveller who came through the valley in the spring of 1871 and stayed for a "
    "week. Since then it has been rebuilt twice, once after a fire and once when the river changed its bed. A guide "
    "that was printed for visitors lists the hours at which it can be seen, the names of the families who looked after "
    "it, and a short account of the people who still meet there every autumn."
)
"""The rest of a paragraph of usual length, for estimates: with its fact about 85 words."""


class AkewState(ConstructionState, total=False):
    """The item has `subject`, `object`, `old` and `fact`; the paragraph and its triplets are added."""

    prompt: str
    paragraph: str
    is_cut_off: bool
    is_refused: bool
    verdict: str
    triplets: list[dict[str, Any]]
    extraction_problem: str


def write(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Write a paragraph that states the fact; after a rejection, another one."""
    context = runtime.context
    language = LANGUAGES.get(context.language, context.language)
    problem = state.get("problem", "").partition(":")[0]
    prompt = context.prompt("paragraph").fill(problem, fact=state["item"]["fact"], language=language)
    written = write_text(context.author, prompt)
    return {
        "prompt": prompt.text.rpartition(context.prompt("paragraph").ask.partition("{")[0])[0],
        "paragraph": written.text,
        "is_cut_off": written.is_cut_off,
        "is_refused": written.is_refused,
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_text(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject a text that cannot serve, whatever it says: refusals, fragments, the old object, instructions."""
    item = state["item"]
    draft = AuthoredDraft(
        text=state["paragraph"],
        subject=item["subject"],
        new=item["object"],
        old=item["old"],
        prompt=state["prompt"],
        fact=item["fact"],
        language=runtime.context.language,
        is_cut_off=state["is_cut_off"],
        is_refused=state["is_refused"],
        aliases=tuple(item.get("aliases", ())),
    )
    name, reason = first_fault(draft)
    names = list(TEXT_FILTERS)
    return reject(state, name, reason, *names[: names.index(name)]) if name else accept(*names)


def judge_text(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the text is a paragraph and nothing else; one that is too small to tell is not asked."""
    if is_small_model(runtime.context.judge):
        return {"problem": ""}
    paragraph = " ".join(state["paragraph"].split())
    prompt = runtime.context.prompt(READS_AS).fill(fact=state["item"]["fact"], paragraph=paragraph)
    try:
        reading = read_as(runtime.context.judge, prompt)
    except ModelReplyError as error:
        return {**reject(state, READS_AS, str(error)), "usage": error.usage}
    reason = READINGS.get(reading.verdict, "")
    return {**(reject(state, READS_AS, reason) if reason else accept(READS_AS)), "usage": reading.usage}


def verify(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the paragraph conveys the fact."""
    return judge_paragraph(state, runtime.context, state["item"]["fact"])


def judge_paragraph(state: AkewState, context: ConstructionContext, fact: str) -> dict[str, Any]:
    """The update after the judge was asked whether the paragraph conveys a fact."""
    paragraph = " ".join(state["paragraph"].split())
    if not paragraph:
        return {**reject(state, CONVEYS, "the paragraph is empty"), "verdict": ""}
    prompt = context.prompt(CONVEYS).fill(fact=fact, paragraph=paragraph)
    try:
        decision = decide(context.judge, prompt)
    except ModelReplyError as error:
        return {**reject(state, CONVEYS, str(error)), "verdict": error.reply, "usage": error.usage}
    reason = "the judge says that the paragraph does not convey the fact"
    update = accept(CONVEYS) if decision.holds else reject(state, CONVEYS, reason)
    return {**update, "verdict": decision.reply, "usage": decision.usage}


def extract(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Read all triplets of the paragraph; none are filtered, and an unreadable reply gives none."""
    usage = Usage()
    for _ in range(min(2, runtime.context.attempts)):
        try:
            read = read_triplets(runtime.context.author, state["paragraph"], "lines")
        except ModelReplyError as error:
            usage, problem = usage.plus(error.usage), str(error)
        else:
            triplets = [triplet.model_dump() for triplet in read.triplets]
            return {"triplets": triplets, "extraction_problem": "", "usage": usage.plus(read.usage)}
    return {"triplets": [], "extraction_problem": problem, "usage": usage}


def finish(state: AkewState) -> dict[str, Any]:
    """Put the item together."""
    parts = ("subject", "relation", "object")
    triplets = [{part: triplet[part] for part in parts} for triplet in state["triplets"]]
    return {"result": {"paragraph": state["paragraph"], "triplets": triplets}}


def after_check(state: AkewState, runtime: Runtime[ConstructionContext]) -> Literal["write", "judge_text", "__end__"]:
    """Let the judge read a text that passes; write another one while attempts are left."""
    if not state["problem"]:
        return "judge_text"
    return "write" if may_retry(state, runtime.context) else "__end__"


def after_reading(state: AkewState, runtime: Runtime[ConstructionContext]) -> Literal["write", "verify", "__end__"]:
    """Verify a text that is a paragraph; write another one while attempts are left."""
    if not state["problem"]:
        return "verify"
    return "write" if may_retry(state, runtime.context) else "__end__"


def after_verify(state: AkewState, runtime: Runtime[ConstructionContext]) -> Literal["write", "extract", "__end__"]:
    """Extract from a paragraph that conveys the fact; write another one while attempts are left."""
    if not state["problem"]:
        return "extract"
    return "write" if may_retry(state, runtime.context) else "__end__"


def build(recipe: Recipe = "best") -> Graph:
    """Write -> check the text -> judge it -> verify -> extract -> finish; `paper` has neither check."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(AkewState, context_schema=ConstructionContext)
    graph.add_node("write", write)
    if recipe == "best":
        graph.add_node("check_text", check_text)
        graph.add_edge("write", "check_text")
        graph.add_node("judge_text", judge_text)
        graph.add_conditional_edges("check_text", after_check)
        graph.add_conditional_edges("judge_text", after_reading)
    else:
        graph.add_edge("write", "verify")
    graph.add_node("verify", verify)
    graph.add_node("extract", extract)
    graph.add_node("finish", finish)
    graph.add_edge(START, "write")
    graph.add_conditional_edges("verify", after_verify)
    graph.add_edge("extract", "finish")
    graph.set_finish_point("finish")
    return graph.compile(name="build_akew")


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters in order; the paper had the judge's alone, and people after it."""
    texts = {name: FilterInfo(rejects=summary_of(find)) for name, find in TEXT_FILTERS.items()}
    conveys = FilterInfo(
        rejects="The judge says that the text does not convey the fact.",
        published="not published; people sorted out what was not aligned",
    )
    reads_as = FilterInfo(rejects="The judge reads a refusal, comment, aside, instruction or the prompt in the text.")
    return {**({**texts, READS_AS: reads_as} if recipe == "best" else {}), CONVEYS: conveys}


def sample(prompt: str) -> str:
    """A reply of usual length: a paragraph of 76 words, a verdict, or six triplets (AKEW, section 4.1 and Table 5)."""
    if SHIPPED[READS_AS].task[:40] in prompt:
        return "usable"
    if SHIPPED[CONVEYS].task[:40] in prompt:
        return "True"
    if f"write {NONE}" in prompt:
        return "\n".join(f"Subject number {n}; is located near to; object number {n}" for n in range(6))
    fact = prompt.rpartition("Fact: ")[2].partition("\n")[0]
    return f"{fact} {SAMPLE}"


PIPELINE = Pipeline(
    name="akew",
    build=build,
    filters=filters,
    prompts=lambda recipe: ("paragraph", *([READS_AS] if recipe == "best" else []), CONVEYS),
    sample=sample,
)
