"""AKEW pipeline (section 4.1 and appendix E): write a paragraph for a fact, verify it, and extract
triplets from it.

Recipe `paper` writes one paragraph, asks the judge once, and deliberately does not filter the
triplets, like the authors. Recipe `best` first filters the text, asks the judge for faults that no
filter recognises, and retries after a rejection with the problem in the prompt.
"""

from collections.abc import Mapping
from typing import Any

from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED, TEXT_TOKENS, read_as, write_text
from emend.agents.roles.extract import NONE, read_triplets
from emend.agents.scoring import is_small_model
from emend.graphs.construction.filters.texts import TEXT_FILTERS, AuthoredDraft
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
    apply_filters,
    checking_graph,
    describe,
    reject,
)
from emend.graphs.execution import Graph
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage

CONVEYS, READS_AS = "conveys", "reads_as"
# Reasons for rejecting a text, by the label that the judge gives it.
READINGS = {
    "refusal": "the author declined to write",
    "comment": "the text comments on whether the fact is right",
    "aside": "the text speaks of itself, its author or its task",
    "instruction": "the text holds an instruction, an address or a turn of a conversation",
    "prompt": "the text repeats the prompt",
}
# Sample paragraph for estimates; with the fact it has about 85 words.
SAMPLE = (
    "The place was first described by a traveller who came through the valley in the spring of "
    "1871 and stayed for a week. Since then it has been rebuilt twice, once after a fire and once "
    "when the river changed its bed. A guide that was printed for visitors lists the hours at "
    "which it can be seen, the names of the families who looked after it, and a short account of "
    "the people who still meet there every autumn."
)


class AkewState(ConstructionState, total=False):
    """State of the AKEW graph; the item has `subject`, `object`, `old` and `fact`."""

    prompt: str
    paragraph: str
    is_cut_off: bool
    is_refused: bool
    triplets: list[dict[str, Any]]
    extraction_problem: str


def write(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Write a paragraph that states the fact, or another one after a rejection."""
    return write_draft(state, runtime.context, "paragraph", fact=state["item"]["fact"])


def write_draft(
    state: AkewState,
    context: ConstructionContext,
    name: str,
    new_tokens: int = TEXT_TOKENS,
    **values: str,
) -> dict[str, Any]:
    """Ask the author for a text, and return the state update."""
    prompt = context.fill(name, state, **values)
    written = write_text(context.author, prompt, new_tokens)
    return {
        "prompt": prompt.text.rpartition(context.prompt(name).ask.partition("{")[0])[0],
        "paragraph": written.text,
        "is_cut_off": written.is_cut_off,
        "is_refused": written.is_refused,
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_text(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Reject unusable texts by rules: refusals, fragments, instructions, texts that name the old
    object.
    """
    aliases = tuple(state["item"].get("aliases", ()))
    return apply_filters(
        state, draft_of(state, runtime.context, state["item"], aliases=aliases), TEXT_FILTERS
    )


def draft_of(
    state: AkewState, context: ConstructionContext, fact: Mapping[str, Any], **fields: Any
) -> AuthoredDraft:
    """Return the text and its fact as a draft for filters."""
    return AuthoredDraft(
        text=state["paragraph"],
        subject=fact["subject"],
        new=fact["object"],
        old=fact["old"],
        prompt=state["prompt"],
        fact=fact["fact"],
        language=context.language,
        is_cut_off=state["is_cut_off"],
        is_refused=state["is_refused"],
        **fields,
    )


def judge_text(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the text is just a paragraph; a judge that is too small to tell is not
    asked.
    """
    if is_small_model(runtime.context.judge):
        return {"problem": ""}
    paragraph = " ".join(state["paragraph"].split())
    prompt = runtime.context.prompt(READS_AS).fill(fact=state["item"]["fact"], paragraph=paragraph)
    try:
        reading = read_as(runtime.context.judge, prompt)
    except ModelReplyError as error:
        return {**reject(state, READS_AS, str(error)), "usage": error.usage}
    reason = READINGS.get(reading.word, "")
    return {
        **(reject(state, READS_AS, reason) if reason else accept(READS_AS)),
        "usage": reading.usage,
    }


def verify(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the paragraph conveys the fact."""
    return judge_paragraph(state, runtime.context, state["item"]["fact"])


def judge_paragraph(state: AkewState, context: ConstructionContext, fact: str) -> dict[str, Any]:
    """Ask the judge whether the paragraph conveys a fact, and return the state update."""
    paragraph = " ".join(state["paragraph"].split())
    if not paragraph:
        return reject(state, CONVEYS, "the paragraph is empty")
    refusal = "the judge says that the paragraph does not convey the fact"
    reason, usage = context.ask_judge(CONVEYS, refusal, fact=fact, paragraph=paragraph)
    return {**(reject(state, CONVEYS, reason) if reason else accept(CONVEYS)), "usage": usage}


def extract(state: AkewState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Extract all triplets of the paragraph, without filters; an unparsable reply gives no
    triplets.
    """
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
    """Assemble the item."""
    parts = ("subject", "relation", "object")
    triplets = [{part: triplet[part] for part in parts} for triplet in state["triplets"]]
    return {"result": {"paragraph": state["paragraph"], "triplets": triplets}}


def build(recipe: Recipe = "best") -> Graph:
    """Build the graph write -> check_text -> judge_text -> verify -> extract -> finish; recipe
    `paper` skips check_text and judge_text.
    """
    checks = (check_text, judge_text) if recipe == "best" else ()
    again = dict.fromkeys((*checks, verify), write)
    return checking_graph(
        "build_akew", AkewState, write, *checks, verify, extract, finish, checks=again
    )


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """Return the filters in order; the paper only has the judge, followed by human review."""
    conveys = FilterInfo(
        rejects="According to the judge, the text does not convey the fact.",
        published="not published; people removed unaligned paragraphs",
    )
    reads_as = FilterInfo(
        rejects="The judge finds a refusal, a comment, an aside, an instruction or parts of the "
        "prompt in the text."
    )
    return {
        **({**describe(TEXT_FILTERS), READS_AS: reads_as} if recipe == "best" else {}),
        CONVEYS: conveys,
    }


def sample(prompt: str) -> str:
    """Return a reply of typical length: a paragraph, a verdict, or six triplets (AKEW, section 4.1
    and Table 5).
    """
    if SHIPPED[READS_AS].task[:40] in prompt:
        return "usable"
    if SHIPPED[CONVEYS].task[:40] in prompt:
        return "True"
    if f"write {NONE}" in prompt:
        return "\n".join(
            f"Subject number {n}; is located near to; object number {n}" for n in range(6)
        )
    fact = prompt.rpartition("Fact: ")[2].partition("\n")[0]
    return f"{fact} {SAMPLE}"


PIPELINE = Pipeline(
    name="akew",
    build=build,
    filters=filters,
    prompts=lambda recipe: ("paragraph", *([READS_AS] if recipe == "best" else []), CONVEYS),
    sample=sample,
)
